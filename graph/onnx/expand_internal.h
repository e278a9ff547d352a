/* Shared by expand.c and expand_loops.c: the copying of bodies into the graph. */
#ifndef QB_ONNX_EXPAND_INTERNAL_H
#define QB_ONNX_EXPAND_INTERNAL_H

#include "base/index.h"
#include "onnx_internal.h"

enum { QB_ONNX_TYPE_S64 = 7, QB_ONNX_TYPE_BOOL = 9 }; /* TensorProto.DataType */

/* The names of one copy of a body. */
typedef struct qb_frame {
    const struct qb_frame *parent; /* whose names are seen as well; NULL: none */
    const Onnx__NodeProto *call;   /* function: gives the attributes */
    const Onnx__FunctionProto *function;
    const char *path; /* function: its call's name behind those of the calls around it */
    qb_onnx_imports imports;
    qb_arena *arena; /* of `names`; NULL before the first */
    qb_names names;  /* number: index in `to` */
    const char **to;
    size_t n, capacity;
    size_t serial; /* 0: the graph itself, whose names stay */
    int depth;
} qb_frame;

typedef struct qb_expander {
    qb_ctx *cx;
    qb_onnx_reader *reader;
    qb_arena *arena;
    qb_onnx_imports own_imports; /* of nodes that are made here */
    qb_index functions;          /* of the model, by their names */
    qb_onnx_source *node;
    size_t n, capacity, serial;
    qb_names known;   /* outputs of nodes; number: index in `node` */
    size_t evaluated; /* nodes read to evaluate conditions and lengths */
} qb_expander;

/* --- memory: expand.c -------------------------------------------------------------------------
 * A file of a few hundred bytes can ask for any number of copies: what they take is bounded by the
 * file's size. */

/* Counts bytes against what a model of its size may expand to; beyond it is an error. */
qb_status qb_expand_spend(qb_ctx *cx, qb_onnx_reader *reader, size_t bytes);
/* Memory that lives as long as the graph; NULL on failure (QB_STATUS_UNSUPPORTED when copies take
 * more than the model may ask for). */
void *qb_expand_alloc(qb_expander *e, size_t n, size_t size);

/* --- names: expand.c -------------------------------------------------------------------------- */

/* A frame inside `parent`; qb_frame_release frees what it holds. */
qb_status qb_frame_open(qb_expander *e, const qb_frame *parent, qb_onnx_imports imports,
                        qb_frame *out);
void qb_frame_release(qb_frame *f);
qb_status qb_frame_bind(qb_expander *e, qb_frame *f, const char *from, const char *to);
/* The graph's name for a name of a body. */
const char *qb_frame_find(const qb_frame *f, const char *name);
/* The graph's name for what a node in `f` makes: a new one inside a body. */
qb_status qb_frame_define(qb_expander *e, qb_frame *f, const char *name, const char **out);
char *qb_expand_name(qb_expander *e, const char *name);

/* --- nodes: expand.c -------------------------------------------------------------------------- */

/* Nodes of the standard domain in the newest opset. With an attribute: one whole number, or (NULL)
 * none. */
qb_status qb_expand_emit(qb_expander *e, const char *op, size_t n_in, const char **in,
                         const char *out, const char *attribute, int64_t value);
/* A scalar s64 or bool; *name is new. */
qb_status qb_expand_scalar(qb_expander *e, int type, int64_t value, const char **name);
qb_status qb_expand_initializers(qb_expander *e, qb_frame *f, const Onnx__GraphProto *body);
qb_status qb_expand_nodes(qb_expander *e, qb_frame *f, size_t n, Onnx__NodeProto *const *nodes);
/* The only element of a constant s64 or bool by its name in the graph: of an initializer, of a
 * Constant, or of what can be computed from those and from shapes that are known. */
bool qb_expand_constant(qb_expander *e, const char *name, int64_t *out);
const Onnx__GraphProto *qb_expand_body(const Onnx__NodeProto *node, const char *name);

/* A node whose names are the graph's. */
qb_status qb_expand_emit_node(qb_expander *e, const Onnx__NodeProto *node);

/* --- body.c: bodies that stay for a run --------------------------------------------------------
 */

/* Keeps the node as an operator whose attributes, n of these names, hold its bodies. *done stays
 * false where that is not possible. */
qb_status qb_expand_keep(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node,
                         const char *const *attribute, size_t n, bool *done);

/* --- expand_evaluate.c ------------------------------------------------------------------------ */

/* A value (its type, shape and, when it can be computed, its data) in a graph of its own, which the
 * caller frees. False: nothing is known of it. */
bool qb_expand_evaluate(qb_expander *e, const char *name, qb_value *out, qb_graph **owner);

/* --- expand_loops.c ---------------------------------------------------------------------------
 * *done stays false where the number of iterations is not known: the node is left as it is. */

qb_status qb_expand_loop(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node, bool *done);
qb_status qb_expand_scan(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node, bool *done);

#endif
