/* The timing cache's memory and file. */
#include "engine/timings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/index.h"
#include "base/log.h"
#include "base/strbuf.h"

#define FIRST_LINE "qbench timings 1"
#define SECTION "device "
#define COMPILED "compiled\t"
#define FILE_LIMIT ((size_t)256 << 20)
#define TIME_LIMIT 1e10 /* microseconds: three hours; three digits behind the point stay exact */

typedef struct timing {
    const char *tactic, *problem;
    qb_timing value;
} timing;

struct qb_timings {
    qb_arena *arena; /* the strings */
    const char *device;
    const char *others; /* other devices' sections, as they were */
    timing *entry;
    size_t n, capacity;
    qb_index index; /* of the entries by tactic and problem */
    bool changed;   /* since it was loaded */
    qb_compiled *compiled;
    int32_t n_compiled; /* of them loaded */
};

static uint32_t hash_of(const char *tactic, const char *problem) {
    return qb_index_hash(tactic, strlen(tactic)) ^ 31 * qb_index_hash(problem, strlen(problem));
}

static timing *find(const qb_timings *t, const char *tactic, const char *problem) {
    const uint32_t hash = hash_of(tactic, problem);
    int32_t i;
    for (size_t at = 0; (i = qb_index_next(&t->index, hash, &at)) >= 0;)
        if (strcmp(t->entry[i].tactic, tactic) == 0 && strcmp(t->entry[i].problem, problem) == 0)
            return &t->entry[i];
    return NULL;
}

bool qb_timings_find(const qb_timings *timings, const char *tactic, const char *problem,
                     qb_timing *value) {
    const timing *entry = find(timings, tactic, problem);
    if (entry) *value = entry->value;
    return entry != NULL;
}

bool qb_timings_have(const qb_timings *timings, const char *tactic) {
    for (size_t i = 0; i < timings->n; i++)
        if (strcmp(timings->entry[i].tactic, tactic) == 0) return true;
    return false;
}

/* Through the file's text, so that a build with the file sees what the build that wrote it saw. */
static double rounded(double seconds) {
    char text[64];
    snprintf(text, sizeof text, "%.3f", seconds * 1e6);
    return seconds < 0 ? -1.0 : strtod(text, NULL) * 1e-6;
}

/* One that is not there. */
static qb_status append(qb_ctx *cx, qb_timings *timings, const char *tactic, const char *problem,
                        qb_timing value) {
    QB_TRY(
        qb_grow(cx, &timings->entry, &timings->capacity, timings->n + 1, sizeof *timings->entry));
    timing added = {.tactic = qb_arena_strdup(cx, timings->arena, tactic),
                    .problem = qb_arena_strdup(cx, timings->arena, problem),
                    .value = value};
    if (!added.tactic || !added.problem) return cx->code;
    QB_TRY(qb_index_add(cx, &timings->index, hash_of(tactic, problem), (int32_t)timings->n));
    timings->entry[timings->n++] = added;
    return QB_OK;
}

qb_status qb_timings_add(qb_ctx *cx, qb_timings *timings, const char *tactic, const char *problem,
                         qb_timing *value) {
    timing *before = find(timings, tactic, problem);
    value->seconds = rounded(value->seconds);
    timings->changed = true;
    if (!before) return append(cx, timings, tactic, problem, *value);
    before->value = *value;
    return QB_OK;
}

static qb_status bad_line(qb_ctx *cx, const char *name, int32_t line, const char *expected) {
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: line %d: expected %s", name, line, expected);
}

/* Cuts the number of an algorithm off the line; false where there is none. */
static bool parse_variant(char *tab, int32_t *variant) {
    char *end;
    const long number = strtol(tab + 1, &end, 10);
    *tab = '\0';
    *variant = (int32_t)number;
    return end != tab + 1 && !*end && number >= 1 && number <= INT32_MAX;
}

/* "12.5<TAB>tactic<TAB>problem" or "...<TAB>variant"; the line is cut at its tabs. */
static qb_status parse_entry(qb_ctx *cx, qb_timings *t, const char *name, int32_t number,
                             char *line) {
    qb_timing value = {0};
    char *tactic = strchr(line, '\t'), *problem = tactic ? strchr(tactic + 1, '\t') : NULL;
    char *more = problem ? strchr(problem + 1, '\t') : NULL;
    if (!problem || problem == tactic + 1 || !problem[1] || more == problem + 1)
        return bad_line(cx, name, number, "a time, a tactic and a problem between tabs");
    if (more && !parse_variant(more, &value.variant))
        return bad_line(cx, name, number, "the number of an algorithm behind the problem");
    *tactic++ = *problem++ = '\0';
    char *end = line;
    double microseconds = strcmp(line, "-") == 0 ? -1.0 : strtod(line, &end);
    bool taken = end != line;
    if (taken ? *end || !(microseconds >= 0 && microseconds < TIME_LIMIT) : strcmp(line, "-") != 0)
        return bad_line(cx, name, number, "microseconds or '-'");
    if (find(t, tactic, problem)) return QB_OK;
    value.seconds = taken ? rounded(microseconds * 1e-6) : -1.0;
    return append(cx, t, tactic, problem, value);
}

