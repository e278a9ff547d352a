/* ncnn's .table: multipliers 127 / absmax by layer. First "layer_param_0" and one number an output
 * channel of its weight, then "layer" and one number for what it reads. A 3x3 convolution with
 * stride and dilation 1 has 6-bit weights (31 / absmax), for the Winograd algorithm. A line of
 * either kind that begins with # leaves its layer in float. */
#include <math.h>
#include <string.h>

#include "calib/ranges_internal.h"
#include "graph/fusion.h"

static size_t key_length(const qb_line *line) {
    const char *blank = memchr(line->text, ' ', line->n);
    return blank ? (size_t)(blank - line->text) : line->n;
}

enum { WEIGHT_SUFFIX = sizeof "_param_0" - 1 };

/* "conv1_param_0" */
static bool is_weight_key(const char *key, size_t n) {
    return n > WEIGHT_SUFFIX && key[n - 1] >= '0' && key[n - 1] <= '9' &&
           memcmp(key + n - WEIGHT_SUFFIX, "_param_", WEIGHT_SUFFIX - 1) == 0;
}

static bool probe(const char *bytes, size_t size) {
    const char *at = bytes;
    qb_line line = {0};
    return qb_line_next(&at, bytes + size, &line) && is_weight_key(line.text, key_length(&line));
}

/* `in_float`: the layers whose weight's line is commented out. */
static qb_status read_line(qb_ctx *cx, const qb_line *line, qb_ranges *in_float, qb_ranges *out) {
    const char *text = line->text;
    const size_t key = key_length(line);
    double multiplier;
    if (line->n > 0 && *text == '#' && is_weight_key(text + 1, key - 1)) {
        const qb_line weight = {text + 1, line->n - 1, line->number};
        return qb_ranges_add_line(cx, in_float, &weight, key - 1 - WEIGHT_SUFFIX, 0);
    }
    if (line->n == 0 || *text == '#' || is_weight_key(text, key)) return QB_OK;
    /* inf: the layer reads zeros only */
    if (!qb_line_number(text + key, line->n - key, &multiplier) || !(multiplier > 0))
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "line %lld: expected a layer and one positive multiplier",
                       (long long)line->number);
    return qb_ranges_add_line(cx, out, line, key, 127 / multiplier);
}

static void drop(qb_ranges *ranges, const qb_ranges *in_float) {
    int32_t kept = 0;
    for (int32_t i = 0; i < ranges->n; i++) {
        if (qb_ranges_find(in_float, ranges->item[i].name))
            qb_free(ranges->item[i].name);
        else
            ranges->item[kept++] = ranges->item[i];
    }
    ranges->n = kept;
}

static qb_status read_ranges(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out) {
    const char *at = bytes, *end = bytes + size;
    qb_line line = {0};
    QB_RELEASED(qb_ranges_release) qb_ranges in_float = {0};
    while (qb_line_next(&at, end, &line)) QB_TRY(read_line(cx, &line, &in_float, out));
    drop(out, &in_float);
    return QB_OK;
}

/* ---- writing ---- */

static const char *layer_name(const qb_graph *graph, const qb_node *node) {
    return *node->name ? node->name : graph->values[node->out[0]].name;
}

/* Layers that ncnn quantizes, with a range of what they read. */
static const qb_named_range *layer_range(const qb_ranges *ranges, const qb_graph *graph,
                                         const qb_group *group) {
    const qb_node *node = &graph->nodes[group->node[0]];
    if (strcmp(node->op->name, "Conv") != 0 && strcmp(node->op->name, "Gemm") != 0) return NULL;
    const qb_value *weight = &graph->values[node->in[QB_IN_WEIGHT]];
    if (!weight->data || weight->dtype != QB_DTYPE_F32 || weight->shape.rank < 2) return NULL;
    const qb_named_range *range = qb_ranges_find(ranges, graph->values[node->in[QB_IN_DATA]].name);
    return range && qb_named_range_amax(range) > 0 ? range : NULL;
}

static bool is_winograd(const qb_node *node, const qb_shape *weight) {
    const qb_conv_attrs *a = node->attrs;
    if (strcmp(node->op->name, "Conv") != 0 || weight->rank != 4 || a->group != 1) return false;
    bool plain = weight->dim[2] == 3 && weight->dim[3] == 3;
    for (int32_t i = 0; i < a->strides.n; i++) plain = plain && a->strides.v[i] == 1;
    for (int32_t i = 0; i < a->dilations.n; i++) plain = plain && a->dilations.v[i] == 1;
    return plain;
}

static void write_weight(const qb_graph *graph, const qb_node *node, qb_strbuf *out) {
    const qb_value *weight = &graph->values[node->in[QB_IN_WEIGHT]];
    const float *w = weight->data;
    const bool gemm = strcmp(node->op->name, "Gemm") == 0;
    const bool columns = gemm && ((const qb_gemm_attrs *)node->attrs)->trans_b == 0;
    const int64_t n = weight->shape.dim[columns ? 1 : 0];
    const int64_t each = n > 0 ? qb_shape_count(&weight->shape) / n : 0;
    const double most = is_winograd(node, &weight->shape) ? 31 : 127;
    qb_strbuf_addf(out, "%s_param_0 ", layer_name(graph, node));
    for (int64_t c = 0; c < n; c++) {
        double largest = 0;
        for (int64_t i = 0; i < each; i++)
            largest = fmax(largest, fabs((double)w[columns ? i * n + c : c * each + i]));
        qb_strbuf_addf(out, "%f ", largest > 0 ? most / largest : 1);
    }
    qb_strbuf_add(out, "\n");
}

static qb_status write_ranges(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph,
                              qb_strbuf *out) {
    QB_RELEASED(qb_groups_release) qb_groups groups = {0};
    QB_TRY(qb_fuse(cx, graph, &groups));
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t g = 0; g < groups.n; g++) {
            const qb_node *node = &graph->nodes[groups.group[g].node[0]];
            const qb_named_range *range = layer_range(ranges, graph, &groups.group[g]);
            if (!range) continue;
            const char *name = layer_name(graph, node);
            QB_TRY(strchr(name, ' ') ? qb_fail(cx, QB_STATUS_UNSUPPORTED,
                                               "the name of layer '%s' has a blank", name)
                                     : qb_ranges_check_line_name(cx, name));
            if (pass == 0)
                write_weight(graph, node, out);
            else
                qb_strbuf_addf(out, "%s %f \n", name, 127 / qb_named_range_amax(range));
        }
    return QB_OK;
}

const qb_calib_format qb_calib_format_ncnn = {
    .name = "ncnn",
    .summary = "ncnn's .table, by layer",
    .suffix = ".table",
    .by_layer = true,
    .wants_graph = true,
    .probe = probe,
    .read = read_ranges,
    .write = write_ranges,
};
