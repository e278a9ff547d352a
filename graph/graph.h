/* The graph: values and nodes in flat arrays, linked by indices, in one arena.
 *
 * In memory a graph always has the semantics of ONNX opset QB_GRAPH_OPSET; the reader rewrites
 * older forms (axes as attributes, Clip's bounds, Softmax before 13 ...) on import.
 *
 * Quantization hangs on values: a value with q.n > 0 holds integers of type q.dtype (== dtype) that
 * stand for scale (q - zero). Q/DQ nodes exist only where a placement could not be folded. */
#ifndef QB_GRAPH_GRAPH_H
#define QB_GRAPH_GRAPH_H

#include <stdio.h>

#include "base/arena.h"
#include "base/hash.h"
#include "kernels/tensor.h"

#define QB_GRAPH_OPSET 21

struct qb_op;
struct qb_names;
struct qb_sizes;

typedef struct qb_value {
    const char *name; /* unique, never NULL or empty; changed by qb_graph_rename only */
    qb_dtype dtype;   /* type in memory; NONE while unknown */
    qb_shape shape;   /* rank -1 while unknown; negative dimensions are symbols, see qb_shape */
    const void *data; /* constants: row-major, 64-byte aligned, never changed in place; else NULL */
    size_t bytes;     /* of data */
    qb_qparams q;     /* arrays live in the graph's arena */
    const struct qb_sizes *sizes; /* what is known of short integers without data; else NULL */
    float largest;                /* magnitude that was seen of its numbers; 0: not known */
    bool kept;                    /* reaches memory: no fusion group keeps it inside */
    bool is_output;               /* one of the graph's outputs; the functions below set it */
} qb_value;

typedef struct qb_node {
    const char *name; /* may repeat or be ""; messages add the operator and the index */
    const struct qb_op *op;
    int32_t n_in, n_out;
    int32_t *in;  /* value ids; -1: optional input left out */
    int32_t *out; /* value ids; -1: optional output not wanted */
    void *attrs;  /* op->attr_size bytes laid out by op->attrs; NULL when 0 */
} qb_node;

typedef struct qb_graph {
    qb_arena *arena; /* owns everything below */
    const char *name;
    const char *source; /* path it came from, for messages */
    int32_t opset;      /* the file's opset of the default domain */
    int32_t n_values, n_nodes, n_inputs, n_outputs, n_symbols;
    size_t cap_values, cap_nodes;
    qb_value *values;
    qb_node *nodes;  /* topological order */
    int32_t *inputs; /* value ids, without initializers */
    int32_t *outputs;
    const char **symbols;   /* names of symbolic dimensions: dim -2 - k is symbols[k] */
    qb_hash hash;           /* of the model's bytes (file and external data) */
    size_t folded;          /* bytes of constants that qb_graph_fold has made so far */
    size_t fold_limit;      /* of them; 0: QB_FOLD_LIMIT and QB_FOLD_GROWTH */
    struct qb_names *names; /* index of the values' names */
} qb_graph;

qb_status qb_graph_create(qb_ctx *cx, qb_graph **out);
void qb_graph_free(qb_graph *graph); /* accepts NULL */
QB_RELEASE_AT(qb_graph, qb_graph_free)
/* A deep copy that shares nothing. Dead values are dropped. */
qb_status qb_graph_clone(qb_ctx *cx, const qb_graph *graph, qb_graph **out);
/* The same with the constants and names of `graph` itself, which must outlive the copy. */
qb_status qb_graph_clone_sharing(qb_ctx *cx, const qb_graph *graph, qb_graph **out);

/* Adds a value; the name is copied and made unique ("x", "x_1", ...). Returns its id or -1. */
int32_t qb_graph_add_value(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                           const qb_shape *shape);
/* Adds a constant; the bytes are copied. */
int32_t qb_graph_add_constant(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                              const qb_shape *shape, const void *data);
/* Appends a value to the graph's inputs or outputs. */
qb_status qb_graph_add_input(qb_ctx *cx, qb_graph *graph, int32_t value);
qb_status qb_graph_add_output(qb_ctx *cx, qb_graph *graph, int32_t value);
/* The graph's outputs are values[n] from now on, memory of its arena; those that it had may be the
 * same memory. */
void qb_graph_set_outputs(qb_graph *graph, int32_t *values, int32_t n);
/* Where the graph gives `from`, it gives `to`. */
void qb_graph_replace_output(qb_graph *graph, int32_t from, int32_t to);
/* The dimension (<= -2) that stands for the symbol of this name; 0 with an error on failure. */
int64_t qb_graph_add_symbol(qb_ctx *cx, qb_graph *graph, const char *name);
/* The value takes this name; another value that has it gets a new one. */
qb_status qb_graph_rename(qb_ctx *cx, qb_graph *graph, int32_t value, const char *name);
/* Appends a node with default attributes; the caller sorts with qb_graph_sort when the order needs
 * it. Returns its index or -1. Pointers into nodes/values are invalid afterwards. */
