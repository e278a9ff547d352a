/* What the operators share: access to inputs while inferring, dimensions, axes, constant integers,
 * attribute tables, broadcasting.
 *
 * Messages do not name the node: graph inference and import put "node 17 Conv 'conv1'" in front. */
#ifndef QB_OPS_INTERNAL_H
#define QB_OPS_INTERNAL_H

#include <string.h>

#include "base/temp.h"
#include "graph/graph_internal.h"
#include "kernels/ref.h"

#define QB_TEXT_MAX 128 /* buffer for a shape as text */
#define QB_DIM_UNKNOWN ((int64_t)-1)

/* --- attribute tables ------------------------------------------------------------------------- */

#define QB_ATTR_BIG INT32_MAX /* bound of sizes in attributes: products of two still fit int64 */
#define QB_A_INT(T, field, text, value, lowest, highest)                                           \
    {                                                                                              \
        .name = text, .type = QB_ATTR_INT, .offset = offsetof(T, field), .default_int = value,     \
        .min = lowest, .max = highest                                                              \
    }
#define QB_A_NEED_INT(T, field, text, lowest, highest) /* required: no default */                  \
    {                                                                                              \
        .name = text, .type = QB_ATTR_INT, .offset = offsetof(T, field), .default_int = 1,         \
        .min = lowest, .max = highest, .required = true                                            \
    }
#define QB_A_FLOAT(T, field, text, value)                                                          \
    { .name = text, .type = QB_ATTR_FLOAT, .offset = offsetof(T, field), .default_float = value }
#define QB_A_STRING(T, field, text, value)                                                         \
    { .name = text, .type = QB_ATTR_STRING, .offset = offsetof(T, field), .default_string = value }
#define QB_A_INTS(T, field, text, lowest, highest)                                                 \
    {                                                                                              \
        .name = text, .type = QB_ATTR_INTS, .offset = offsetof(T, field), .min = lowest,           \
        .max = highest                                                                             \
    }
/* Rows that windows have in common. */
#define QB_A_WINDOW(T)                                                                             \
    QB_A_INTS(T, kernel_shape, "kernel_shape", 1, QB_ATTR_BIG),                                    \
        QB_A_INTS(T, strides, "strides", 1, QB_ATTR_BIG),                                          \
        QB_A_INTS(T, pads, "pads", 0, QB_ATTR_BIG),                                                \
        QB_A_INTS(T, dilations, "dilations", 1, QB_ATTR_BIG)
#define QB_A_CONV                                                                                  \
    QB_A_STRING(qb_conv_attrs, auto_pad, "auto_pad", "NOTSET"), QB_A_WINDOW(qb_conv_attrs),        \
        QB_A_INT(qb_conv_attrs, group, "group", 1, 1, QB_ATTR_BIG)
#define QB_A_OLD_INT(T, field, text, value)                                                        \
    {                                                                                              \
        .name = text, .type = QB_ATTR_INT, .offset = offsetof(T, field), .default_int = value,     \
        .import_only = true                                                                        \
    }
#define QB_A_OLD_FLOAT(T, field, text, value)                                                      \
    {                                                                                              \
        .name = text, .type = QB_ATTR_FLOAT, .offset = offsetof(T, field), .default_float = value, \
        .import_only = true                                                                        \
    }
#define QB_A_OLD_INTS(T, field, text)                                                              \
    { .name = text, .type = QB_ATTR_INTS, .offset = offsetof(T, field), .import_only = true }
#define QB_A_OLD_FLOATS(T, field, text)                                                            \
    { .name = text, .type = QB_ATTR_FLOATS, .offset = offsetof(T, field), .import_only = true }
#define QB_A_END                                                                                   \
    { .name = NULL }
/* The table NAME of these rows. */
#define QB_ATTRS(NAME, ...) static const qb_attr_desc NAME[] = {__VA_ARGS__, QB_A_END}

/* --- infer ------------------------------------------------------------------------------------ */

static inline const qb_node *qb_infer_at(const qb_infer_args *args) {
    return &args->graph->nodes[args->node];
}
/* Input i; NULL when it was left out. */
const qb_value *qb_infer_in(const qb_infer_args *args, int32_t i);
/* Sets type and shape of output i (nothing when it is not wanted). Refuses ranks above QB_MAX_RANK
 * and sizes in bytes that overflow. */
