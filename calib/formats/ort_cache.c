/* onnxruntime's calibration.cache: lines "tensor amax". */
#include <string.h>

#include "calib/ranges_internal.h"

static bool split(const qb_line *line, size_t *name, double *value) {
    const char *blank = memrchr(line->text, ' ', line->n);
    if (!blank || blank == line->text) return false;
    *name = (size_t)(blank - line->text);
    return qb_line_number(blank, line->n - *name, value);
}

static bool probe(const char *bytes, size_t size) {
    const char *at = bytes;
    qb_line line = {0};
    size_t name;
    double value;
    return qb_line_next(&at, bytes + size, &line) && split(&line, &name, &value);
}

static qb_status read_ranges(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out) {
    const char *at = bytes, *end = bytes + size;
    qb_line line = {0};
    while (qb_line_next(&at, end, &line)) {
        size_t name;
        double amax;
        if (line.n == 0) continue;
        if (!split(&line, &name, &amax) || !(amax >= 0))
            return qb_fail(cx, QB_STATUS_FORMAT,
                           "line %lld: expected a name and a largest magnitude",
                           (long long)line.number);
        QB_TRY(qb_ranges_add_line(cx, out, &line, name, amax));
    }
    return QB_OK;
}

static qb_status write_ranges(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph,
                              qb_strbuf *out) {
    (void)graph;
    for (int32_t i = 0; i < ranges->n; i++) {
        QB_TRY(qb_ranges_check_line_name(cx, ranges->item[i].name));
        qb_strbuf_addf(out, "%s %.9g\n", ranges->item[i].name,
                       qb_named_range_amax(&ranges->item[i]));
    }
    return QB_OK;
}

const qb_calib_format qb_calib_format_ort_cache = {
    .name = "ort-cache",
    .summary = "onnxruntime's calibration.cache",
    .suffix = ".cache",
    .probe = probe,
    .read = read_ranges,
    .write = write_ranges,
};