int32_t qb_graph_add_node(qb_ctx *cx, qb_graph *graph, const struct qb_op *op, const char *name,
                          const int32_t *in, int32_t n_in, const int32_t *out, int32_t n_out);
/* Marks a node dead (op = NULL); qb_graph_sweep removes dead nodes and values nobody uses. */
void qb_graph_kill_node(qb_graph *graph, int32_t node);
qb_status qb_graph_sweep(qb_ctx *cx, qb_graph *graph);
/* Sorts nodes topologically (stable); an error names a cycle. */
qb_status qb_graph_sort(qb_ctx *cx, qb_graph *graph);
/* Every use of value `from` (inputs of nodes, graph outputs) becomes `to`. */
void qb_graph_replace_uses(qb_graph *graph, int32_t from, int32_t to);

int32_t qb_graph_find_value(const qb_graph *graph, const char *name); /* -1 when absent */
bool qb_graph_is_input(const qb_graph *graph, int32_t value);
bool qb_graph_is_output(const qb_graph *graph, int32_t value);
/* What input number i takes from the outside: floats where it is quantized, those that its
 * quantized values stand for. */
qb_dtype qb_graph_input_type(const qb_graph *graph, int32_t i);
/* "node 17 Conv 'conv1'" into text[n], for messages; returns text. */
char *qb_node_text(const qb_graph *graph, int32_t node, char *text, size_t n);

/* Producer and consumers of each value; built once per traversal, not kept up to date. */
typedef struct qb_uses {
    int32_t *producer; /* [n_values] node index or -1 */
    int32_t *n_users;  /* [n_values] uses as node input (graph outputs not counted) */
    int32_t **users;   /* [n_values] node indices in order, one per use */
    void *block;
} qb_uses;
qb_status qb_uses_build(qb_ctx *cx, const qb_graph *graph, qb_uses *out);
void qb_uses_release(qb_uses *uses);

/* Invariants: ids in range, unique names, topological order, one producer a value, arities, q
 * consistent with shapes. An error is a bug in whoever changed the graph. */
qb_status qb_graph_verify(qb_ctx *cx, const qb_graph *graph);
/* Shapes and types of all values, from the inputs on; stays symbolic where it must. Errors name
 * node, operator and the shapes at hand. */
qb_status qb_graph_infer(qb_ctx *cx, qb_graph *graph);
/* Evaluates nodes whose inputs are all constant (or of which only the shape matters and is known)
 * and makes their outputs constants; infers every node on the way, so that one call reaches the
 * end. Leaves the dead nodes for qb_graph_sweep. Nodes with quantized inputs or outputs stay, and
 * so does what would take more than QB_FOLD_LIMIT bytes and QB_FOLD_GROWTH times the model's own
 * constants, all calls on a graph and its copies together, or hours of scalar arithmetic: a file of
 * a few hundred bytes can ask for any number. *n is the number of nodes folded. */
#define QB_FOLD_LIMIT ((size_t)128 << 20)
#define QB_FOLD_GROWTH 8
qb_status qb_graph_fold(qb_ctx *cx, qb_graph *graph, int32_t *n);
/* The same with another limit of bytes. */
qb_status qb_graph_fold_within(qb_ctx *cx, qb_graph *graph, size_t bytes, int32_t *n);
/* A copy whose inputs have the given concrete shapes (in order of graph->inputs), inferred and
 * constant-folded until every shape is known; an error names the first value that is not. */
qb_status qb_graph_bind(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                        qb_graph **out);
/* The same with the constants and names of `graph` itself, which must outlive the copy. */
qb_status qb_graph_bind_sharing(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                                qb_graph **out);
/* The same, but shapes that depend on values stay open. */
qb_status qb_graph_bind_loosely(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                                qb_graph **out);
/* As loosely, with the constants and names of `graph` itself, which must outlive the copy. */
qb_status qb_graph_bind_loosely_sharing(qb_ctx *cx, const qb_graph *graph,
                                        const qb_shape *input_shapes, qb_graph **out);
/* Input number i is a constant of these numbers from now on, one for each element; open dimensions
 * are 1. Numbers are rounded to the input's type. */
qb_status qb_graph_fix_input(qb_ctx *cx, qb_graph *graph, int32_t i, const double *number);
/* What a graph that normalizes an image itself takes: its first arithmetic on the input, behind
 * moves and conversions, has a mean, a deviation or a range of pixels (above 2) or of shares. NONE:
 * it begins with something else. */
