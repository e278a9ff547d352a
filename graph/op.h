/* Operators: one row in ops.def and one descriptor in ops/ each. */
#ifndef QB_GRAPH_OP_H
#define QB_GRAPH_OP_H

#include "graph/graph.h"
#include "kernels/chain.h"

typedef enum qb_attr_type {
    QB_ATTR_INT,     /* int64_t */
    QB_ATTR_FLOAT,   /* float */
    QB_ATTR_STRING,  /* const char * */
    QB_ATTR_INTS,    /* qb_ints */
    QB_ATTR_FLOATS,  /* qb_floats */
    QB_ATTR_STRINGS, /* qb_strings */
    QB_ATTR_TENSOR   /* qb_tensor, row-major */
} qb_attr_type;

typedef struct qb_ints {
    int32_t n;
    const int64_t *v;
} qb_ints;

typedef struct qb_floats {
    int32_t n;
    const float *v;
} qb_floats;

typedef struct qb_strings {
    int32_t n;
    const char *const *v;
} qb_strings;

/* One attribute: drives reading, writing, printing and hashing. A field that was not given holds
 * the default; for INTS, FLOATS, STRINGS, TENSOR that is empty (n == 0, data == NULL). Attributes
 * that only older opsets have carry `import_only` and are rewritten by the op's `upgrade`. */
typedef struct qb_attr_desc {
    const char *name;
    qb_attr_type type;
    size_t offset; /* in the attribute struct */
    int64_t default_int;
    float default_float;
    const char *default_string;
    int64_t min, max; /* bounds of INT and of each of INTS; both 0: none */
    bool import_only;
    int32_t old_before;      /* in opsets below this one the default of INT was old_default_int; */
    int64_t old_default_int; /* 0: it never changed */
    bool required;           /* the reader refuses nodes without it, the writer always writes it */
} qb_attr_desc;

/* All that the quantizer knows of an operator. */
typedef enum qb_qrule {
    QB_QRULE_FLOAT,      /* stays in float */
    QB_QRULE_COMPUTE,    /* integer arithmetic with a weight: Conv, Gemm, MatMul, ConvTranspose */
    QB_QRULE_SAME_SCALE, /* moves or selects values: output shares the parameters of the input(s) */
    QB_QRULE_ELTWISE,    /* integer inputs, own output parameters: Add, Mul, pools that average */
    QB_QRULE_LUT         /* unary function: 256-entry table on integers */
} qb_qrule;

/* What an operator is, whatever it computes: passes, fusion, engines, calibration and metrics ask
 * for these and know no lists of names. "Data" are the tensors that it works on, in[0] in most;
 * shapes, axes, indices and the like are its parameters. tests/op/test_traits.c holds them against
 * `eval`.
 */
typedef enum qb_trait {
    /* Output 0 has the broadcast shape of all inputs, and an element of it depends on the elements
     * in its own place alone. The same permutation of all inputs permutes it. */
    QB_TRAIT_ELEMENTWISE = 1 << 0,
    /* Output 0 holds the elements of input 0 in the same order and type: its memory with other
     * dimensions. Ask qb_node_is_view for a node. */
    QB_TRAIT_VIEW = 1 << 1,
    /* Output 0 holds each element of the data once, in some order. All inputs of an operator with
     * any number of them are data, else input 0. */
    QB_TRAIT_REORDER = 1 << 2,
    /* Output 0 is input 0 where it has its shape and type: it repeats, cuts or reshapes. */
    QB_TRAIT_IN_ORDER = 1 << 3,
    /* The numbers of input 0 in another type, unchanged in the same one. */
    QB_TRAIT_CONVERT = 1 << 4,
    /* Works along its attribute `axis` and on each line along it alone. Moving that axis moves the
     * result's, which has as many axes (but for a reduction without keepdims). */
    QB_TRAIT_AXIS = 1 << 5,
    /* Item n (index of the first axis) of the outputs depends on item n of the data alone, under
     * the conditions of qb_node_is_itemwise; ELEMENTWISE, VIEW and AXIS are so too. */
    QB_TRAIT_ITEMWISE = 1 << 6,
    /* Makes probabilities or a class of scores: its input 0 are logits. */
    QB_TRAIT_CLASSES = 1 << 7,
    /* Reads a window, a line or a whole tensor for each element that it makes: the work is that of
     * a product, more than the elements that go in and out. */
    QB_TRAIT_WINDOW = 1 << 8,
    /* The outputs depend on the shapes of the inputs only. */
    QB_TRAIT_SHAPE_ONLY = 1 << 9,
    /* Makes the integers of quantized numbers or computes with them: it has no meaning once these
     * are floats. */
    QB_TRAIT_INTEGERS = 1 << 10,
    /* Has all its outputs in ONNX, read or not. */
    QB_TRAIT_ALL_OUTPUTS = 1 << 11
} qb_trait;

/* The problem for kernels that a node of the operator may be (kernels/problem.h). Which nodes are,
 * qb_fuse and qb_node_problem decide. */
