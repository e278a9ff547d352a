/* AIMET's .encodings JSON. 0.6.1: "activation_encodings" maps a tensor to a list of encodings with
 * bitwidth, scale and offset; 1.0.0: it is a list of objects with name, bw, lists of scale and
 * offset. A code q from 0 to 2^bits - 1 stands for scale (q + offset). Encodings of weights are not
 * looked at: they follow from the weights. */
#include <math.h>
#include <string.h>

#include "calib/ranges_internal.h"

static bool probe(const char *bytes, size_t size) {
    return qb_ranges_is_json_with(bytes, size, "\"activation_encodings\"");
}

/* A number, or a list of one. */
static bool number(const json_t *value, double *out) {
    if (json_is_array(value) && json_array_size(value) == 1) value = json_array_get(value, 0);
    *out = json_number_value(value);
    return json_is_number(value);
}

static bool is_true(const json_t *value) {
    const char *text = json_string_value(value);
    return json_is_true(value) || (text && strcmp(text, "True") == 0);
}

static qb_status read_encoding(qb_ctx *cx, const char *name, const json_t *encoding,
                               qb_ranges *out) {
    double scale, offset, bits;
    const json_t *width = json_object_get(encoding, "bitwidth");
    if (!width) width = json_object_get(encoding, "bw");
    if (!number(width, &bits) || !(bits >= 2 && bits <= 16) || bits != floor(bits))
        return qb_fail(cx, QB_STATUS_FORMAT, "'%s': expected a bit width from 2 to 16", name);
    if (!number(json_object_get(encoding, "scale"), &scale) || !(scale >= 0))
        return qb_fail(cx, QB_STATUS_FORMAT, "'%s': expected one scale", name);
    if (!number(json_object_get(encoding, "offset"), &offset))
        return qb_fail(cx, QB_STATUS_FORMAT, "'%s': expected one offset", name);
    const double levels = ldexp(1, (int)bits) - 1;
    const json_t *symmetric = json_object_get(encoding, "is_symmetric");
    if (!symmetric) symmetric = json_object_get(encoding, "is_sym");
    const bool even = is_true(symmetric) && 2 * offset == -levels - 1;
    /* of a symmetric pair of ends the upper one is a step shorter: the lower end's last code is
     * not used */
    const double lo = scale * (even ? offset + 1 : offset), hi = scale * (levels + offset);
    return qb_ranges_add(cx, out, name, strlen(name), lo, hi);
}

static bool is_float(const json_t *encoding) {
    const char *type = json_string_value(json_object_get(encoding, "dtype"));
    return type && strcasecmp(type, "float") == 0;
}

static qb_status read_tensors(qb_ctx *cx, json_t *root, qb_ranges *out) {
    json_t *list = json_object_get(root, "activation_encodings"), *item;
    const char *name;
    size_t i;
    json_array_foreach(list, i, item) {
        name = json_string_value(json_object_get(item, "name"));
        if (!name)
            return qb_fail(cx, QB_STATUS_FORMAT, "activation_encodings[%zu]: expected a name", i);
        if (!is_float(item)) QB_TRY(read_encoding(cx, name, item, out));
    }
    json_object_foreach(list, name, item) {
        const json_t *first = json_array_get(item, 0);
        if (json_array_size(item) != 1)
            return qb_fail(cx, QB_STATUS_FORMAT, "'%s': expected a list of one encoding", name);
        if (!is_float(first)) QB_TRY(read_encoding(cx, name, first, out));
    }
    return QB_OK;
}

static qb_status read_ranges(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out) {
    json_auto_t *root = NULL;
    QB_TRY(qb_ranges_parse_json(cx, bytes, size, &root));
    return read_tensors(cx, root, out);
}

/* Zero is a quantized value, as AIMET wants it. */
static json_t *value(const qb_named_range *range) {
    const double lo = fmin(range->lo, 0), hi = fmax(range->hi, 0);
    const double scale = hi > lo ? (hi - lo) / 255 : 1;
    const double offset = nearbyint(lo / scale);
    return json_pack("[{s:i, s:s, s:s, s:f, s:f, s:i, s:f}]", "bitwidth", 8, "dtype", "int",
                     "is_symmetric", "False", "max", scale * (255 + offset), "min", scale * offset,
                     "offset", (int)offset, "scale", scale);
}

static qb_status write_ranges(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph,
                              qb_strbuf *out) {
    (void)graph;
    json_t *root = json_pack("{s:s, s:{}}", "version", "0.6.1", "param_encodings");
    return qb_ranges_write_json(cx, ranges, root, "activation_encodings", value, out);
}

const qb_calib_format qb_calib_format_aimet = {
    .name = "aimet",
    .summary = "AIMET's .encodings (reads 0.6.1 and 1.0.0, writes 0.6.1)",
    .suffix = ".encodings",
    .probe = probe,
    .read = read_ranges,
    .write = write_ranges,
};