typedef enum qb_own_range {
    QB_OWN_RANGE_NONE,
    QB_OWN_RANGE_SHARES, /* 0..1 */
    QB_OWN_RANGE_PIXELS  /* 0..255 */
} qb_own_range;
/* Of an input of a graph that no pass has changed. */
qb_status qb_graph_own_range(qb_ctx *cx, const qb_graph *graph, int32_t value, qb_own_range *out);
/* The graph as stable text, one line a node: for golden tests and --verbose. */
qb_status qb_graph_text(qb_ctx *cx, const qb_graph *graph, char **out);
/* The graph in Graphviz's language: what runs as one step is framed, quantized values have bold
 * edges, colors tell what the quantizer does with an operator. */
qb_status qb_graph_dot(qb_ctx *cx, const qb_graph *graph, FILE *stream);

/* ONNX in and out (graph/onnx). Reading validates everything and reports all unsupported operators
 * at once (name, op, opset, why). External data is found relative to the model. */
qb_status qb_onnx_load(qb_ctx *cx, const char *path, qb_graph **out);
/* The same with QuantizeLinear and DequantizeLinear left as the nodes that they are: for evaluating
 * by the operators' definitions, where no value has quantization parameters. */
qb_status qb_onnx_load_unfolded(qb_ctx *cx, const char *path, qb_graph **out);
/* The nodes as they stand in the file: nothing is rewritten, folded or inferred, and operators that
 * qbench does not know have a descriptor that only names them. For looking at, not for running. */
qb_status qb_onnx_load_as_written(qb_ctx *cx, const char *path, qb_graph **out);
/* The same from memory, without external data. */
qb_status qb_onnx_parse_as_written(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                                   qb_graph **out);
/* Unfolded, from memory, without external data. */
qb_status qb_onnx_parse_unfolded(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                                 qb_graph **out);
/* The body of an If or Loop that a run chooses or counts, as the node's attribute holds it, for
 * inputs of these types and shapes (rank -1: open), unfolded. */
qb_status qb_onnx_parse_body(qb_ctx *cx, const qb_tensor *bytes, const qb_desc *in, int32_t n,
                             qb_graph **out);
/* The part of a model between named tensors of its main graph: the nodes that lead from `inputs` to
 * `outputs`. What lies beyond is not read: it may hold operators that are not supported. */
typedef struct qb_onnx_part {
    const char *const *inputs;  /* all inputs of the part; none: the model's, where it needs them */
    const char *const *outputs; /* in this order; none: the model's */
    int32_t n_inputs, n_outputs;
    /* Called before branches are chosen, where there are any: may give open dimensions of the
     * graph's inputs a size, on which conditions and lengths of loops can depend. NULL: none. */
    qb_status (*size_inputs)(qb_ctx *cx, qb_graph *graph, const void *user);
    const void *user;
} qb_onnx_part;
/* Inputs that the file does not describe (value_info) get the types and shapes that the nodes
 * before them lead to, which must be supported then. QB_STATUS_NOTFOUND lists tensors with names
 * near to one that is not there. `part` NULL: all of the model. */
qb_status qb_onnx_load_part(qb_ctx *cx, const char *path, const qb_onnx_part *part, qb_graph **out);
/* The same from memory, without external data. */
qb_status qb_onnx_parse_part(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                             const qb_onnx_part *part, qb_graph **out);
/* From memory; `name` for messages; external data as the file `by` names them (base/open.h; NULL:
 * refused). */
qb_status qb_onnx_parse(qb_ctx *cx, const char *name, const char *by, const void *bytes,
                        size_t size, qb_graph **out);
/* Writes the graph, quantized values as explicit QuantizeLinear/DequantizeLinear pairs (weights as
 * integer initializer -> DequantizeLinear). Atomic. Same graph, same bytes. What would be more than
 * 2 GiB, the most that the format allows, has its tensors in PATH.data, written first. */
qb_status qb_onnx_save(qb_ctx *cx, const qb_graph *graph, const char *path);
/* The same with PATH.data from `most` bytes on. */
qb_status qb_onnx_save_split(qb_ctx *cx, const qb_graph *graph, const char *path, size_t most);
/* The same bytes into a stream. */
qb_status qb_onnx_write(qb_ctx *cx, const qb_graph *graph, FILE *stream);
/* A TensorProto file (.pb of ONNX test data): row-major tensor with memory the caller frees
 * (qb_free(out->data)). `*name` (may be NULL) is new memory. */
qb_status qb_onnx_load_tensor(qb_ctx *cx, const char *path, qb_tensor *out, char **name);
#endif
