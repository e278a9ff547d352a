/* What the optimizer passes and the fusion share: attributes by name, constants as numbers, and
 * edits that keep the names of values.
 *
 * Names: calibration tables are keyed by value names, so a rewrite ends in the value that the rest
 * of the model reads, and that value keeps its name. Only values that no original model had get new
 * ones, made from the name of the value they lead to.
 *
 * Quantization: a pass leaves a value alone when its parameters (q.n > 0) are in doubt. */
#ifndef QB_GRAPH_REWRITE_INTERNAL_H
#define QB_GRAPH_REWRITE_INTERNAL_H

#include "graph/op.h"

/* --- reading --------------------------------------------------------------------------------- */

/* A live node of the default domain with this operator? */
bool qb_node_is(const qb_node *node, const char *op);
/* Attributes by name; the fallback when the operator has none of that name and type. */
int64_t qb_node_int(const qb_node *node, const char *attr, int64_t fallback);
float qb_node_float(const qb_node *node, const char *attr, float fallback);
const char *qb_node_string(const qb_node *node, const char *attr, const char *fallback);
qb_ints qb_node_ints(const qb_node *node, const char *attr);
/* Same operator and same attributes? */
bool qb_node_same_attrs(const qb_node *a, const qb_node *b);
/* Input i, or -1 when it was left out. */
int32_t qb_node_in(const qb_node *node, int32_t i);

bool qb_value_is_const(const qb_graph *graph, int32_t value);
/* Float 32 without quantization parameters? */
bool qb_value_is_plain(const qb_graph *graph, int32_t value);
/* Float 32, or quantized values of 8 bits with one scale? */
bool qb_value_has_one_scale(const qb_value *value);
/* The data of a plain float 32 constant, else NULL. */
const float *qb_value_floats(const qb_graph *graph, int32_t value);
/* A constant of exactly one element of type float 32 or 64, int 32 or 64, or bool. */
bool qb_value_scalar(const qb_graph *graph, int32_t value, double *out);
/* The elements of a constant of rank 0 or 1, int 32 or 64; false when there are more than `cap`. */
bool qb_value_int_list(const qb_graph *graph, int32_t value, int64_t *out, int32_t cap, int32_t *n);
/* Does the constant, broadcast to `rank` dimensions, vary along `axis` only, with 1 or `channels`
 * elements? Then writes `channels` numbers. */
bool qb_value_channels(const qb_graph *graph, int32_t value, int32_t rank, int32_t axis,
                       int64_t channels, double *out);
/* Channels of a float image [N, C, H, W] of 3 or 4 planes that the model is given; 0: it is none.
 */
#define QB_IMAGE_CHANNELS_MAX 4
int64_t qb_image_channels(const qb_graph *graph, int32_t value);
/* ReduceMean over exactly the spatial axes of a value of rank 3 to 5? */
bool qb_node_is_spatial_mean(const qb_graph *graph, const qb_node *node);
bool qb_qparams_same(const qb_qparams *a, const qb_qparams *b);
/* Do elements of both stand for the same numbers? */
bool qb_value_same_type(const qb_value *a, const qb_value *b);
/* Equal and without unknown (-1) dimensions. */
bool qb_shape_surely_equal(const qb_shape *a, const qb_shape *b);

/* Turns foldable QuantizeLinear/DequantizeLinear nodes into quantization parameters of values. The
 * graph is sorted and inferred. */
qb_status qb_graph_fold_qdq(qb_ctx *cx, qb_graph *graph);
/* One warning where such a node has a scale that is zero, negative, infinite or NaN: onnxruntime
 * runs these, and so do we, but nobody can have meant it. */
void qb_graph_warn_of_scales(qb_ctx *cx, const qb_graph *graph);

/* --- rewriting ------------------------------------------------------------------------------- */

struct qb_rewrite;
/* What engines want otherwise than models have it (qb_finalize_moves): a group normalization in
 * three nodes as one; a Concat that begins with all of another one as that and the rest. */