typedef struct qb_op_kernel {
    qb_kind kind;          /* NODE: none */
    qb_act_kind act;       /* UNARY; parameters from the attributes alpha and beta, or inputs */
    qb_binary_kind binary; /* BINARY */
    qb_pool_kind pool;     /* POOL */
    qb_cell_kind cell;     /* RECURRENT */
    qb_reduce_kind reduce; /* REDUCE */
    qb_extreme extreme;    /* ARG */
    bool rms;              /* LAYER_NORM */
    qb_function function;  /* of a CHAIN, whatever `kind` is: of the inputs in their order, then of
                              the attributes alpha and beta */
} qb_op_kernel;

typedef struct qb_infer_args {
    qb_graph *graph;
    int32_t node;
    void **result; /* while nodes are evaluated: where one whose size follows from its result leaves
                      it, in the graph's arena; NULL elsewhere */
} qb_infer_args;

#define QB_TYPES_FLOATS "f16, bf16, f32, f64"
#define QB_TYPES_NUMBERS "floats, integers"
#define QB_TYPES_BOOL "bool"
#define QB_TYPES_QUANTIZED "u8, s8"

typedef struct qb_op {
    const char *name;       /* ONNX op_type */
    const char *domain;     /* "" for ai.onnx */
    int32_t since;          /* first opset version read; older is refused with this number */
    int32_t min_in, max_in; /* max_in INT32_MAX: variadic */
    int32_t min_out, max_out;
    size_t attr_size;
    const qb_attr_desc *attrs; /* ends with a NULL name; NULL when none */
    qb_qrule qrule;
    int32_t weight_input; /* COMPUTE: input index of the weight, else -1 */
    int32_t weight_axis;  /* its output-channel axis; negative: from the end (Gemm: 1, or 0
                             when transB is set) */
    /* Sets dtype and shape of the outputs from the inputs (and from constant inputs' data). A shape
     * that depends on values (NonZero, NonMaxSuppression, TopK's k) is inferred when those inputs
     * are constant and has -1 otherwise. Whoever runs node by node makes inputs constant first and
     * so always knows it; an engine, whose inputs stay open, refuses the node by name. */
    qb_status (*infer)(qb_ctx *cx, const qb_infer_args *args);
    /* Sets open dimensions of the outputs to the largest that values could make them; the inputs'
     * shapes are known, or the largest. What it leaves open, nothing bounds (qb_bound_none: all of
     * it). NULL: nothing is known beyond `infer`, and the outputs are no larger than the inputs. */
    qb_status (*bound)(qb_ctx *cx, const qb_infer_args *args);
    /* The definition of the operator: row-major tensors in, row-major tensors out (already shaped).
     * Inputs left out have desc.dtype NONE. */
    qb_status (*eval)(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out);
    /* Rewrites the forms of opset `version` into the current one right after reading; NULL when
     * they are the same. May add nodes and constants. */
    qb_status (*upgrade)(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version);
    /* Which elements of input 0 an output holds, of an operator that only moves them: shapes are
     * known, parameters are in in[1] and on. UNSUPPORTED where that takes more dimensions than
     * there are. NULL: not of that kind. qb_eval_strided is its definition then. */
    qb_status (*strided)(qb_ctx *cx, const qb_node *node, const qb_tensor *in, int32_t output,
                         qb_strided *out);
    /* Which places of input 0 the indices in input 1 name, of an operator that reads or writes
     * there
     * (`kernel`: GATHER or SCATTER); shapes are known. qb_eval_gathered and qb_eval_scattered are
     * its definitions then. */
    qb_status (*places)(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_places *out);
    uint32_t traits;     /* qb_trait, or'ed */
    qb_op_kernel kernel; /* zero: none */
    bool of_plugin;      /* the row is a qb_plugin_op's */
    const char *types;   /* element types of the data, for docs/operators.md; NULL: all */
} qb_op;

/* By ONNX name and domain ("" and "ai.onnx" are one); NULL when unknown. Readers of files ask
 * qb_op_lookup, which knows those of plugins as well. */
const qb_op *qb_op_find(const char *name, const char *domain);
/* All operators in alphabetical order; *n is their number. */
const qb_op *const *qb_ops(int32_t *n);

/* Does the row have this trait? */
static inline bool qb_op_has(const qb_op *op, qb_trait trait) { return (op->traits & trait) != 0; }
/* The number of leading inputs that are data of an operator with QB_TRAIT_REORDER. */
static inline int32_t qb_reordered_inputs(const qb_node *node) {
    return node->op->max_in == INT32_MAX ? node->n_in : 1;
}
/* Is output 0, the only one wanted, the data of input 0 with other dimensions? */
bool qb_node_is_view(const qb_node *node);
/* Is item n of each output made of item n of the inputs alone, where the first dimension of all
 * outputs and of all inputs that are not constant is the number of items, and the other dimensions
 * are the same for any number of them? */
