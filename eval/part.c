#include "eval/part.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/text.h"
#include "datasets/listed.h"
#include "eval/compare_internal.h"
#include "eval/warnings.h"

#define SCHEMA "qbench.part/1"
#define PART_MAX ((size_t)4 << 30)
#define SAMPLES_MAX ((int64_t)1 << 32)

void qb_part_release(qb_part *part) {
    for (int32_t i = 0; i < part->n_facts; i++) QB_FREE_ALL(part->fact[i].key, part->fact[i].value);
    QB_FREE_ALL(part->name, part->calibrated, part->results); /* samples are not its own */
    json_decref(part->record);
    *part = (qb_part){0};
}

qb_status qb_part_fact_add(qb_ctx *cx, qb_part *part, const char *key, const char *value) {
    if (part->n_facts == QB_PART_FACTS)
        return qb_fail(cx, QB_STATUS_FORMAT, "same: expected at most %d keys", QB_PART_FACTS);
    qb_part_fact *fact = &part->fact[part->n_facts++];
    *fact = (qb_part_fact){qb_text_clean(cx, key), qb_text_clean(cx, value)};
    return fact->key && fact->value ? QB_OK : cx->code;
}

int64_t qb_part_shared(const qb_part *part, const uint64_t *key, int64_t n) {
    int64_t shared = 0;
    for (int64_t i = 0, k = 0; i < n; i++) {
        while (k < part->n_samples && part->sample[k] < key[i]) k++;
        shared += k < part->n_samples && part->sample[k] == key[i];
    }
    return shared;
}

/* ---- what was measured of each sample -------------------------------------------------------- */

/* What the results hold. */
typedef struct content {
    qb_labels labels;
    qb_dataset *dataset;
    qb_loader_options loader; /* of the data set alone; the task's state refers to it */
    qb_answers answers;
    int64_t shared; /* of the calibration's samples, those that are among them */
    const qb_task *task;
    void *state;
} content;

static void pack_answer(qb_pack *p, qb_answer *a) {
    double *const number[] = {&a->ref_square, &a->out_square, &a->dot,        &a->err_square,
                              &a->max_error,  &a->ref_max,    &a->divergence, &a->target_square};
    QB_PACK(p, a->label);
    QB_PACK(p, a->top1);
    QB_PACK(p, a->label_rank);
    QB_PACK(p, a->size);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) QB_PACK(p, *number[i]);
    const bool right = a->label >= 0 && a->top1 == a->label;
    if (a->label < -1 || a->top1 < QB_NO_ANSWER || a->label_rank < -1 || a->size < 0)
        qb_pack_refuse(p, "an answer of no class");
    if (a->label_rank >= 0 && (a->label < 0 || right != (a->label_rank == 0)))
        qb_pack_refuse(p, "an answer that contradicts its class");
    if (a->ref_square < 0 || a->out_square < 0 || a->max_error < 0 || a->ref_max < 0)
        qb_pack_refuse(p, "an answer with a sum of squares below 0");
}

/* Samples, skipped ones, their hashes: sums over the parts. */
static void pack_totals(qb_pack *p, qb_stream_result *total) {
    qb_stream_result own = p->reads ? (qb_stream_result){0} : *total;
    QB_PACK(p, own.samples);
    QB_PACK(p, own.skipped);
    QB_PACK(p, own.data_sum);
    if (own.samples < 0 || own.samples > SAMPLES_MAX || own.skipped < 0 ||
        own.skipped > SAMPLES_MAX) {
        qb_pack_refuse(p, "its number of samples");
        return;
    }
    if (!p->reads) return;
    total->samples += own.samples;
    total->skipped += own.skipped;
    qb_hash_sum(&total->data_sum, own.data_sum);
    const qb_loader_progress sum = {.samples = total->samples, .sum = total->data_sum};
    total->data_hash = qb_loader_progress_hash(&sum);
}

