/* onnxruntime's JSON: the calibration cache of quantize_static, {"CLS": "TensorsData", "data":
 * {tensor: {"CLS": "TensorData", "lowest": l, "highest": h}}}, and calibration.json, which is the
 * inner object alone. A bound is a number, or an array of one ({"CLS": "numpy.array", "data": l}).
 */
#include <stdlib.h>
#include <string.h>

#include "calib/ranges_internal.h"
#include "graph/op.h"

static bool probe(const char *bytes, size_t size) {
    return qb_ranges_is_json_with(bytes, size, "\"TensorData\"");
}

static bool number(const json_t *value, double *out) {
    for (int depth = 0; depth < 4; depth++) {
        if (json_is_number(value)) {
            *out = json_number_value(value);
            return true;
        }
        value = json_is_array(value) && json_array_size(value) == 1
                    ? json_array_get(value, 0)
                    : json_object_get(value, "data");
    }
    return false;
}

static qb_status read_tensors(qb_ctx *cx, json_t *tensors, qb_ranges *out) {
    const char *name;
    json_t *tensor;
    json_object_foreach(tensors, name, tensor) {
        double lo, hi;
        if (!number(json_object_get(tensor, "lowest"), &lo) ||
            !number(json_object_get(tensor, "highest"), &hi))
            return qb_fail(cx, QB_STATUS_FORMAT, "'%s': expected numbers called lowest and highest",
                           name);
        QB_TRY(qb_ranges_add(cx, out, name, strlen(name), lo, hi));
    }
    return QB_OK;
}

static qb_status read_ranges(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out) {
    json_auto_t *root = NULL;
    QB_TRY(qb_ranges_parse_json(cx, bytes, size, &root));
    const char *class = json_string_value(json_object_get(root, "CLS"));
    const bool whole = class && strcmp(class, "TensorsData") == 0;
    return read_tensors(cx, whole ? json_object_get(root, "data") : root, out);
}

static json_t *value(const qb_named_range *range) {
    return json_pack("{s:f, s:f, s:s}", "lowest", range->lo, "highest", range->hi, "CLS",
                     "TensorData");
}

/* quantize_static stops where a tensor that a Relu or Clip reads has no range, though it puts the
 * activation's in its place. qbench measures what comes out: the same range is right for both, as
 * what lies outside is cut off anyhow. */
static qb_status add_before_activations(qb_ctx *cx, const qb_graph *graph, qb_ranges *ranges) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        const qb_act_kind act = node->op->kernel.act;
        if (act != QB_ACT_RELU && act != QB_ACT_CLIP) continue;
        const char *read = graph->values[node->in[0]].name;
        const qb_named_range *range = qb_ranges_find(ranges, graph->values[node->out[0]].name);
        if (!range || qb_ranges_find(ranges, read)) continue;
        QB_TRY(qb_ranges_add(cx, ranges, read, strlen(read), range->lo, range->hi));
    }
    return QB_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const qb_named_range *)a)->name, ((const qb_named_range *)b)->name);
}

static qb_status copy(qb_ctx *cx, const qb_ranges *from, qb_ranges *to) {
    for (int32_t i = 0; i < from->n; i++) {
        const qb_named_range *range = &from->item[i];
        QB_TRY(qb_ranges_add(cx, to, range->name, strlen(range->name), range->lo, range->hi));
    }
    return QB_OK;
}

static qb_status write_tensors(qb_ctx *cx, const qb_ranges *ranges, qb_strbuf *out) {
    json_t *root =
        json_pack("{s:s, s:{s:s, s:s}, s:b}", "CLS", "TensorsData", "calibration_method", "CLS",
                  "CalibrationMethod", "value", "CalibrationMethod.MinMax", "smooth_quant", 0);
    return qb_ranges_write_json(cx, ranges, root, "data", value, out);
}

static qb_status write_ranges(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph,
                              qb_strbuf *out) {
    if (!graph) return write_tensors(cx, ranges, out);
    QB_RELEASED(qb_ranges_release) qb_ranges all = {0};
    QB_TRY(copy(cx, ranges, &all));
    QB_TRY(add_before_activations(cx, graph, &all));
    if (all.n > 0) qsort(all.item, (size_t)all.n, sizeof *all.item, by_name);
    return write_tensors(cx, &all, out);
}

const qb_calib_format qb_calib_format_ort_json = {
    .name = "ort-json",
    .summary = "onnxruntime's calibration cache and calibration.json",
    .suffix = ".ort.json",
    .probe = probe,
    .read = read_ranges,
    .write = write_ranges,
};