bool qb_node_is_itemwise(const qb_graph *graph, const qb_node *node);
/* The same of a node in a graph. False where the operator has none, or shapes or parameters are
 * open. */
bool qb_node_strided(const qb_graph *graph, const qb_node *node, int32_t output, qb_strided *out);

/* The places that the indices of a node in a graph name. */
bool qb_node_places(const qb_graph *graph, const qb_node *node, qb_places *out);
/* What the attribute `reduction` of a scattering operator says; `what` NULL: none. */
qb_status qb_scatter_reduction(qb_ctx *cx, const char *what, qb_reduce_kind *out);
/* How a node that samples a grid does it; false where an attribute is none that ONNX knows. */
bool qb_node_grid(const qb_node *node, qb_grid_sampling *out);
/* The window whose cuts a Col2Im node adds up; false where its sizes are computed, or there are
 * more than three. */
bool qb_node_fold(const qb_graph *graph, const qb_node *node, qb_window *out);
/* The transform of a DFT or STFT node, and a DFT's axis; false where a parameter is computed. */
bool qb_node_fourier(const qb_graph *graph, const qb_node *node, qb_fourier *out, int32_t *axis);
/* The functions of a RECURRENT node's cell, QB_CELL_ACTS for each direction; false where kernels do
 * not have one of them. */
bool qb_node_cell_acts(const qb_node *node, int64_t directions, qb_act *acts);
/* What a Resize of floats does along dimension d, as weights [elements of the result][elements of
 * the data]. *known is false, and nothing written, where the sizes or what lies outside are not;
 * `weights` NULL: only tells. */
qb_status qb_node_resize_weights(qb_ctx *cx, const qb_graph *graph, const qb_node *node, int32_t d,
                                 float *weights, bool *known);
/* The places of an AffineGrid's pixels before they are moved, with a 1 behind each: `grid` is the
 * shape of the result [N, ..., n], `places` has n + 1 numbers for each pixel of an item. */
void qb_node_affine_places(const qb_node *node, const qb_shape *grid, float *places);

/* About how many multiplications a node's definition takes, of one that does more than touch each
 * element once or so, else 0; shapes are known. */
double qb_node_work(const qb_graph *graph, const qb_node *node);

/* An integer attribute by name; `otherwise` when the node has none of that name. */
int64_t qb_attr_int(const qb_node *node, const char *name, int64_t otherwise);

/* The window of a Conv, ConvTranspose or pooling node with all defaults and auto_pad resolved, from
 * the shapes of its data and weight (NULL for pools). Spatial sizes must be known. With ceil_mode
 * the last window may reach beyond pad_end; only the output shape tells. */
qb_status qb_op_window(qb_ctx *cx, const qb_node *node, const qb_shape *x, const qb_shape *weight,
                       qb_window *out);

/* Attribute structs that other folders read. */
typedef struct qb_conv_attrs {
    const char *auto_pad;
    qb_ints kernel_shape, strides, pads, dilations, output_padding, output_shape;
    int64_t group;
} qb_conv_attrs;
typedef struct qb_pool_attrs {
    const char *auto_pad;
    qb_ints kernel_shape, strides, pads, dilations;
    int64_t ceil_mode, count_include_pad, storage_order;
} qb_pool_attrs;
typedef struct qb_gemm_attrs {
    float alpha, beta;
    int64_t trans_a, trans_b;
} qb_gemm_attrs;
typedef struct qb_axis_attrs { /* Softmax, Concat, Flatten, Gather ... */
    int64_t axis;
} qb_axis_attrs;
typedef struct qb_axes_attrs { /* Squeeze, Unsqueeze before opset 13 */
    qb_ints axes;              /* import only */
} qb_axes_attrs;
typedef struct qb_norm_attrs { /* BatchNormalization, InstanceNormalization, LayerNormalization */
    float epsilon, momentum;
    int64_t axis, training_mode, stash_type;
    int64_t spatial, is_test; /* import only */
    qb_ints consumed_inputs;  /* import only */
} qb_norm_attrs;
typedef struct qb_perm_attrs { /* Transpose; empty: reversed */
    qb_ints perm;
} qb_perm_attrs;
typedef struct qb_pad_attrs {
    const char *mode; /* constant, reflect, edge, wrap */
    qb_ints pads;     /* import only, like value */
    float value;
} qb_pad_attrs;
typedef struct qb_reduce_attrs {
    int64_t keepdims, noop_with_empty_axes;
    qb_ints axes; /* import only */
} qb_reduce_attrs;
typedef struct qb_cast_attrs {
    int64_t to; /* TensorProto.DataType */
    int64_t saturate;
    const char *round_mode;
} qb_cast_attrs;
typedef struct qb_reshape_attrs {
    int64_t allowzero;
} qb_reshape_attrs;
typedef struct qb_gelu_attrs {
    const char *approximate; /* none or tanh */
} qb_gelu_attrs;
typedef struct qb_alpha_attrs { /* LeakyRelu, HardSigmoid, Elu ... */
    float alpha, beta;
} qb_alpha_attrs;
#endif