qb_status qb_infer_set(qb_ctx *cx, const qb_infer_args *args, int32_t i, qb_dtype dtype,
                       const qb_shape *shape);
/* The output is like input 0. */
qb_status qb_infer_same(qb_ctx *cx, const qb_infer_args *args);
/* qb_op.bound of operators whose parameters may ask for any size. */
qb_status qb_bound_none(qb_ctx *cx, const qb_infer_args *args);
/* The output has the type of input 0 and the shape that all inputs broadcast to; their types agree.
 */
qb_status qb_infer_broadcast(qb_ctx *cx, const qb_infer_args *args);
/* Input i must have the type of input 0 where both are known. */
qb_status qb_infer_same_type(qb_ctx *cx, const qb_infer_args *args, int32_t i);
/* Inputs first to last must be floats where they are there and known: eval reads them as such. */
qb_status qb_infer_floats(qb_ctx *cx, const qb_infer_args *args, int32_t first, int32_t last);
/* Input i must have rank `low` to `high` when its shape is known. */
qb_status qb_infer_rank(qb_ctx *cx, const qb_infer_args *args, int32_t i, int32_t low,
                        int32_t high);
/* The integers of input i (type int64 or int32, rank 0 or 1). *n is -1 when they are not all known;
 * more than `max` are an error. */
qb_status qb_infer_ints(qb_ctx *cx, const qb_infer_args *args, int32_t i, int64_t *v, int32_t max,
                        int32_t *n);
/* Input i as the dimensions that it asks for, with open ones and unknown ones; n is -1 when not
 * even their number is known. */
qb_status qb_infer_sizes(qb_ctx *cx, const qb_infer_args *args, int32_t i, qb_sizes *out);
/* The constant input i as a row-major tensor; false when it is absent or not constant. */
bool qb_infer_const(const qb_infer_args *args, int32_t i, qb_tensor *out);
/* Number of elements of the 1-D input i, or -1 while unknown. */
int64_t qb_infer_length(const qb_infer_args *args, int32_t i);

/* --- dimensions and axes ---------------------------------------------------------------------- */

static inline bool qb_dim_known(int64_t dim) { return dim >= 0; }
qb_shape qb_shape_unknown(int32_t rank); /* all dimensions unknown */
/* numpy's broadcast of two shapes, symbols included. */
qb_status qb_shape_broadcast(qb_ctx *cx, const qb_shape *a, const qb_shape *b, qb_shape *out);
/* Makes an axis in [-rank, rank) non-negative. */
qb_status qb_axis_resolve(qb_ctx *cx, int64_t axis, int32_t rank, int32_t *out);
/* The same for a list without repeats, as a mask of axes. */
qb_status qb_axes_resolve(qb_ctx *cx, const int64_t *axes, int32_t n, int32_t rank, uint32_t *mask);
/* a * b, unknown when either is. Overflow is an error. */
qb_status qb_dim_mul(qb_ctx *cx, int64_t a, int64_t b, int64_t *out);
/* Row-major strides in elements. */
void qb_strides_of(const qb_shape *shape, int64_t stride[QB_MAX_RANK]);

/* --- windows ---------------------------------------------------------------------------------- */

/* A sliding window as a node gives it. */
typedef struct qb_window_spec {
    const char *auto_pad;
    qb_ints strides, pads, dilations;
    int32_t n;         /* spatial dimensions */
    int64_t kernel[3]; /* negative: unknown */
    bool ceil_mode;
} qb_window_spec;
/* Checks the attributes and fills everything that does not depend on sizes. */
qb_status qb_window_begin(qb_ctx *cx, const qb_window_spec *spec, qb_window *out);
/* Pads and output sizes from the spatial sizes of the data; unknown sizes give unknown ones (and no
 * auto_pad) unless the window keeps every size. */
qb_status qb_window_resolve(qb_ctx *cx, const qb_window_spec *spec, const int64_t *in,
                            qb_window *window, int64_t *out);
