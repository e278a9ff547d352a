/* PPQ's JSON for TensorRT: {"act_quant_info": {tensor: scale * 127}}. */
#include <string.h>

#include "calib/ranges_internal.h"

static bool probe(const char *bytes, size_t size) {
    return qb_ranges_is_json_with(bytes, size, "\"act_quant_info\"");
}

static qb_status read_tensors(qb_ctx *cx, json_t *root, qb_ranges *out) {
    json_t *tensors = json_object_get(root, "act_quant_info"), *value;
    const char *name;
    if (!json_is_object(tensors))
        return qb_fail(cx, QB_STATUS_FORMAT, "expected an object called act_quant_info");
    json_object_foreach(tensors, name, value) {
        const double amax = json_number_value(value);
        if (!json_is_number(value) || !(amax >= 0))
            return qb_fail(cx, QB_STATUS_FORMAT, "'%s': expected a number that is not negative",
                           name);
        QB_TRY(qb_ranges_add(cx, out, name, strlen(name), -amax, amax));
    }
    return QB_OK;
}

static qb_status read_ranges(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out) {
    json_auto_t *root = NULL;
    QB_TRY(qb_ranges_parse_json(cx, bytes, size, &root));
    return read_tensors(cx, root, out);
}

static json_t *value(const qb_named_range *range) { return json_real(qb_named_range_amax(range)); }

static qb_status write_ranges(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph,
                              qb_strbuf *out) {
    (void)graph;
    return qb_ranges_write_json(cx, ranges, json_object(), "act_quant_info", value, out);
}

const qb_calib_format qb_calib_format_ppq = {
    .name = "ppq",
    .summary = "PPQ's JSON for TensorRT",
    .suffix = ".ppq.json",
    .probe = probe,
    .read = read_ranges,
    .write = write_ranges,
};
