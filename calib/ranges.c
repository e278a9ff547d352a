#include "calib/ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_kind.h"
#include "base/json_clean.h"
#include "base/text.h"
#include "calib/ranges_internal.h"

#define QB_CALIB_FORMAT(name) extern const qb_calib_format qb_calib_format_##name;
#include "calib/formats.def"

static const qb_calib_format *const formats[] = {
#define QB_CALIB_FORMAT(name) &qb_calib_format_##name,
#include "calib/formats.def"
};
enum { N_FORMATS = sizeof formats / sizeof formats[0], NAME_LIMIT = 1024 };

const qb_calib_format *const *qb_calib_formats(int32_t *n) {
    *n = N_FORMATS;
    return formats;
}

qb_status qb_calib_format_find(qb_ctx *cx, const char *name, const qb_calib_format **out) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf names = {0};
    for (int32_t i = 0; i < N_FORMATS; i++) {
        qb_strbuf_addf(&names, "%s%s", i ? ", " : "", formats[i]->name);
        if (strcmp(formats[i]->name, name) != 0) continue;
        *out = formats[i];
        return QB_OK;
    }
    return qb_fail(cx, QB_STATUS_USAGE, "unknown calibration format '%s': expected one of %s", name,
                   names.data ? names.data : "the known ones");
}

/* ---- the list ---- */

static qb_status bad_name(qb_ctx *cx, size_t n) {
    return qb_fail(cx, QB_STATUS_FORMAT, "a name of %zu bytes, expected 1 to %d without zeros", n,
                   NAME_LIMIT);
}

qb_status qb_ranges_add(qb_ctx *cx, qb_ranges *ranges, const char *name, size_t n, double lo,
                        double hi) {
    if (n == 0 || n > NAME_LIMIT || memchr(name, '\0', n)) return bad_name(cx, n);
    if (!isfinite((float)lo) || !isfinite((float)hi) || lo > hi)
        return qb_fail(cx, QB_STATUS_FORMAT, "'%.*s': range %g to %g", (int)n, name, lo, hi);
    if (ranges->n == QB_TABLE_ENTRIES)
        return qb_fail(cx, QB_STATUS_FORMAT, "more than %d names", QB_TABLE_ENTRIES);
    QB_TRY(
        qb_grow(cx, &ranges->item, &ranges->capacity, (size_t)ranges->n + 1, sizeof *ranges->item));
    QB_FREED char *copy = QB_NEW(cx, qb_format(cx, "%.*s", (int)n, name));
    QB_FREED char *clean = QB_NEW(cx, qb_text_clean(cx, copy)); /* as the model's names are */
    if (strlen(clean) > NAME_LIMIT) return bad_name(cx, strlen(clean));
    ranges->item[ranges->n++] = (qb_named_range){.name = QB_MOVE(clean), .lo = lo, .hi = hi};
    return QB_OK;
}

void qb_ranges_release(qb_ranges *ranges) {
    for (int32_t i = 0; i < ranges->n; i++) qb_free(ranges->item[i].name);
    qb_free(ranges->item);
    *ranges = (qb_ranges){0};
}

/* ---- files ---- */

static const qb_calib_format *guess(const char *bytes, size_t size) {
    for (int32_t i = 0; i < N_FORMATS; i++)
        if (formats[i]->probe(bytes, size)) return formats[i];
    return NULL;
}

/* By name, then as in the file. */
static int by_name(const void *a, const void *b) {
    const qb_named_range *x = *(const qb_named_range *const *)a;
    const qb_named_range *y = *(const qb_named_range *const *)b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

static char *place_text(const qb_ranges *ranges, const qb_named_range *range, char *text,
                        size_t n) {
    if (range->line > 0)
        snprintf(text, n, "line %lld", (long long)range->line);
    else
        snprintf(text, n, "entry %lld", (long long)(range - ranges->item) + 1);
    return text;
}

static qb_status contradiction(qb_ctx *cx, const qb_ranges *ranges, const qb_named_range *first,
                               const qb_named_range *second) {
    char at[2][32];
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "'%s' is there twice: with the scale %.6g (range %.6g to %.6g) in %s, and %.6g "
                   "(%.6g to %.6g) in %s",
                   first->name, qb_named_range_amax(first) / 127, first->lo, first->hi,
                   place_text(ranges, first, at[0], sizeof at[0]),
                   qb_named_range_amax(second) / 127, second->lo, second->hi,
                   place_text(ranges, second, at[1], sizeof at[1]));
}

/* Repeats of the same range are harmless. */
static qb_status check_names_once(qb_ctx *cx, const qb_ranges *ranges) {
    QB_FREED const qb_named_range **sorted =
        QB_NEW(cx, qb_alloc(cx, (size_t)ranges->n, sizeof(qb_named_range *)));
    for (int32_t i = 0; i < ranges->n; i++) sorted[i] = &ranges->item[i];
    qsort(sorted, (size_t)ranges->n, sizeof(qb_named_range *), by_name);
    for (int32_t i = 1; i < ranges->n; i++) {
        const qb_named_range *x = sorted[i - 1], *y = sorted[i];
        if (strcmp(x->name, y->name) == 0 && (x->lo != y->lo || x->hi != y->hi))
            QB_TRY(contradiction(cx, ranges, x, y));
    }
    return QB_OK;
}