/* Is auto_pad SAME_UPPER or SAME_LOWER? */
bool qb_auto_pad_same(const char *auto_pad, bool *lower);
/* Is a size the expected one? Yes where one of the two is not known (negative); `what` begins the
 * message. */
qb_status qb_expect_dim(qb_ctx *cx, const char *what, int64_t expected, int64_t got);
/* An attribute list: empty, or `n` values of at least `low`. */
qb_status qb_attr_list_check(qb_ctx *cx, const char *name, const qb_ints *list, int32_t n,
                             int64_t low);
/* Windows of the single operators; see qb_op_window. `out` (spatial output sizes) may be NULL. */
qb_status qb_conv_window(qb_ctx *cx, const qb_conv_attrs *attrs, const qb_shape *x,
                         const qb_shape *weight, qb_window *window, int64_t *out);
qb_status qb_conv_transpose_window(qb_ctx *cx, const qb_conv_attrs *attrs, const qb_shape *x,
                                   const qb_shape *weight, qb_window *window, int64_t *out);
qb_status qb_pool_window(qb_ctx *cx, const qb_pool_attrs *attrs, const qb_shape *x,
                         qb_window *window, int64_t *out);
qb_status qb_global_window(qb_ctx *cx, const qb_shape *x, qb_window *window);

/* --- eval ------------------------------------------------------------------------------------- */

/* Was input i given? */
static inline bool qb_eval_has(const qb_node *node, const qb_tensor *in, int32_t i) {
    return i < node->n_in && node->in[i] >= 0 && in[i].desc.dtype != QB_DTYPE_NONE;
}
/* The refusal of a type that the reference does not compute with. */
qb_status qb_eval_refuse(qb_ctx *cx, const qb_node *node, qb_dtype dtype);
/* Fails unless the tensor is float 32. */
qb_status qb_eval_need_f32(qb_ctx *cx, const qb_node *node, const qb_tensor *tensor);
/* Half precision is computed in float and rounded once an operator. Double is too in operators that
 * have no sums in double of their own: those use QB_EVAL_IN_F32. */
typedef qb_status (*qb_eval_fn)(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                qb_tensor *out);
/* Is any input f16 or bf16 (or f64 when `doubles`)? */
bool qb_eval_widens(const qb_node *node, const qb_tensor *in, bool doubles);
/* Calls `eval` with float copies of all f16, bf16 and f64 tensors and rounds its results. */
qb_status qb_eval_widened(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                          qb_eval_fn eval);
/* At the start of an eval function that computes with float 32 only. */
#define QB_EVAL_IN_F32(eval)                                                                       \
    do {                                                                                           \
        if (qb_eval_widens(node, in, true)) return qb_eval_widened(cx, node, in, out, eval);       \
        QB_TRY(qb_eval_need_f32(cx, node, &in[0]));                                                \
    } while (0)
/* At the start of one that knows all types but the halves. */
#define QB_EVAL_HALVES(eval)                                                                       \
    do {                                                                                           \
        if (qb_eval_widens(node, in, false)) return qb_eval_widened(cx, node, in, out, eval);      \
    } while (0)
/* Integers and bool as 64 bits in two's complement, exactly; others give 0. Writing keeps the low
 * bits. */
bool qb_dtype_is_integer(qb_dtype dtype); /* without bool */
uint64_t qb_integer_get(qb_dtype dtype, const void *data, int64_t at);
void qb_integer_put(qb_dtype dtype, void *data, int64_t at, uint64_t v);
/* -1, 0 or 1 as element i is less than, equal to or greater than element j; NaN is the greatest. */
int qb_element_order(qb_dtype dtype, const void *data, int64_t i, int64_t j);
/* An element of a tensor of type int64 or int32 that counts from the end when negative, checked
 * against `size`. */
qb_status qb_eval_index(qb_ctx *cx, const qb_tensor *tensor, int64_t at, int64_t size,
                        int64_t *out);
/* The integers of a tensor of type int64 or int32; more than `max` are an error. */
qb_status qb_eval_ints(qb_ctx *cx, const qb_tensor *tensor, int64_t *v, int32_t max, int32_t *n);
/* Must element i come before element j? */
typedef bool (*qb_before_fn)(const void *what, int64_t i, int64_t j);
/* Merge sort of index[n]: what is equal keeps its order. `other` is as long. */
void qb_sort_indices(const void *what, qb_before_fn before, int64_t *index, int64_t *other,
                     int64_t n);