/* The field up to the next tab, which *at moves behind; NULL: there is no tab. */
static char *next_field(char **at) {
    char *field = *at, *tab = strchr(field, '\t');
    if (!tab) return NULL;
    *tab = '\0';
    *at = tab + 1;
    return field;
}

/* "HASH<TAB>HASH OF THE TEXT<TAB>TEXT": what compiled it ends the process on some texts that are
 * damaged. Without the second hash, or with another, the text is compiled anew. */
static qb_status parse_compiled(qb_ctx *cx, qb_timings *t, const char *name, int32_t number,
                                char *line) {
    char *rest = line, *hex = next_field(&rest), *check = hex ? next_field(&rest) : NULL;
    qb_hash key, sum;
    if (!hex || !*rest || !qb_hash_parse(hex, &key))
        return bad_line(cx, name, number, "a hash, a tab and a text behind 'compiled'");
    if (!check || !qb_hash_parse(check, &sum)) { /* earlier versions wrote none */
        qb_debug(cx, "%s: line %d: a compiled kernel without a hash of its text", name,
                 (int)number);
        return QB_OK;
    }
    if (!qb_hash_equal(sum, qb_hash_bytes(rest, strlen(rest)))) {
        qb_warn(
            cx,
            "%s: line %d: a compiled kernel's hash is not that of its text; it is compiled anew",
            name, (int)number);
        return QB_OK;
    }
    return qb_compiled_add(cx, t->compiled, key, rest, strlen(rest));
}

static qb_status parse(qb_ctx *cx, qb_timings *t, const char *name, char *text) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf others = {0};
    bool ours = false, any = false;
    int32_t number = 0;
    for (char *line = text, *next; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = '\0';
        if (++number == 1) {
            if (strcmp(line, FIRST_LINE) != 0)
                QB_TRY(bad_line(cx, name, number, "'" FIRST_LINE "'"));
            continue;
        }
        bool section = strncmp(line, SECTION, strlen(SECTION)) == 0;
        if (section) ours = strcmp(line + strlen(SECTION), t->device) == 0;
        any = any || section;
        if (!any) QB_TRY(bad_line(cx, name, number, "'" SECTION "NAME'"));
        if (!ours) {
            qb_strbuf_add(&others, line);
            qb_strbuf_add(&others, "\n");
        } else if (!section) {
            QB_TRY(strncmp(line, COMPILED, strlen(COMPILED)) == 0
                       ? parse_compiled(cx, t, name, number, line + strlen(COMPILED))
                       : parse_entry(cx, t, name, number, line));
        }
    }
    if (others.failed) return qb_fail(cx, QB_STATUS_NOMEM, "%s: out of memory", name);
    t->others = qb_arena_strdup(cx, t->arena, others.data ? others.data : "");
    if (!t->others) return cx->code;
    t->changed = false;
    t->n_compiled = qb_compiled_count(t->compiled);
    return QB_OK;
}

qb_status qb_timings_parse(qb_ctx *cx, const char *name, const char *text, const char *device,
                           qb_timings **out) {
    QB_FREED char *copy = qb_strdup(cx, text);
    QB_RELEASED(qb_timings_free_at) qb_timings *t = qb_alloc(cx, 1, sizeof *t);
    if (!copy || !t) return cx->code;
    QB_TRY(qb_arena_create(cx, &t->arena));
    QB_TRY(qb_compiled_create(cx, &t->compiled));
    QB_TRY_NEW(cx, t->device = qb_arena_strdup(cx, t->arena, device));
    QB_TRY(parse(cx, t, name, copy));
    *out = QB_MOVE(t);
    return QB_OK;
}

qb_status qb_timings_load(qb_ctx *cx, const char *path, const char *device, qb_timings **out) {
    if (!path || !qb_path_exists(path)) return qb_timings_parse(cx, "", "", device, out);
    QB_FREED char *text = NULL;
    QB_TRY(qb_file_read_text(cx, path, FILE_LIMIT, &text));
    return qb_timings_parse(cx, path, text, device, out);
}