qb_status qb_match_group_norm(struct qb_rewrite *rw, int32_t node);
qb_status qb_share_concats(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* What keeps `uses` up to date (rewrite_uses.c). */
typedef struct qb_rewrite_index {
    bool entered, failed;           /* the graph is entered; memory ran out since */
    struct qb_rewrite_links *links; /* by node: its inputs and outputs as they are entered */
    int32_t *capacity;              /* by value: places in its list of users */
    int32_t *touched;               /* nodes to enter anew; may repeat */
    size_t n_nodes, n_values, n_touched;
    size_t cap_nodes, cap_producers, cap_counts, cap_users, cap_capacity, cap_touched;
    qb_arena *arena;
    struct qb_names *node_names; /* of all nodes, dead ones too; NULL: nobody asked yet */
} qb_rewrite_index;

typedef struct qb_rewrite {
    qb_ctx *cx;
    qb_graph *graph;
    qb_uses uses;      /* of the graph as it is when a match starts */
    int32_t n_changes; /* counted by the matches */
    bool unsorted;     /* nodes were appended */
    bool (*accept)(const void *user, const qb_problem *problem); /* fusions: is there a kernel? */
    const void *user;                                            /* what `accept` is told */
    qb_rewrite_index index;
} qb_rewrite;

/* Arithmetic broadcasts what an Expand repeats, if the result stays as large. */
void qb_read_before_expand(qb_rewrite *rw, int32_t node);

/* Looks at one live node; what it rewrites it counts in rw->n_changes through the edits below. */
typedef qb_status (*qb_match)(qb_rewrite *rw, int32_t node);
/* Calls `match` for every live node in order, with `uses` up to date each time, then sorts. */
qb_status qb_rewrite_each(qb_ctx *cx, qb_graph *graph, qb_match match, int32_t *n_changes);
/* The same for the live nodes that are there at the start, then tidies; `rw` is begun with what the
 * matches need, and released here. */
qb_status qb_rewrite_fuse(qb_rewrite *rw, qb_match match, int32_t *n_changes);

/* After changes: checks them, sorts, and removes what nothing reads any more. */
qb_status qb_rewrite_tidy(qb_rewrite *rw);

/* Producer of a value: a live node of this operator, else -1. `op` NULL: any. */
int32_t qb_rewrite_from(const qb_rewrite *rw, int32_t value, const char *op);
/* The same as a node, and of a plain value only; NULL: none. */
const qb_node *qb_rewrite_behind(const qb_rewrite *rw, int32_t value, const char *op);
/* The node that alone reads the value (once), when the value is no graph output; else -1. */
int32_t qb_uses_sole_user(const qb_graph *graph, const qb_uses *uses, int32_t value);
/* The node that makes a plain value which `reader` alone reads; -1: none. */
int32_t qb_rewrite_made_for(const qb_rewrite *rw, int32_t value, int32_t reader);

/* A rewrite without qb_rewrite_each: `uses` as the graph is now, before each match; the end. */
qb_status qb_rewrite_refresh(qb_rewrite *rw);
void qb_rewrite_release(qb_rewrite *rw);
/* Is all of it right? QB_STATUS_INTERNAL when a node changed that was not touched. */
qb_status qb_rewrite_check(qb_rewrite *rw);
/* Whoever changes a node's inputs or outputs by hand says so; the edits below do it themselves. */
void qb_rewrite_touch(qb_rewrite *rw, int32_t node);
/* Where the index and what else a rewrite needs for a while lies. */
qb_status qb_rewrite_arena(qb_rewrite *rw);

/* Counts one rewrite. QB_OK, with which a match that made one ends. */
qb_status qb_rewrite_changed(qb_rewrite *rw);
void qb_rewrite_kill(qb_rewrite *rw, int32_t node);
/* Every use of `from` (inputs of nodes, graph outputs) becomes `to`. */
void qb_rewrite_replace_uses(qb_rewrite *rw, int32_t from, int32_t to);
/* Everything that reads `from` shall read `to`, which holds the same values; one of the two names
 * survives: `from`'s when it is a graph output (then the producer of `to` writes `from`). The
 * caller kills the producer of `from` afterwards. False, with nothing changed, when both names must
 * stay. */
bool qb_rewrite_forward(qb_rewrite *rw, int32_t from, int32_t to);
/* Node `node` becomes another operator with default attributes, in place, with the same name. */
qb_status qb_rewrite_node(qb_rewrite *rw, int32_t node, const qb_op *op, const int32_t *in,
                          int32_t n_in, int32_t out);
qb_status qb_rewrite_inputs(qb_rewrite *rw, int32_t node, const int32_t *in, int32_t n_in);
/* Appends a node with one output, named after it (onnxruntime wants unique names of nodes); its
 * index is rw->graph->n_nodes - 1. */
qb_status qb_rewrite_append(qb_rewrite *rw, const qb_op *op, const int32_t *in, int32_t n_in,
                            int32_t out);
/* A new float constant or value named after `like`. */
qb_status qb_rewrite_floats(qb_rewrite *rw, int32_t like, const char *suffix, const qb_shape *shape,
                            const float *data, int32_t *out);
/* The floats that a constant, quantized or f32, stands for, in the graph's memory; NULL without
 * memory. */
float *qb_rewrite_dequantized(qb_rewrite *rw, int32_t value);
qb_status qb_rewrite_int64s(qb_rewrite *rw, int32_t like, const char *suffix, const int64_t *data,
                            int32_t n, int32_t *out);
qb_status qb_rewrite_value(qb_rewrite *rw, int32_t like, const char *suffix, const qb_shape *shape,
                           int32_t *out);
/* The same in floats, also where `like` is quantized. */
qb_status qb_rewrite_plain(qb_rewrite *rw, int32_t like, const char *suffix, const qb_shape *shape,
                           int32_t *out);
/* Node `index` reads what `view` reads, in place of input `side`, which the view made for it alone,
 * and the view makes the node's result of the new value, named with the suffix. */
qb_status qb_rewrite_before(qb_rewrite *rw, int32_t index, int32_t side, int32_t view,
                            const char *suffix);
/* qb_rewrite_append of a node of the default domain whose result is such a new value; in[1] is -1
 * where it has one input. */
qb_status qb_rewrite_append_plain(qb_rewrite *rw, const char *op, const int32_t in[2], int32_t like,
                                  const char *suffix, const qb_shape *shape, int32_t *out);
/* Attributes by name; INTERNAL when the operator has none of that name and type. */
qb_status qb_node_set_int(qb_rewrite *rw, int32_t node, const char *attr, int64_t value);
qb_status qb_node_set_float(qb_rewrite *rw, int32_t node, const char *attr, float value);
qb_status qb_node_set_string(qb_rewrite *rw, int32_t node, const char *attr, const char *value);
qb_status qb_node_set_ints(qb_rewrite *rw, int32_t node, const char *attr, const int64_t *value,
                           int32_t n);

/* A window's pads, with auto_pad resolved: begin of each of n axes, then end of each. False: they
 * follow from sizes that are not known. */
bool qb_node_pads(qb_rewrite *rw, const qb_node *node, int32_t n, int64_t *pads);

/* Mul and Div scale, Add and Sub shift. */
typedef enum qb_affine { QB_AFFINE_NONE, QB_AFFINE_SCALE, QB_AFFINE_SHIFT } qb_affine;
qb_affine qb_affine_of(const qb_node *node);
/* What such a node, by a constant that varies along `axis` only, does to its operand number `side`:
 * n factors or n terms. NONE: its other operand is not such a constant. */
qb_affine qb_affine_numbers(const qb_graph *graph, const qb_node *node, int32_t side, int32_t axis,
                            int64_t n, double *numbers);
/* Node `node` becomes x scale[c] + shift[c] as a depthwise Conv of one pixel, n channels. */
qb_status qb_affine_conv(qb_rewrite *rw, int32_t node, int32_t x, int64_t n, const double *scale,
                         const double *shift);
/* Output channels of a Conv, ConvTranspose, Gemm or MatMul whose weight and bias are plain
 * constants, and the axis they lie on in the output; 0 when it is none or they are not. */
int64_t qb_affine_channels(const qb_rewrite *rw, int32_t node, int32_t *axis);
/* node(x) * scale[c] + shift[c] moves into the node's weight and bias, and the node writes `out`.
 * Either may be NULL. A MatMul that gets a bias becomes a Gemm. *done is false, with nothing
 * changed, when the new numbers would not be finite or the node cannot hold a bias. */
qb_status qb_affine_fold(qb_rewrite *rw, int32_t node, const double *scale, const double *shift,
                         int32_t out, bool *done);

#endif
