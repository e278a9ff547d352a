/* Which opset a graph needs at least. In memory every node has the form of QB_GRAPH_OPSET; most
 * forms are older than that, and a file that declares an older opset is read by more programs. */
#include <string.h>

#include "onnx_internal.h"

#define LOWEST 17 /* IR 8: read by everything that also reads per-axis DequantizeLinear */

typedef enum rule_kind {
    ALWAYS,    /* the operator itself */
    INPUT,     /* input number `input` is given */
    ATTRIBUTE, /* attribute `text` does not hold its default */
    SETTING,   /* attribute `text` holds `value` */
    TYPE       /* an input or output has this type */
} rule_kind;

typedef struct rule {
    const char *op;
    int32_t since;
    rule_kind kind;
    int32_t input; /* or a qb_dtype */
    const char *text, *value;
} rule;

/* From the version notes in onnx/docs/Changelog.md. */
static const rule rules[] = {
    {"AffineGrid", 20, ALWAYS, 0, NULL, NULL},
    {"Attention", 23, ALWAYS, 0, NULL, NULL},
    {"Attention", 24, INPUT, 6, NULL, NULL},
    {"Attention", 25, ATTRIBUTE, 0, "left_window_size", NULL},
    {"Attention", 25, ATTRIBUTE, 0, "right_window_size", NULL},
    {"AveragePool", 19, ATTRIBUTE, 0, "dilations", NULL},
    {"BitCast", 26, ALWAYS, 0, NULL, NULL},
    {"BitwiseAnd", 18, ALWAYS, 0, NULL, NULL},
    {"BitwiseNot", 18, ALWAYS, 0, NULL, NULL},
    {"BitwiseOr", 18, ALWAYS, 0, NULL, NULL},
    {"BitwiseXor", 18, ALWAYS, 0, NULL, NULL},
    {"Cast", 19, ATTRIBUTE, 0, "saturate", NULL},
    {"Cast", 24, ATTRIBUTE, 0, "round_mode", NULL},
    {"CastLike", 19, ATTRIBUTE, 0, "saturate", NULL},
    {"CastLike", 24, ATTRIBUTE, 0, "round_mode", NULL},
    {"CausalConvWithState", 27, ALWAYS, 0, NULL, NULL},
    {"CenterCropPad", 18, ALWAYS, 0, NULL, NULL},
    {"Col2Im", 18, ALWAYS, 0, NULL, NULL},
    {"CumProd", 26, ALWAYS, 0, NULL, NULL},
    {"DFT", 20, ALWAYS, 0, NULL, NULL},
    {"DeformConv", 19, ALWAYS, 0, NULL, NULL},
    {"DequantizeLinear", 19, TYPE, QB_DTYPE_F16, NULL, NULL},
    {"DequantizeLinear", 21, TYPE, QB_DTYPE_S16, NULL, NULL},
    {"DequantizeLinear", 21, TYPE, QB_DTYPE_U16, NULL, NULL},
    {"DequantizeLinear", 21, ATTRIBUTE, 0, "block_size", NULL},
    {"DequantizeLinear", 23, ATTRIBUTE, 0, "output_dtype", NULL},
    {"Gelu", 20, ALWAYS, 0, NULL, NULL},
    {"GridSample", 20, ALWAYS, 0, NULL, NULL},
    {"GroupNormalization", 21, ALWAYS, 0, NULL, NULL},
    {"LinearAttention", 27, ALWAYS, 0, NULL, NULL},
    {"LpPool", 18, ATTRIBUTE, 0, "ceil_mode", NULL},
    {"LpPool", 18, ATTRIBUTE, 0, "dilations", NULL},
    {"Mish", 18, ALWAYS, 0, NULL, NULL},
    {"Pad", 18, INPUT, 3, NULL, NULL},
    {"Pad", 19, SETTING, 0, "mode", "wrap"},
    {"QuantizeLinear", 19, TYPE, QB_DTYPE_F16, NULL, NULL},
    {"QuantizeLinear", 21, TYPE, QB_DTYPE_S16, NULL, NULL},
    {"QuantizeLinear", 21, TYPE, QB_DTYPE_U16, NULL, NULL},
    {"QuantizeLinear", 19, ATTRIBUTE, 0, "saturate", NULL},
    {"QuantizeLinear", 21, ATTRIBUTE, 0, "block_size", NULL},
    {"QuantizeLinear", 21, ATTRIBUTE, 0, "output_dtype", NULL},
    {"QuantizeLinear", 23, ATTRIBUTE, 0, "precision", NULL},
    {"Range", 27, TYPE, QB_DTYPE_F16, NULL, NULL},
    {"Range", 27, TYPE, QB_DTYPE_BF16, NULL, NULL},
    {"RMSNormalization", 23, ALWAYS, 0, NULL, NULL},
    {"ReduceL1", 18, INPUT, 1, NULL, NULL},
    {"ReduceL1", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceL2", 18, INPUT, 1, NULL, NULL},
    {"ReduceL2", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceLogSum", 18, INPUT, 1, NULL, NULL},
    {"ReduceLogSum", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceLogSumExp", 18, INPUT, 1, NULL, NULL},
    {"ReduceLogSumExp", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceMax", 18, INPUT, 1, NULL, NULL},
    {"ReduceMax", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceMax", 20, TYPE, QB_DTYPE_BOOL, NULL, NULL},
    {"ReduceMean", 18, INPUT, 1, NULL, NULL},
    {"ReduceMean", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceMin", 18, INPUT, 1, NULL, NULL},
    {"ReduceMin", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceMin", 20, TYPE, QB_DTYPE_BOOL, NULL, NULL},
    {"ReduceProd", 18, INPUT, 1, NULL, NULL},
    {"ReduceProd", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"ReduceSumSquare", 18, INPUT, 1, NULL, NULL},
    {"ReduceSumSquare", 18, ATTRIBUTE, 0, "noop_with_empty_axes", NULL},
    {"Resize", 18, ATTRIBUTE, 0, "antialias", NULL},
    {"Resize", 18, ATTRIBUTE, 0, "axes", NULL},
    {"Resize", 18, ATTRIBUTE, 0, "keep_aspect_ratio_policy", NULL},
    {"Resize", 19, SETTING, 0, "coordinate_transformation_mode", "half_pixel_symmetric"},
    {"RotaryEmbedding", 23, ALWAYS, 0, NULL, NULL},
    {"ScatterElements", 18, SETTING, 0, "reduction", "max"},
    {"ScatterElements", 18, SETTING, 0, "reduction", "min"},
    {"ScatterND", 18, SETTING, 0, "reduction", "max"},
    {"ScatterND", 18, SETTING, 0, "reduction", "min"},
    {"Split", 18, ATTRIBUTE, 0, "num_outputs", NULL},
    {"Swish", 24, ALWAYS, 0, NULL, NULL},
    {"TensorScatter", 24, ALWAYS, 0, NULL, NULL},
};

static bool has_type(const qb_graph *graph, const qb_node *node, int32_t dtype) {
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        int32_t id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (id >= 0 && (int32_t)graph->values[id].dtype == dtype) return true;
    }
    return false;
}

static bool applies(const rule *r, const qb_graph *graph, const qb_node *node) {
    if (r->kind == ALWAYS) return true;
    if (r->kind == INPUT) return r->input < node->n_in && node->in[r->input] >= 0;
    if (r->kind == TYPE) return has_type(graph, node, r->input);
    const qb_attr_desc *desc = qb_attr_find(node->op, r->text);
    if (!desc || !node->attrs) return false;
    if (r->kind == ATTRIBUTE) return !qb_attr_is_default(desc, node->attrs);
    const char *text = *(const char *const *)((const char *)node->attrs + desc->offset);
    return desc->type == QB_ATTR_STRING && text && strcmp(text, r->value) == 0;
}

int32_t qb_onnx_lowest_opset(const qb_graph *graph) {
    int32_t lowest = LOWEST;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!node->op || *node->op->domain) continue;
        for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
            if (rules[k].since > lowest && strcmp(rules[k].op, node->op->name) == 0 &&
                applies(&rules[k], graph, node))
                lowest = rules[k].since;
    }
    return lowest;
}

int32_t qb_onnx_ir_version(int32_t opset) {
    return opset <= 18   ? 8
           : opset <= 20 ? 9
           : opset <= 22 ? 10
           : opset <= 23 ? 11
           : opset <= 24 ? 12
                         : 13;
}