/* What is no line of text stays out of the file. */
static void add_compiled(qb_strbuf *buf, const qb_compiled *compiled) {
    for (int32_t i = 0; i < qb_compiled_count(compiled); i++) {
        qb_hash key;
        size_t bytes;
        char hex[33];
        const char *text = qb_compiled_entry(compiled, i, &key, &bytes);
        if (bytes == 0 || memchr(text, '\n', bytes) || memchr(text, '\0', bytes)) continue;
        qb_hash_hex(key, hex);
        qb_strbuf_addf(buf, COMPILED "%s\t", hex);
        qb_hash_hex(qb_hash_bytes(text, bytes), hex);
        qb_strbuf_addf(buf, "%s\t", hex);
        qb_strbuf_addn(buf, text, bytes);
        qb_strbuf_add(buf, "\n");
    }
}

qb_compiled *qb_timings_compiled(qb_timings *timings) { return timings->compiled; }

qb_status qb_timings_text(qb_ctx *cx, const qb_timings *timings, char **text) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf buf = {0};
    qb_strbuf_addf(&buf, "%s\n%s%s%s\n", FIRST_LINE, timings->others, SECTION, timings->device);
    for (size_t i = 0; i < timings->n; i++) {
        const timing *t = &timings->entry[i];
        if (t->value.seconds < 0)
            qb_strbuf_add(&buf, "-");
        else
            qb_strbuf_addf(&buf, "%.3f", t->value.seconds * 1e6);
        qb_strbuf_addf(&buf, "\t%s\t%s", t->tactic, t->problem);
        if (t->value.variant > 0) qb_strbuf_addf(&buf, "\t%d", (int)t->value.variant);
        qb_strbuf_add(&buf, "\n");
    }
    add_compiled(&buf, timings->compiled);
    return qb_strbuf_take(cx, &buf, text);
}

qb_status qb_timings_save(qb_ctx *cx, const qb_timings *timings, const char *path) {
    if (!timings->changed && qb_compiled_count(timings->compiled) == timings->n_compiled)
        return QB_OK;
    QB_FREED char *text = NULL;
    QB_TRY(qb_timings_text(cx, timings, &text));
    return qb_file_write(cx, path, text, strlen(text));
}

void qb_timings_free(qb_timings *timings) {
    if (!timings) return;
    qb_arena_free(timings->arena);
    qb_compiled_free(timings->compiled);
    qb_index_release(&timings->index);
    QB_FREE_ALL(timings->entry, timings);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void add_desc(qb_strbuf *buf, const qb_desc *d, bool constant) {
    if (d->dtype == QB_DTYPE_NONE) {
        qb_strbuf_add(buf, ";none");
        return;
    }
    char shape[128];
    qb_strbuf_addf(buf, ";%s:%s:%s", qb_dtype_text(d->dtype), qb_layout_text(d->layout),
                   qb_shape_text(&d->shape, shape, sizeof shape));
    if (d->channel_total > 0)
        qb_strbuf_addf(buf, "@%lld/%lld%s", (long long)d->channel_offset,
                       (long long)d->channel_total, d->padded ? "p" : "");
    if (d->q.n > 0) {
        bool zero = false;
        for (int32_t i = 0; d->q.zero && i < d->q.n; i++) zero = zero || d->q.zero[i] != 0;
        qb_strbuf_addf(buf, ":%s%s", d->q.n > 1 ? "c" : "t", zero ? "z" : "");
    }
    if (constant) qb_strbuf_add(buf, "!");
}

static void add_window(qb_strbuf *buf, const qb_window *w) {
    for (int32_t d = 0; d < w->n; d++)
        qb_strbuf_addf(buf, "%sk%llds%lldd%lldp%lld,%lld", d == 0 ? ";" : "/",
                       (long long)w->kernel[d], (long long)w->stride[d], (long long)w->dilation[d],
                       (long long)w->pad_begin[d], (long long)w->pad_end[d]);
}

qb_status qb_problem_key(qb_ctx *cx, const qb_problem *p, const bool *constant, char **out) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf buf = {0};
    qb_strbuf_add(&buf, qb_kind_text(p->kind));
    for (int32_t i = 0; i < p->n_in; i++) add_desc(&buf, &p->in[i], constant && constant[i]);
    add_desc(&buf, &p->out, false);
    add_window(&buf, &p->window);
    add_window(&buf, &p->after);
    qb_strbuf_addf(&buf, ";g%lld;t%d%d;a%d%s;b%d;p%d;r%d;%s%s%s", (long long)p->group,
                   p->transpose_a, p->transpose_b, p->axis, p->zero_nan ? "z" : "", (int)p->binary,
                   (int)p->pool, (int)p->resize, qb_act_text(p->act.kind),
                   p->act_first ? ":first" : "", p->tf32 ? ";tf32" : "");
    qb_problem_add_details(p, &buf);
    return qb_strbuf_take(cx, &buf, out);
}
