/* Small graphs for tests, in few words: an error fails the running test. */
#ifndef QB_BUILD_GRAPH_H
#define QB_BUILD_GRAPH_H

#include "base/rng.h"
#include "graph/op.h"
#include "qb_eval.h"
#include "qb_test.h"

typedef struct maker {
    qb_ctx cx;
    qb_graph *graph;
    qb_rng rng;
    uint64_t seed; /* for messages */
} maker;

void maker_init(maker *m, uint64_t seed);
void maker_release(maker *m);
/* The other graph takes the place of this one. */
void maker_replace(maker *m, qb_graph *graph);

/* dims: up to eight sizes, a negative one is the symbol "N"; ends with DIMS_END by the macro. */
#define DIMS_END INT32_MIN
#define DIMS(...) make_shape(__VA_ARGS__, DIMS_END)
qb_shape make_shape(int first, ...);

int32_t make_input(maker *m, const char *name, qb_shape shape);
void make_output(maker *m, int32_t value);
/* Normal random numbers. */
int32_t make_random(maker *m, const char *name, qb_shape shape);
int32_t make_uniform(maker *m, const char *name, qb_shape shape, double low, double high);
int32_t make_floats(maker *m, const char *name, qb_shape shape, const float *data);
int32_t make_scalar(maker *m, const char *name, float value);
int32_t make_ints(maker *m, const char *name, int32_t n, const int64_t *data);
#define INTS(m, name, ...)                                                                         \
    make_ints((m), (name), (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),          \
              (int64_t[]){__VA_ARGS__})

/* A node with one output called `name`; inputs are value ids, -1 for one left out. Shapes are
 * inferred at once. */
#define NODE(m, op, name, ...)                                                                     \
    make_node((m), (op), (name), (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),    \
              (int32_t[]){__VA_ARGS__})
int32_t make_node(maker *m, const char *op, const char *name, int32_t n_in, const int32_t *in);
/* Attributes of the node added last; infers again. */
void set_int(maker *m, const char *attr, int64_t value);
void set_float(maker *m, const char *attr, float value);
void set_string(maker *m, const char *attr, const char *value);
#define SET_INTS(m, attr, ...)                                                                     \
    set_ints((m), (attr), (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),           \
             (int64_t[]){__VA_ARGS__})
void set_ints(maker *m, const char *attr, int32_t n, const int64_t *value);
int32_t make_batch_norm(maker *m, const char *name, int32_t x, int64_t channels);
/* Marks a value as uint8 with this scale and zero point. */
void make_quantized(maker *m, int32_t value, float scale, int32_t zero);

const qb_value *value_of(const maker *m, int32_t value);
int32_t count_op(const qb_graph *graph, const char *op);
int32_t count_nodes(const qb_graph *graph);
/* Constants of a zoo's model that training would have set: all but running statistics and shapes.
 */
int64_t count_trained(const qb_graph *graph);
/* The live node that writes the value of this name; fails the test when there is none. */
const qb_node *node_writing(const maker *m, const char *value);

/* Runs both graphs on the same random inputs (symbols become 2) and compares all outputs: shapes,
 * names, values within `tolerance` of the output's range. */
void assert_same_results(maker *m, const qb_graph *before, const qb_graph *after, double tolerance);

#endif