qb_status qb_ranges_parse(qb_ctx *cx, const char *name, const char *bytes, size_t size,
                          const qb_calib_format **format, qb_ranges *out) {
    const qb_calib_format *used = *format ? *format : guess(bytes, size);
    if (!used) {
        qb_fail_kind(cx, "not a calibration in a format that is known", bytes, size);
        return qb_wrap(cx, "%s", name);
    }
    QB_RELEASED(qb_ranges_release) qb_ranges ranges = {0};
    qb_status status = used->read(cx, bytes, size, &ranges);
    if (status == QB_OK && ranges.n == 0) status = qb_fail(cx, QB_STATUS_FORMAT, "no ranges in it");
    if (status == QB_OK) status = check_names_once(cx, &ranges);
    if (status != QB_OK) return qb_wrap(cx, "%s (%s)", name, used->name);
    *format = used;
    *out = QB_MOVE(ranges);
    return QB_OK;
}

qb_status qb_ranges_load(qb_ctx *cx, const char *path, const qb_calib_format **format,
                         qb_ranges *out) {
    QB_FREED char *bytes = NULL;
    size_t size = 0;
    QB_TRY(qb_file_read(cx, path, QB_RANGES_FILE_LIMIT, &bytes, &size));
    return qb_ranges_parse(cx, path, bytes, size, format, out);
}

qb_status qb_ranges_save(qb_ctx *cx, const qb_ranges *ranges, const qb_calib_format *format,
                         const qb_graph *graph, const char *path) {
    qb_strbuf text = {0};
    qb_status status = format->write(cx, ranges, graph, &text);
    if (status == QB_OK && text.failed) status = qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    if (status == QB_OK) status = qb_file_write(cx, path, text.data ? text.data : "", text.size);
    qb_strbuf_release(&text);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s (%s)", path, format->name);
}

/* ---- what formats share ---- */

bool qb_line_next(const char **at, const char *end, qb_line *line) {
    if (*at >= end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    if (!stop) stop = end;
    line->text = *at;
    line->n = (size_t)(stop - *at);
    line->number++;
    if (line->n > 0 && line->text[line->n - 1] == '\r') line->n--;
    *at = stop < end ? stop + 1 : end;
    return true;
}

qb_status qb_ranges_add_line(qb_ctx *cx, qb_ranges *ranges, const qb_line *line, size_t n,
                             double amax) {
    QB_TRY_WRAP(cx, qb_ranges_add(cx, ranges, line->text, n, -amax, amax), "line %lld",
                (long long)line->number);
    ranges->item[ranges->n - 1].line = line->number;
    return QB_OK;
}

bool qb_line_number(const char *text, size_t n, double *out) {
    char copy[64], *stop;
    while (n > 0 && (*text == ' ' || *text == '\t')) text++, n--;
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
    if (n == 0 || n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    *out = strtod(copy, &stop);
    return stop == copy + n;
}

const qb_named_range *qb_ranges_find(const qb_ranges *ranges, const char *name) {
    for (int32_t i = 0; i < ranges->n; i++)
        if (strcmp(ranges->item[i].name, name) == 0) return &ranges->item[i];
    return NULL;
}

double qb_named_range_amax(const qb_named_range *range) {
    return fmax(fabs(range->lo), fabs(range->hi));
}

qb_status qb_ranges_check_line_name(qb_ctx *cx, const char *name) {
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < ' ')
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "the name of tensor '%s' has a control character", name);
    return QB_OK;
}

qb_status qb_ranges_parse_json(qb_ctx *cx, const char *bytes, size_t size, json_t **out) {
    json_error_t error;
    json_auto_t *root =
        json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!root)
        return qb_fail(cx, QB_STATUS_FORMAT, "line %d, column %d: %s", error.line, error.column,
                       error.text);
    if (!json_is_object(root)) return qb_fail(cx, QB_STATUS_FORMAT, "expected a JSON object");
    if (!qb_json_clean(root)) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    *out = QB_MOVE(root);
    return QB_OK;
}

qb_status qb_ranges_write_json(qb_ctx *cx, const qb_ranges *ranges, json_t *root, const char *key,
                               json_t *(*value)(const qb_named_range *range), qb_strbuf *out) {
    json_auto_t *own = root;
    json_t *tensors = json_object();
    if (json_object_set_new(own, key, tensors) != 0)
        return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    for (int32_t i = 0; i < ranges->n; i++) {
        json_t *one = value(&ranges->item[i]);
        if (!one) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
        if (json_object_set_new(tensors, ranges->item[i].name, one) != 0)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "the name of tensor '%s' is not UTF-8",
                           ranges->item[i].name);
    }
    QB_FREED char *text = json_dumps(own, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    qb_strbuf_add(out, text);
    qb_strbuf_add(out, "\n");
    return QB_OK;
}

bool qb_ranges_is_json_with(const char *bytes, size_t size, const char *word) {
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", bytes[i]) && bytes[i]) i++;
    return i < size && bytes[i] == '{' && memmem(bytes, size, word, strlen(word)) != NULL;
}
