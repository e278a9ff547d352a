/* Parts of a run: their text, and tables that become one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/strbuf.h"
#include "calib/table.h"
#include "datasets/loader.h"

char *qb_shards_text(const qb_shards *shards, char *text, size_t n) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < shards->n && used < n; i++)
        if (shards->has[i])
            used += (size_t)snprintf(text + used, n - used, "%s%d", used ? "," : "", i + 1);
    if (shards->n > 0 && used < n) snprintf(text + used, n - used, "/%d", shards->n);
    return text;
}

bool qb_shards_parse(const char *text, qb_shards *out) {
    qb_shards shards = {0};
    const char *slash = strchr(text, '/');
    if (*text == '\0') {
        *out = shards;
        return true;
    }
    char *end;
    const long n = slash ? strtol(slash + 1, &end, 10) : 0;
    if (n < 1 || n > QB_TABLE_SHARDS || *end != '\0') return false;
    bool all = true;
    for (const char *at = text; at < slash; at = end + (end < slash)) {
        const long i = strtol(at, &end, 10);
        if (end == at || i < 1 || i > n || (end < slash && *end != ',')) return false;
        shards.has[i - 1] = true;
    }
    for (long i = 0; i < n; i++) all = all && shards.has[i];
    shards.n = (int32_t)n;
    *out = all ? (qb_shards){0} : shards;
    return true;
}

/* ---- merging ---- */

typedef struct merger {
    qb_ctx *cx;
    const qb_table *x, *y;
    const char *a, *b; /* their files */
} merger;

static qb_status refuse(const merger *m, const char *what, const char *a, const char *b) {
    return qb_fail(m->cx, QB_STATUS_MISMATCH, "cannot merge %s and %s: %s: %s and %s", m->a, m->b,
                   what, a, b);
}

static qb_status check_origin(const merger *m) {
    const qb_table *a = m->x, *b = m->y;
    if (!qb_hash_equal(a->model_hash, b->model_hash)) {
        char one[33], other[33];
        qb_hash_hex(a->model_hash, one);
        qb_hash_hex(b->model_hash, other);
        return refuse(m, "different models", one, other);
    }
    if (!a->preprocess || !b->preprocess || !a->sample || !b->sample)
        return qb_fail(m->cx, QB_STATUS_MISMATCH,
                       "cannot merge %s and %s: %s does not say which samples it holds", m->a, m->b,
                       a->preprocess && a->sample ? m->b : m->a);
    if (strcmp(a->preprocess, b->preprocess) != 0)
        return refuse(m, "different preprocessing", a->preprocess, b->preprocess);
    return QB_OK;
}

/* Samples that both hold, by content; both lists ascend. */
static int64_t count_common(const qb_table *a, const qb_table *b) {
    int64_t common = 0;
    for (int64_t i = 0, k = 0; i < a->samples && k < b->samples;) {
        const uint64_t left = a->sample[i], right = b->sample[k];
        common += left == right;
        i += left <= right;
        k += right <= left;
    }
    return common;
}

static qb_status check_shards(const merger *m) {
    const qb_shards *a = &m->x->shards, *b = &m->y->shards;
    char one[256], other[256];
    qb_shards_text(a, one, sizeof one);
    qb_shards_text(b, other, sizeof other);
    if (a->n != b->n)
        return refuse(m, "not parts of one run", a->n ? one : "all of the data",
                      b->n ? other : "all of the data");
    if (a->n > 0 && strcmp(m->x->dataset, m->y->dataset) != 0)
        return refuse(m, "parts of different data", m->x->dataset, m->y->dataset);
    for (int32_t i = 0; i < a->n; i++)
        if (a->has[i] && b->has[i])
            return qb_fail(m->cx, QB_STATUS_MISMATCH,
                           "cannot merge %s and %s: both hold shard %d/%d (%s and %s)", m->a, m->b,
                           i + 1, a->n, one, other);
    const int64_t common = a->n > 0 ? 0 : count_common(m->x, m->y);
    if (common == 0) return QB_OK;
    return qb_fail(m->cx, QB_STATUS_MISMATCH,
                   "cannot merge %s and %s: they overlap: %lld of %lld samples are in both", m->a,
                   m->b, (long long)common,
                   (long long)(m->x->samples < m->y->samples ? m->x->samples : m->y->samples));
}

static void join_shards(qb_shards *into, const qb_shards *from) {
    bool all = true;
    for (int32_t i = 0; i < into->n; i++) {
        into->has[i] = into->has[i] || from->has[i];
        all = all && into->has[i];
    }
    if (all) *into = (qb_shards){0};
}

/* A sample of the union: where its extremes are. Equal keys stand for equal content. */
typedef struct origin {
    const qb_table *table;
    int64_t at;
} origin;