/* Answers of the samples that could be read; an engine's lie together once all are there. */
static qb_status pack_answers(qb_pack *part, int32_t n, int64_t count, qb_answers *a) {
    const int64_t each = part->reads ? count : a->n;
    if (part->reads) {
        a->index = qb_alloc(part->cx, (size_t)count, sizeof *a->index);
        a->answer = qb_alloc(part->cx, (size_t)a->n_engines * (size_t)count, sizeof *a->answer);
        if (!a->index || !a->answer) return part->cx->code;
    }
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        qb_pack *p = &part[i % n];
        bool seen = !p->reads && at < a->n && a->index[at] == i;
        qb_pack_bool(p, &seen);
        if (!seen) continue;
        a->index[at] = i;
        for (int32_t e = 0; e < a->n_engines; e++) pack_answer(p, &a->answer[e * each + at]);
        QB_TRY(p->status);
        at++;
    }
    a->n = at;
    for (int32_t e = 1; part->reads && e < a->n_engines; e++)
        memmove(a->answer + e * at, a->answer + e * each, (size_t)at * sizeof *a->answer);
    return QB_OK;
}

/* Their content, for copies may lie in different parts; in order once all are there. */
static qb_status pack_keys(qb_pack *part, int32_t n, content *c) {
    qb_answers *a = &c->answers;
    int64_t at = 0;
    uint64_t *all = part->reads ? qb_alloc(part->cx, (size_t)a->n, sizeof *all) : NULL;
    if (part->reads && !all) return part->cx->code;
    for (int32_t k = 0; k < n; k++) {
        uint64_t *key = part->reads ? NULL : a->key;
        int64_t n_keys = part->reads || !key ? 0 : a->n, shared = c->shared;
        qb_pack_list(&part[k], (void **)&key, &n_keys, sizeof *key);
        QB_PACK(&part[k], shared);
        if (part[k].status == QB_OK && (n_keys > a->n - at || shared < 0 || shared > n_keys))
            qb_pack_refuse(&part[k], "its samples' content");
        if (!part->reads) continue;
        if (part[k].status == QB_OK) {
            if (n_keys > 0) memcpy(all + at, key, (size_t)n_keys * sizeof *key);
            at += n_keys;
            c->shared += shared;
        }
        qb_free(key);
    }
    if (!part->reads) return part->status;
    qsort(all, (size_t)at, sizeof *all, qb_answers_by_key);
    a->key = all;
    for (int32_t k = 0; k < n; k++) QB_TRY(part[k].status);
    if (at == a->n) return QB_OK;
    return qb_fail(part->cx, QB_STATUS_FORMAT, "%s: content of %lld samples, answers of %lld",
                   part->name, (long long)at, (long long)a->n);
}

/* Which task looked at the outputs; "": none. */
static void pack_task(qb_pack *p, content *c) {
    char *name = (char *)(uintptr_t)(c->task && !p->reads ? c->task->name : "");
    qb_pack_text(p, &name);
    if (!p->reads) return;
    c->task = name && name[0] != '\0' ? qb_task_find(name) : NULL;
    if (name && name[0] != '\0' && (!c->task || !c->task->pack)) qb_pack_refuse(p, "its task");
    qb_free(name);
}

static qb_status pack_content(qb_pack *part, int32_t n, content *c) {
    qb_answers *a = &c->answers;
    for (int32_t k = 0; k < n; k++) {
        int32_t kind = (int32_t)a->kind;
        if (part[k].reads) qb_labels_release(&c->labels);
        QB_PACK(&part[k], a->n_engines);
        QB_PACK(&part[k], kind);
        a->kind = (qb_output_kind)kind;
        if (a->n_engines < 1 || a->n_engines > 4096) qb_pack_refuse(&part[k], "its engines");
        pack_task(&part[k], c);
        pack_totals(&part[k], &a->stream);
        qb_labels_pack(&part[k], &c->labels);
        QB_TRY(part[k].status);
    }
    QB_TRY(qb_dataset_pack(part, n, c->dataset));
    QB_TRY(pack_answers(part, n, qb_dataset_count(c->dataset), a));
    c->loader = (qb_loader_options){.dataset = c->dataset};
    const qb_task_data data = {
        .loader = &c->loader, .labels = &c->labels, .n_engines = a->n_engines};
    if (c->task) QB_TRY(c->task->pack(part, n, &data, &c->state));
    QB_TRY(pack_keys(part, n, c));
    for (int32_t k = 0; k < n; k++) QB_TRY(qb_pack_end(&part[k]));
    return QB_OK;
}

