/* Nodes that an operator's `upgrade` puts in the place of its own, one after the other. The first
 * error stays, and what follows it does nothing. */
#ifndef QB_OPS_BUILD_INTERNAL_H
#define QB_OPS_BUILD_INTERNAL_H

#include <math.h>

#include "ops_internal.h"

typedef struct qb_build {
    qb_ctx *cx;
    qb_graph *graph;
    int32_t node; /* that is replaced */
    qb_status status;
} qb_build;

/* The node's input i; -1: left out. */
int32_t qb_build_in(const qb_build *b, int32_t i);
/* Is output i read? */
bool qb_build_wants(const qb_build *b, int32_t i);
/* The shape, as far as it is known; rank -1: not at all. */
const qb_shape *qb_build_shape(const qb_build *b, int32_t value);

/* A new value that a node of the default domain makes of others, -1 among them being left out. */
int32_t qb_build_node(qb_build *b, const char *op, int32_t n_in, const int32_t *in);
#define QB_BUILD(b, op, ...)                                                                       \
    qb_build_node((b), (op), (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),        \
                  (int32_t[]){__VA_ARGS__})
/* Attributes of the node that was added last. */
void qb_build_set_int(qb_build *b, const char *attr, int64_t value);
void qb_build_set_float(qb_build *b, const char *attr, float value);
void qb_build_set_string(qb_build *b, const char *attr, const char *value);

/* Constants: a float in the type of `like`, whole numbers as a list, a whole number. */
int32_t qb_build_float(qb_build *b, int32_t like, float v);
int32_t qb_build_ints(qb_build *b, int32_t n, const int64_t *v);
#define QB_BUILD_INTS(b, ...)                                                                      \
    qb_build_ints((b), (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),              \
                  (int64_t[]){__VA_ARGS__})
int32_t qb_build_int(qb_build *b, int64_t v);
void *qb_build_constant(qb_build *b, qb_dtype dtype, const qb_shape *shape, int32_t *id);

int32_t qb_build_reshape(qb_build *b, int32_t x, int32_t n, const int64_t *to);
int32_t qb_build_transpose(qb_build *b, int32_t x, int32_t n, const int64_t *perm);
int32_t qb_build_cast(qb_build *b, int32_t x, qb_dtype to);
/* A dimension of x as a whole number. */
int32_t qb_build_dim(qb_build *b, int32_t x, int64_t dim);

/* Output i of the node is this value. */
void qb_build_output(qb_build *b, int32_t i, int32_t value);
/* The node goes; the status. UNSUPPORTED where an output is read that nothing was made for. */
qb_status qb_build_end(qb_build *b);
/* The first error is this one. */
void qb_build_refuse(qb_build *b, const char *why);

/* Attention in products: softmax(scale q k^T [, capped] + bias) v. */
typedef struct qb_products {
    int32_t q, k, v; /* [batch, heads, length, size]; those of k and v may serve several of q */
    int64_t heads, kv_heads;
    int32_t bias[2]; /* the same for all heads; or for each of q's; added to scores; -1: none */
    bool causal;     /* `masked` is added for keys behind a query, whose place is i + `before` */
    int32_t before;  /* a whole number; -1: as many as there are keys beyond the queries */
    float masked;
    bool none;     /* a query may see no key: it gets 0 */
    float scale;   /* NaN: 1 / sqrt(size) */
    float softcap; /* 0: none */
} qb_products;
/* [batch, length, heads size] as [batch, heads, length, size]. */
int32_t qb_build_split_heads(qb_build *b, int32_t x, int64_t heads);
/* [batch, heads, length, size of v]. */
int32_t qb_build_attention(qb_build *b, const qb_products *h);
int32_t qb_build_join_heads(qb_build *b, int32_t y);

/* --- descriptors of operators that exist in files only -----------------------------------------
 */

/* The operator of ai.onnx that has the same name, inputs and attributes. */
qb_status qb_rename_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version);
qb_status qb_infer_rewritten(qb_ctx *cx, const qb_infer_args *args);
qb_status qb_eval_rewritten(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out);
#define QB_OP_OF_FILES(SYMBOL, NAME, DOMAIN, LOW, HIGH, OUTS, SIZE, ATTRS, UPGRADE, ...)           \
    QB_OP(SYMBOL, NAME, DOMAIN, 1, LOW, HIGH, OUTS, SIZE, ATTRS, FLOAT, qb_infer_rewritten,        \
          qb_eval_rewritten, .weight_input = -1, .upgrade = UPGRADE, __VA_ARGS__)

#endif
