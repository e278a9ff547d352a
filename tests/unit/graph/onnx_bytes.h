/* ONNX files byte by byte, for tests: an encoder of our own, so that the reader is not tested
 * against the writer, and malformed files are as easy as good ones. */
#ifndef QB_ONNX_BYTES_H
#define QB_ONNX_BYTES_H

#include "graph/graph.h"
#include "qb_test.h"

/* Bytes under construction; release with ob_free. Running out of memory fails the test. */
typedef struct ob {
    uint8_t *data;
    size_t size, capacity;
} ob;

void ob_free(ob *b);
void ob_append(ob *b, const void *data, size_t n);
/* Fields by number. */
void ob_int(ob *b, int field, int64_t value);
void ob_float(ob *b, int field, float value);
void ob_bytes(ob *b, int field, const void *data, size_t n);
void ob_text(ob *b, int field, const char *text);
void ob_message(ob *b, int field, ob *message); /* releases the message */

/* Attributes to be passed to ob_node. */
void ob_attr_int(ob *node, const char *name, int64_t value);
void ob_attr_float(ob *node, const char *name, float value);
void ob_attr_text(ob *node, const char *name, const char *value);
void ob_attr_ints(ob *node, const char *name, int n, const int64_t *values);
void ob_attr_tensor(ob *node, const char *name, ob *tensor); /* releases the tensor */

/* A node in a graph: names separated by blanks, "-" for one left out. `attrs` (may be NULL) is
 * released. */
void ob_node_in(ob *graph, const char *domain, const char *op, const char *name, const char *in,
                const char *out, ob *attrs);
void ob_node(ob *graph, const char *op, const char *name, const char *in, const char *out,
             ob *attrs);
/* A TensorProto: dims as text ("2,3", "" for a scalar), raw data. */
void ob_tensor(ob *tensor, const char *name, qb_dtype dtype, const char *dims, const void *data,
               size_t n);
void ob_initializer(ob *graph, const char *name, qb_dtype dtype, const char *dims, const void *data,
                    size_t n);
void ob_floats(ob *graph, const char *name, const char *dims, int n, const float *data);
/* Inputs and outputs: dims as text with symbols ("N,3,?"; '?' in quotes: a symbol of that name),
 * NULL for no shape at all. */
void ob_input(ob *graph, const char *name, qb_dtype dtype, const char *dims);
void ob_output(ob *graph, const char *name, qb_dtype dtype, const char *dims);
/* The model around a graph, which is released. */
void ob_model(ob *model, int64_t ir, int64_t opset, ob *graph);
void ob_import(ob *model, const char *domain, int64_t version);

/* Parses a model and releases its bytes. */
qb_status ob_parse(qb_ctx *cx, ob *model, qb_graph **out);
/* The same with opset 17 and IR 8 around the graph. */
qb_status ob_parse_graph(qb_ctx *cx, ob *graph, qb_graph **out);
/* Text of a graph, to be freed with qb_free; fails the test on errors. */
char *ob_text_of(qb_ctx *cx, const qb_graph *graph);
/* Writes to memory and reads back; the texts must be equal. The file's bytes go to *bytes. */
void ob_round_trip(qb_ctx *cx, const qb_graph *graph, ob *bytes);

#endif