qb_status qb_part_pack(qb_ctx *cx, const qb_compare_options *options, const qb_answers *answers,
                       const qb_task *task, void *state, qb_part *out) {
    content c = {.labels = options->labels ? *options->labels : (qb_labels){0},
                 .dataset = (qb_dataset *)(uintptr_t)options->loader.dataset, /* only written */
                 .answers = *answers,
                 .shared = qb_part_shared(out, answers->key, answers->n),
                 .task = task,
                 .state = state};
    qb_pack p = {.cx = cx};
    const qb_status status = pack_content(&p, 1, &c);
    if (status == QB_OK) {
        out->results = p.out.data;
        out->size = p.out.size;
    } else {
        qb_strbuf_release(&p.out);
    }
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* What the merged results say anew is left out. */
static json_t *strip(json_t *record) {
    static const char *const of_row[] = {
        "metrics", "per_class", "precision_recall", "recall", "confusion", "worst", "paired"};
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(record, "rows"), i,
                       row) for (size_t k = 0; k < sizeof of_row / sizeof *of_row; k++)
        json_object_del(row, of_row[k]);
    json_object_del(record, "classes");
    return record;
}

qb_status qb_part_json(qb_ctx *cx, const qb_part *part, const qb_run *run, char **out) {
    QB_FREED char *record = NULL, *results = NULL;
    char hex[33], data[33];
    QB_TRY(qb_run_json(cx, run, &record));
    QB_TRY(qb_base64_encode(cx, part->results, part->size, &results));
    qb_hash_hex(qb_hash_bytes(part->results, part->size), hex);
    json_auto_t *facts = json_object(), *own = json_loads(record, 0, NULL),
                *calibrated = json_array();
    for (int32_t i = 0; i < part->n_facts; i++)
        json_object_set_new(facts, part->fact[i].key, json_string(part->fact[i].value));
    for (int32_t i = 0; i < part->n_calibrated; i++) {
        const bool none = qb_hash_is_zero(part->calibrated[i]);
        qb_hash_hex(part->calibrated[i], data);
        json_array_append_new(calibrated, json_string(none ? "" : data));
    }
    json_auto_t *root =
        !own ? NULL
             : json_pack("{s:s, s:i, s:i, s:O, s:O, s:O, s:s, s:s}", "schema", SCHEMA, "shard",
                         part->shard, "shards", part->shards, "same", facts, "calibrated",
                         calibrated, "record", strip(own), "results", results, "results_hash", hex);
    QB_FREED char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    if (!text) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory: a part of a comparison");
    QB_TRY_NEW(cx, *out = qb_format(cx, "%s\n", text));
    return QB_OK;
}

/* A text for each: a hash, or "" for no data. */
static qb_status read_calibrated(qb_ctx *cx, const json_t *list, qb_part *out) {
    const size_t n = json_array_size(list);
    out->calibrated = n > 0 && n <= INT32_MAX ? qb_alloc(cx, n, sizeof *out->calibrated) : NULL;
    if (n > 0 && n <= INT32_MAX && !out->calibrated) return cx->code;
    for (size_t i = 0; out->calibrated && i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || (text[0] != '\0' && !qb_hash_parse(text, &out->calibrated[i])))
            return qb_fail(cx, QB_STATUS_FORMAT, "calibrated: expected hashes, or \"\"");
    }
    out->n_calibrated = out->calibrated ? (int32_t)n : 0;
    if (out->n_calibrated > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "calibrated: expected a list of hashes");
}

