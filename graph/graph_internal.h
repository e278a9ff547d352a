/* What the files of graph/ share beyond graph.h and op.h. */
#ifndef QB_GRAPH_INTERNAL_H
#define QB_GRAPH_INTERNAL_H

#include "graph/op.h"

#define QB_LABEL_MAX 160 /* buffer for qb_node_text; longer names are cut */

/* A set of names with a number each, in an arena. Names are not copied. */
typedef struct qb_names {
    struct qb_name_slot *slot;
    size_t n_slots, n_used; /* used: with the slots of removed names */
} qb_names;

int32_t qb_names_find(const qb_names *names, const char *name); /* -1 when absent */
/* Makes room for n names in an empty set. */
qb_status qb_names_reserve(qb_ctx *cx, qb_arena *arena, qb_names *names, size_t n);
/* Adds a name that is not there yet. */
qb_status qb_names_put(qb_ctx *cx, qb_arena *arena, qb_names *names, const char *name, int32_t id);
void qb_names_remove(qb_names *names, const char *name);
void qb_names_renumber(qb_names *names, const char *name, int32_t id); /* of a present name */
/* The name itself, or with "_1", "_2" ... behind it when it is taken; "value" for an empty one. */
const char *qb_names_unique(qb_ctx *cx, qb_arena *arena, const qb_names *names, const char *name);
/* A name of its own for each node of the graph, as a file needs them: out[n_nodes], "" for nodes
 * without one. The first of several nodes of one name keeps it. All are in `names` afterwards. */
qb_status qb_names_of_nodes(qb_ctx *cx, qb_arena *arena, const qb_graph *graph, qb_names *names,
                            const char **out);

/* Adds a constant whose memory (zeroed) the caller fills; *id is its value. NULL on failure. */
void *qb_graph_new_constant(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                            const qb_shape *shape, int32_t *id);
/* Makes room in an empty graph. */
qb_status qb_graph_reserve(qb_ctx *cx, qb_graph *graph, int32_t n_values, int32_t n_nodes);
/* Adds a value whose name (in the arena already) is known to be new. */
int32_t qb_graph_add_named(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                           const qb_shape *shape);

/* qb_graph_clone; share: constants stay those of `graph`, which must outlive the copy. */
qb_status qb_graph_copy(qb_ctx *cx, const qb_graph *graph, bool share, qb_graph **out);

/* The row of an attribute in the operator's table; NULL when there is none. */
const qb_attr_desc *qb_attr_find(const qb_op *op, const char *name);
/* Attribute struct with the defaults that hold in opset `version`; NULL with an error recorded, or
 * when the operator has none. */
void *qb_attrs_new(qb_ctx *cx, qb_arena *arena, const qb_op *op, int32_t version);
/* Deep copy into the arena; *out is NULL when there are none. */
qb_status qb_attrs_copy(qb_ctx *cx, qb_arena *arena, const qb_op *op, const void *attrs,
                        void **out);
/* Does the field hold the default of the current opset? */
bool qb_attr_is_default(const qb_attr_desc *desc, const void *attrs);

/* What is known of a short integer tensor (see sizes.c): a number, a symbol or nothing for each
 * element. */
#define QB_SIZES_MAX (2 * QB_MAX_RANK)
#define QB_SIZE_UNKNOWN INT64_MIN
typedef struct qb_sizes {
    int32_t n;
    int64_t v[QB_SIZES_MAX];
} qb_sizes;
static inline bool qb_size_is_number(int64_t size) { return size > INT64_MIN / 2; }
/* Between elements and dimensions of shapes (symbols are <= -2 there, -1 is unknown). */
int64_t qb_size_of_dim(int64_t dim);
int64_t qb_dim_of_size(int64_t size);
/* What is known of a value, constants included; false when it is no short tensor of integers. */
bool qb_sizes_get(const qb_graph *graph, int32_t value, qb_sizes *out);
bool qb_sizes_are_numbers(const qb_sizes *sizes);
/* Writes numbers as the elements of a tensor of type int64, int32 or bool. */
void qb_sizes_put(const qb_sizes *sizes, qb_dtype dtype, void *data);
/* Notes what is known of the output of a node whose shapes were inferred. */
qb_status qb_sizes_infer(qb_ctx *cx, qb_graph *graph, int32_t node);

/* Copies quantization parameters into an arena. */
qb_status qb_qparams_copy(qb_ctx *cx, qb_arena *arena, const qb_qparams *q, qb_qparams *out);

/* While operators are asked for shapes, a quantized value looks like the float tensor it stands
 * for: begin makes it so (and hides the integers of quantized constants), end undoes it. */
typedef struct qb_disguise {
    const void **data; /* [n_values] of the quantized constants */
    int32_t n_values;
} qb_disguise;
qb_status qb_disguise_begin(qb_ctx *cx, qb_graph *graph, qb_disguise *out);
void qb_disguise_end(qb_graph *graph, qb_disguise *disguise);
/* Resets the outputs of one live node and infers them; between begin and end. */
qb_status qb_infer_node(qb_ctx *cx, qb_graph *graph, int32_t node);

#endif