/* The same by floats x[index[i] * step], NaN the largest, for places in increasing order that 32
 * bits hold: in a time that grows with n. */
void qb_sort_by_floats(const float *x, int64_t step, bool largest, int64_t *index, int64_t *other,
                       int64_t n);
/* Mean and 1 / sqrt(variance + epsilon) of n numbers. */
void qb_moments(const float *x, int64_t n, float epsilon, double *mean, double *inverse);
/* Output 0 holds the bytes of input 0. */
qb_status qb_eval_same_bytes(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out);
/* The definition of operators that have `strided`. */
qb_status qb_eval_strided(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out);

/* The definitions of operators that have `places`: the runs there, one after the other; input 0
 * with the runs of input 2 there, by the attribute `reduction`. */
qb_status qb_eval_gathered(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out);
qb_status qb_eval_scattered(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out);

/* --- matrix products beside MatMul's float one ----------------------------------------------- */

/* A matrix product sees 1-D operands as a row (left) or a column (right). */
qb_shape qb_shape_as_matrix(const qb_shape *shape, bool left);
/* Output 0 is the product of two inputs, of type `dtype`. */
qb_status qb_infer_product(qb_ctx *cx, const qb_infer_args *args, int32_t left, int32_t right,
                           qb_dtype dtype);
typedef struct qb_eval_operand {
    const qb_tensor *tensor;
    const qb_tensor *zero; /* zero point: one, one a row (left) or column (right), or broadcast */
    bool transposed;       /* rank 2 only */
} qb_eval_operand;
/* out = (a - a.zero)(b - b.zero): doubles add up in double, integers modulo 2^64, of which `dtype`
 * keeps the low bits. */
qb_status qb_eval_product(qb_ctx *cx, const qb_node *node, const qb_eval_operand *a,
                          const qb_eval_operand *b, qb_dtype dtype, void *out);
/* The same for 8-bit operands as they lie, with one zero point each (right: or one a column), and
 * sums of 32 bits: is it for these, and the product. `left`, `right`: the operands' shapes as
 * matrices; `batch`: of all products. */
bool qb_quantized_product_takes(const qb_eval_operand *a, const qb_eval_operand *b, qb_dtype dtype);
qb_status qb_quantized_product(qb_ctx *cx, const qb_eval_operand *a, const qb_eval_operand *b,
                               const qb_shape *left, const qb_shape *right, const qb_shape *batch,
                               int32_t *out);

/* --- upgrade ---------------------------------------------------------------------------------- */

/* Replaces the node's inputs. */
qb_status qb_node_inputs_set(qb_ctx *cx, qb_graph *graph, int32_t node, const int32_t *in,
                             int32_t n_in);
/* Sets one input, making room with left-out ones before it. */
qb_status qb_node_input_set(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t i, int32_t value);
/* A 1-D int64 constant or a float scalar, named after the node's first output. */
qb_status qb_node_const_ints(qb_ctx *cx, qb_graph *graph, int32_t node, const char *suffix,
                             const int64_t *v, int32_t n, int32_t *id);
qb_status qb_node_const_floats(qb_ctx *cx, qb_graph *graph, int32_t node, const char *suffix,
                               const qb_shape *shape, const float *v, int32_t *id);
/* The axes attribute of an old form becomes input i when it was given. */
qb_status qb_node_axes_to_input(qb_ctx *cx, qb_graph *graph, int32_t node, qb_ints *axes,
                                int32_t i);
/* The first output is now written by a new value that the caller's next node reads. */
qb_status qb_node_detach_output(qb_ctx *cx, qb_graph *graph, int32_t node, const char *suffix,
                                int32_t *fresh, int32_t *old);

/* QLinearConv and QLinearMatMul with constant parameters become Q/DQ form. */
qb_status qb_qlinear_conv_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version);
qb_status qb_qlinear_matmul_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version);
/* The same of MatMulIntegerToFloat. */
qb_status qb_scaled_product_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version);

/* --- descriptors ------------------------------------------------------------------------------ */