static qb_status read_part(qb_ctx *cx, json_t *root, qb_part *out) {
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const char *results = json_string_value(json_object_get(root, "results"));
    const char *hash = json_string_value(json_object_get(root, "results_hash"));
    const json_int_t shard = json_integer_value(json_object_get(root, "shard")),
                     shards = json_integer_value(json_object_get(root, "shards"));
    const char *key;
    json_t *value;
    qb_hash expected;
    if (!schema || strcmp(schema, SCHEMA) != 0)
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "schema: expected " SCHEMA ", as compare --shard writes it, got %s",
                       schema ? schema : "none");
    if (shards < 1 || shards > QB_PARTS_MAX || shard < 1 || shard > shards)
        return qb_fail(cx, QB_STATUS_FORMAT, "shard, shards: expected 1 <= shard <= shards <= %d",
                       QB_PARTS_MAX);
    out->shard = (int32_t)shard;
    out->shards = (int32_t)shards;
    json_object_foreach(json_object_get(root, "same"), key, value) {
        const char *text = json_string_value(value);
        if (!text) return qb_fail(cx, QB_STATUS_FORMAT, "same: expected strings");
        QB_TRY(qb_part_fact_add(cx, out, key, text));
    }
    out->record = json_incref(json_object_get(root, "record"));
    QB_TRY(read_calibrated(cx, json_object_get(root, "calibrated"), out));
    if (!out->record) return qb_fail(cx, QB_STATUS_FORMAT, "record: expected an object");
    if (!results) return qb_fail(cx, QB_STATUS_FORMAT, "results: expected a string");
    QB_TRY(qb_base64_decode(cx, "results", results, &out->results, &out->size));
    if (hash && qb_hash_parse(hash, &expected) &&
        qb_hash_equal(expected, qb_hash_bytes(out->results, out->size)))
        return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "results: damaged: they have not the hash results_hash");
}

qb_status qb_part_parse(qb_ctx *cx, const char *name, const char *text, size_t size, qb_part *out) {
    json_error_t error;
    qb_part part = {.name = qb_strdup(cx, name)};
    if (!part.name) return cx->code;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    qb_status status =
        root ? read_part(cx, root, &part)
             : qb_fail(cx, QB_STATUS_FORMAT, "%d:%d: %s", error.line, error.column, error.text);
    json_decref(root);
    if (status == QB_OK) {
        *out = part;
        return QB_OK;
    }
    qb_part_release(&part);
    return qb_wrap(cx, "%s", name);
}

qb_status qb_part_load(qb_ctx *cx, const char *path, qb_part *out) {
    QB_FREED char *text = NULL;
    size_t size;
    QB_TRY(qb_file_read(cx, path, PART_MAX, &text, &size));
    return qb_part_parse(cx, path, text, size, out);
}

/* ---- merging --------------------------------------------------------------------------------- */

static const char *value_of(const qb_part *part, const char *key) {
    for (int32_t i = 0; i < part->n_facts; i++)
        if (strcmp(part->fact[i].key, key) == 0) return part->fact[i].value;
    return "none";
}

static qb_status check_same(qb_ctx *cx, const qb_part *a, const qb_part *b) {
    for (int32_t i = 0; i < a->n_facts; i++) {
        const char *key = a->fact[i].key, *other = value_of(b, key);
        if (strcmp(a->fact[i].value, other) != 0)
            return qb_fail(cx, QB_STATUS_MISMATCH, "%s and %s differ in %s: %s, and %s", a->name,
                           b->name, key, a->fact[i].value, other);
    }
    return QB_OK;
}

/* The parts by their numbers. */
static qb_status order_parts(qb_ctx *cx, const qb_part *part, int32_t n, const qb_part **out) {
    const int32_t shards = part[0].shards;
    for (int32_t i = 0; i < n; i++) {
        if (part[i].shards != shards)
            return qb_fail(cx, QB_STATUS_MISMATCH, "%s is a part of %d, %s of %d", part[0].name,
                           (int)shards, part[i].name, (int)part[i].shards);
        const qb_part *twin = out[part[i].shard - 1];
        if (twin)
            return qb_fail(cx, QB_STATUS_MISMATCH, "%s and %s are both part %d/%d", twin->name,
                           part[i].name, (int)part[i].shard, (int)shards);
        out[part[i].shard - 1] = &part[i];
        QB_TRY(check_same(cx, &part[0], &part[i]));
        QB_TRY(check_same(cx, &part[i], &part[0]));
    }
    for (int32_t k = 0; k < shards; k++)
        if (!out[k])
            return qb_fail(cx, QB_STATUS_NOTFOUND, "part %d/%d is missing", (int)k + 1,
                           (int)shards);
    return QB_OK;
}

