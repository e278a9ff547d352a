/* TensorRT's calibration cache: "TRT-<version>-<calibrator>", then lines "tensor: 8 hexadecimal
 * digits", the big-endian bits of the float scale, amax / 127. Names may hold colons. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "calib/ranges_internal.h"

/* What TensorRT 10, the last version that reads caches, calls itself. */
#define HEADER "TRT-101600-EntropyCalibration2\n"

static bool probe(const char *bytes, size_t size) {
    return size > 4 && memcmp(bytes, "TRT-", 4) == 0;
}

static bool parse_scale(const char *text, size_t n, float *out) {
    uint32_t bits = 0;
    while (n > 0 && *text == ' ') text++, n--;
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
    if (n == 0 || n > 8) return false;
    for (size_t i = 0; i < n; i++) {
        const int c = tolower((unsigned char)text[i]);
        if (!isxdigit(c)) return false;
        bits = bits << 4 | (uint32_t)(isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    memcpy(out, &bits, sizeof *out);
    return true;
}

static qb_status read_ranges(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out) {
    const char *at = bytes, *end = bytes + size;
    qb_line line = {0};
    if (!probe(bytes, size) || !qb_line_next(&at, end, &line))
        return qb_fail(cx, QB_STATUS_FORMAT, "line 1: expected TRT-<version>-<calibrator>");
    while (qb_line_next(&at, end, &line)) {
        float scale;
        if (line.n == 0) continue;
        const char *colon = memrchr(line.text, ':', line.n);
        const size_t name = colon ? (size_t)(colon - line.text) : 0;
        if (!colon || !parse_scale(colon + 1, line.n - name - 1, &scale))
            return qb_fail(cx, QB_STATUS_FORMAT,
                           "line %lld: expected a name, a colon and 8 hexadecimal digits",
                           (long long)line.number);
        if (!isfinite(scale) || scale < 0)
            return qb_fail(cx, QB_STATUS_FORMAT, "line %lld: the scale is %g",
                           (long long)line.number, (double)scale);
        QB_TRY(qb_ranges_add_line(cx, out, &line, name, (double)scale * 127));
    }
    return QB_OK;
}

static qb_status write_ranges(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph,
                              qb_strbuf *out) {
    (void)graph;
    qb_strbuf_add(out, HEADER);
    for (int32_t i = 0; i < ranges->n; i++) {
        const float scale = (float)(qb_named_range_amax(&ranges->item[i]) / 127);
        uint32_t bits;
        memcpy(&bits, &scale, sizeof bits);
        QB_TRY(qb_ranges_check_line_name(cx, ranges->item[i].name));
        qb_strbuf_addf(out, "%s: %08x\n", ranges->item[i].name, bits);
    }
    return QB_OK;
}

const qb_calib_format qb_calib_format_trt = {
    .name = "trt",
    .summary = "TensorRT's calibration cache (to version 10)",
    .suffix = ".trt.calib",
    .probe = probe,
    .read = read_ranges,
    .write = write_ranges,
};