/* The samples of both in ascending order; new memory. */
static origin *join_samples(qb_ctx *cx, const qb_table *a, const qb_table *b) {
    const int64_t n = a->samples + b->samples;
    origin *out = qb_alloc(cx, (size_t)n, sizeof *out);
    for (int64_t i = 0, k = 0, at = 0; out && at < n; at++) {
        const bool left = k == b->samples || (i < a->samples && a->sample[i] <= b->sample[k]);
        out[at] = left ? (origin){a, i++} : (origin){b, k++};
    }
    return out;
}

/* Extremes of a tensor that one of the tables may not have. */
static void fill_extremes(const origin *samples, qb_table_entry *entry, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const qb_table_entry *from = qb_table_find(samples[i].table, entry->name);
        entry->sample_min[i] = from ? from->sample_min[samples[i].at] : INFINITY;
        entry->sample_max[i] = from ? from->sample_max[samples[i].at] : -INFINITY;
    }
}

/* The names in a and b, which are "x" or "x+y", each once and in order: "x+y+z". */
static char *join_names(qb_ctx *cx, const char *a, const char *b) {
    qb_strbuf joined = {0};
    char *result = NULL;
    QB_FREED char *both = qb_format(cx, "%s+%s", a, b);
    /* n letters that are all "+" part n + 1 names, all empty: ranks have no name yet. */
    QB_FREED char **part = both ? qb_alloc(cx, strlen(both) + 1, sizeof *part) : NULL;
    size_t n = 0;
    for (char *rest = both; part && rest;) part[n++] = strsep(&rest, "+");
    if (part) qsort(part, n, sizeof *part, qb_by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(part[i], part[i - 1]) != 0)
            qb_strbuf_addf(&joined, "%s%s", i ? "+" : "", part[i]);
    if (part && qb_strbuf_take(cx, &joined, &result) != QB_OK) result = NULL;
    return result;
}

static qb_status join_tensors(qb_ctx *cx, const qb_table *from, qb_table *into) {
    for (int32_t i = 0; i < from->n_entries; i++) {
        qb_table_entry *entry;
        QB_TRY(qb_table_slot(cx, into, from->entry[i].name, &entry));
        qb_stats_merge(entry->stats, from->entry[i].stats);
        if (into->per_channel)
            QB_TRY(qb_channels_merge(cx, &entry->channels, &from->entry[i].channels));
    }
    return QB_OK;
}

/* Statistics and samples of both, into an empty table. */
static qb_status join_data(const merger *m, qb_table *both) {
    const qb_table *a = m->x, *b = m->y;
    qb_ctx *cx = m->cx;
    both->per_channel = a->per_channel && b->per_channel;
    QB_TRY(join_tensors(cx, a, both));
    QB_TRY(join_tensors(cx, b, both));
    QB_FREED origin *samples = QB_NEW(cx, join_samples(cx, a, b));
    both->samples = a->samples + b->samples;
    QB_TRY_NEW(cx, both->sample = qb_alloc(cx, (size_t)both->samples, sizeof *both->sample));
    for (int64_t i = 0; i < both->samples; i++)
        both->sample[i] = samples[i].table->sample[samples[i].at];
    const bool recorded = (a->n_recorded > 0 || a->samples == 0) &&
                          (b->n_recorded > 0 || b->samples == 0) &&
                          both->samples <= QB_TABLE_SAMPLES;
    if (recorded) QB_TRY(qb_table_record(cx, both, both->samples));
    for (int32_t i = 0; i < both->n_entries && recorded; i++)
        fill_extremes(samples, &both->entry[i], both->samples);
    return QB_OK;
}

static void join_rest(const qb_table *a, const qb_table *b, qb_table *both) {
    both->skipped = a->skipped + b->skipped;
    both->blank = a->blank + b->blank;
    both->model_hash = a->model_hash;
    both->data_sum = a->data_sum;
    qb_hash_sum(&both->data_sum, b->data_sum);
    both->data_hash = qb_loader_progress_hash(
        &(qb_loader_progress){.samples = both->samples, .sum = both->data_sum});
    both->shards = a->shards;
    join_shards(&both->shards, &b->shards);
}

static qb_status join(const merger *m, qb_table **out) {
    QB_RELEASED(qb_table_free_at) qb_table *both = NULL;
    QB_TRY(qb_table_create(m->cx, 0, &both));
    QB_TRY(join_data(m, both));
    join_rest(m->x, m->y, both);
    QB_TRY_NEW(m->cx, both->model = qb_strdup(m->cx, m->x->model));
    QB_TRY_NEW(m->cx, both->preprocess = qb_strdup(m->cx, m->x->preprocess));
    QB_TRY_NEW(m->cx, both->dataset = join_names(m->cx, m->x->dataset, m->y->dataset));
    *out = QB_MOVE(both);
    return QB_OK;
}

qb_status qb_table_merge(qb_ctx *cx, const qb_table *x, const qb_table *y, const char *a,
                         const char *b, qb_table **out) {
    const merger m = {cx, x, y, a, b};
    QB_TRY(check_origin(&m));
    QB_TRY(check_shards(&m));
    return join(&m, out);
}