/* The first part's record without its accuracy, or a part's pictures. */
static qb_status read_record(qb_ctx *cx, const qb_part *part, bool pictures, qb_run **out) {
    json_t *copy = json_copy(part->record);
    if (copy && !pictures) json_object_del(copy, "samples");
    QB_FREED char *text = copy ? json_dumps(copy, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(copy);
    if (!text) return qb_fail(cx, QB_STATUS_FORMAT, "%s: record: damaged", part->name);
    return qb_run_parse(cx, part->name, text, strlen(text), out);
}

/* The pictures of the samples that are shown, from the parts that have them. */
static qb_status find_pictures(qb_ctx *cx, const qb_part *const *part, int32_t n, qb_run *run) {
    for (int32_t k = 0; k < n; k++) {
        qb_run *own;
        QB_TRY(read_record(cx, part[k], true, &own));
        for (int32_t i = 0; i < run->n_shown; i++)
            for (int32_t j = 0; j < own->n_shown; j++) {
                qb_run_shown *shown = &run->shown[i];
                if (shown->index != own->shown[j].index * n + k) continue;
                qb_free(shown->thumbnail);
                shown->thumbnail = own->shown[j].thumbnail;
                own->shown[j].thumbnail = NULL;
            }
        qb_run_free(own);
    }
    return QB_OK;
}

/* Those of the first part that the numbers do not tell: `name` moves from `from` to the record. */
static qb_status keep_warnings(qb_ctx *cx, const qb_run_warning *from, int32_t n, const char *name,
                               qb_run *run) {
    for (int32_t i = 0; i < n; i++)
        if (strcmp(from[i].name, name) == 0)
            QB_TRY(qb_warning_add(cx, run, name, from[i].row, "%s", from[i].text));
    return QB_OK;
}

static qb_status score(qb_ctx *cx, content *c, const qb_part *const *part, int32_t n, qb_run *run) {
    const qb_compare_options options = {.loader = c->loader, .labels = &c->labels};
    qb_run before = *run; /* its warnings */
    run->warning = NULL;
    run->n_warnings = 0;
    qb_status status = QB_OK;
    QB_GO(qb_score_fill(cx, &c->answers, run));
    if (c->task) QB_GO(c->task->finish(cx, c->state, run));
    QB_GO(qb_worst_fill(cx, &options, &c->answers, c->task, c->state, run));
    QB_GO(find_pictures(cx, part, n, run));
    QB_GO(keep_warnings(cx, before.warning, before.n_warnings, "contention", run));
    QB_GO(qb_warnings_derive(cx, run));
    QB_GO(keep_warnings(cx, before.warning, before.n_warnings, "class-numbers", run));
    QB_GO(keep_warnings(cx, before.warning, before.n_warnings, "calibration-data", run));
    QB_GO(keep_warnings(cx, before.warning, before.n_warnings, "calibration-preprocess", run));
out:
    for (int32_t i = 0; i < before.n_warnings; i++) {
        qb_run_warning *w = &before.warning[i];
        char *const text[] = {w->name, w->touches, w->row, w->text};
        for (int k = 0; k < 4; k++) qb_free(text[k]);
    }
    qb_free(before.warning);
    return status;
}

static qb_status merge(qb_ctx *cx, const qb_part *const *part, int32_t n, content *c, qb_run *run) {
    QB_FREED qb_pack *pack = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *pack));
    for (int32_t k = 0; k < n; k++)
        pack[k] = (qb_pack){.cx = cx,
                            .name = part[k]->name,
                            .reads = true,
                            .at = part[k]->results,
                            .left = part[k]->size};
    QB_TRY(pack_content(pack, n, c));
    if (c->answers.n_engines != run->n_rows)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: results of %d engines, %d rows", part[0]->name,
                       (int)c->answers.n_engines, (int)run->n_rows);
    return score(cx, c, part, n, run);
}

qb_status qb_parts_merge(qb_ctx *cx, const qb_part *part, int32_t n, qb_run **out,
                         int64_t *shared) {
    const qb_part *order[QB_PARTS_MAX] = {NULL};
    content c = {0};
    qb_run *run = NULL;
    qb_status status = QB_OK;
    QB_GO(order_parts(cx, part, n, order));
    QB_GO(read_record(cx, order[0], false, &run));
    QB_GO(qb_dataset_list(cx, run->dataset, &c.dataset));
    QB_GO(merge(cx, order, part[0].shards, &c, run));
    QB_GO(qb_run_clean(cx, run));
    *shared = c.shared;
    *out = QB_MOVE(run);
out:
    if (c.task && c.state) c.task->close(c.state);
    qb_answers_release(&c.answers);
    qb_labels_release(&c.labels);
    qb_dataset_close(c.dataset);
    qb_run_free(run);
    return status;
}