/* A descriptor of ai.onnx without a weight: symbol, name, first opset that is read (7 at least: the
 * reader goes no further back), inputs from .. to, outputs up to, size and table of attributes,
 * rule of the quantizer, functions; then further fields. */
#define QB_OP_SIMPLE(SYMBOL, NAME, ...) QB_OP(SYMBOL, NAME, "", __VA_ARGS__, .weight_input = -1)
/* Of any domain; whether it has a weight stands among the further fields. */
#define QB_OP(SYMBOL, NAME, DOMAIN, SINCE, LOW, HIGH, OUTS, SIZE, ATTRS, RULE, INFER, ...)         \
    const qb_op qb_op_##SYMBOL = {.name = NAME,                                                    \
                                  .domain = DOMAIN,                                                \
                                  .since = SINCE,                                                  \
                                  .min_in = LOW,                                                   \
                                  .max_in = HIGH,                                                  \
                                  .min_out = 1,                                                    \
                                  .max_out = OUTS,                                                 \
                                  .attr_size = SIZE,                                               \
                                  .attrs = ATTRS,                                                  \
                                  .qrule = QB_QRULE_##RULE,                                        \
                                  .infer = INFER,                                                  \
                                  .eval = __VA_ARGS__}

/* Integers and floats by their C types: X(QB_DTYPE_ name, type, type to compute in without signed
 * overflow). */
#define QB_FLOAT_TYPES(X)                                                                          \
    X(F32, float, float)                                                                           \
    X(F64, double, double)
#define QB_SIGNED_TYPES(X)                                                                         \
    X(S8, int8_t, uint32_t)                                                                        \
    X(S16, int16_t, uint32_t)                                                                      \
    X(S32, int32_t, uint32_t)                                                                      \
    X(S64, int64_t, uint64_t)
#define QB_UNSIGNED_TYPES(X)                                                                       \
    X(U8, uint8_t, uint32_t)                                                                       \
    X(U16, uint16_t, uint32_t)                                                                     \
    X(U32, uint32_t, uint32_t)                                                                     \
    X(U64, uint64_t, uint64_t)
#define QB_INTEGER_TYPES(X) QB_SIGNED_TYPES(X) QB_UNSIGNED_TYPES(X)
#define QB_NUMBER_TYPES(X) QB_FLOAT_TYPES(X) QB_INTEGER_TYPES(X)

/* Operations on two tensors, by the operands' type: z[i] = x[i sx] op y[i sy]. */
typedef void (*qb_run_fn)(const void *x, int64_t sx, const void *y, int64_t sy, void *z, int64_t n);
/* OP_NAME, of elements a and b of type T with results of type Z. */
#define QB_RUN(OP, NAME, T, Z, EXPR)                                                               \
    static void OP##_##NAME(const void *x, int64_t sx, const void *y, int64_t sy, void *z,         \
                            int64_t n) {                                                           \
        const T *xs = x, *ys = y;                                                                  \
        Z *zs = z;                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T a = xs[i * sx], b = ys[i * sy];                                                      \
            zs[i] = (Z)(EXPR);                                                                     \
        }                                                                                          \
    }
/* Entries of a table of them: of one type, of all numbers. */
#define QB_RUN_ENTRY(OP, NAME) [QB_DTYPE_##NAME] = OP##_##NAME
#define QB_NUMBER_RUNS(OP)                                                                         \
    QB_RUN_ENTRY(OP, F32), QB_RUN_ENTRY(OP, F64), QB_RUN_ENTRY(OP, S8), QB_RUN_ENTRY(OP, S16),     \
        QB_RUN_ENTRY(OP, S32), QB_RUN_ENTRY(OP, S64), QB_RUN_ENTRY(OP, U8), QB_RUN_ENTRY(OP, U16), \
        QB_RUN_ENTRY(OP, U32), QB_RUN_ENTRY(OP, U64)
/* With broadcasting; operands are of one type. */
qb_status qb_eval_runs(qb_ctx *cx, const qb_node *node, const qb_tensor *a, const qb_tensor *b,
                       qb_tensor *out, const qb_run_fn runs[QB_DTYPE_COUNT]);

#endif
