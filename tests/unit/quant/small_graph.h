/* Small graphs and calibration tables by hand: an error fails the running test. */
#ifndef SMALL_GRAPH_H
#define SMALL_GRAPH_H

#include "graph/op.h"
#include "qb_test.h"
#include "quant/quant.h"

typedef struct small {
    qb_ctx cx;
    qb_graph *graph; /* float */
    qb_table *table;
    qb_graph *quantized; /* after small_quantize */
    qb_quant_report report;
} small;

void small_init(small *s);
void small_release(small *s);

/* Shapes as "2x3x1x1". */
int32_t small_input(small *s, const char *name, const char *shape);
int32_t small_constant(small *s, const char *name, const char *shape, const float *data);
/* A node with one output called `name`; inputs end with SMALL_END. */
#define SMALL_END INT32_MIN
#define NODE(s, op, name, ...) small_node((s), (op), (name), __VA_ARGS__, SMALL_END)
int32_t small_node(small *s, const char *op, const char *name, ...);
/* The attributes of the node added last. */
void *small_attrs(small *s);
void small_output(small *s, int32_t value);

/* The range of a value, by the method "hand". */
void small_range(small *s, const char *name, float lo, float hi);

/* Quantizes with the options (NULL: defaults) and checks the graph's invariants and shapes. */
void small_quantize(small *s, const qb_quant_options *options);
/* A value of the quantized graph; fails the test when it is not there. */
const qb_value *small_value(const small *s, const char *name);
/* Fails unless the value has one scale and this zero point. */
void expect_params(const small *s, const char *name, qb_dtype dtype, double scale, int32_t zero);
/* Fails unless the value stayed float. */
void expect_float(const small *s, const char *name);

#endif
