/* Shared by the files of graph/onnx.
 *
 * Reading goes wire -> skeleton -> protobuf-c -> graph. The bytes are first checked against the
 * schema (wire.c), so that protobuf-c sees only well-formed messages of bounded depth. Then the
 * weights are cut out: what protobuf-c unpacks is the model without its initializers, and each
 * initializer without its raw_data, whose bytes go straight from the file to the graph's arena. */
#ifndef QB_ONNX_INTERNAL_H
#define QB_ONNX_INTERNAL_H

#include "base/file.h"
#include "base/hash.h"
#include "graph/graph_internal.h"
#include "graph/wire.h"
#include "onnx.pb-c.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data is little endian");

#define QB_ONNX_OPSET_OLDEST 7
#define QB_ONNX_OPSET_NEWEST                                                                       \
    27 /* newer ones are read with this one's rules, unknown attributes refused */
#define QB_ONNX_IR_OLDEST 3

/* A text of a message; "" where it is not there. */
static inline const char *qb_onnx_text(const char *text) { return text ? text : ""; }

/* AttributeProto.AttributeType */
enum {
    QB_ONNX_ATTR_FLOAT = 1,
    QB_ONNX_ATTR_INT,
    QB_ONNX_ATTR_STRING,
    QB_ONNX_ATTR_TENSOR,
    QB_ONNX_ATTR_GRAPH,
    QB_ONNX_ATTR_FLOATS,
    QB_ONNX_ATTR_INTS,
    QB_ONNX_ATTR_STRINGS
};

/* --- wire.c, beside graph/wire.h --- */

/* Calls `visit` for each text of a message and those in it, which it may replace; keys and values
 * of external data and metadata are left out. Ends at the first error. */
typedef qb_status (*qb_wire_text_fn)(void *user, char **slot);
qb_status qb_wire_each_text(ProtobufCMessage *message, qb_wire_text_fn visit, void *user);

/* Growing bytes. */
typedef struct qb_bytes {
    uint8_t *data;
    size_t size, capacity;
} qb_bytes;
qb_status qb_bytes_add(qb_ctx *cx, qb_bytes *bytes, qb_span more);

/* Messages in the file. */
typedef struct qb_onnx_spans {
    qb_span *span;
    size_t n, capacity;
} qb_onnx_spans;

/* --- tensor.c and external.c ----------------------------------------------------------------- */

/* Files with external data of one model: opened once, closed together. */
typedef struct qb_external_file {
    char *name;
    qb_map map;
} qb_external_file;
typedef struct qb_externals {
    const char *by; /* the file that names them, or a folder with '/'; NULL: they are refused */
    qb_external_file *file;
    size_t n, capacity;
    qb_hasher *hasher; /* takes what was used; NULL: nobody asks */
    size_t bytes;      /* that were used */
} qb_externals;
void qb_externals_close(qb_externals *externals);
/* Moves all larger initializers of `graph` to the file PATH.data. */
qb_status qb_external_write(qb_ctx *cx, qb_arena *arena, const char *path, Onnx__GraphProto *graph);
/* The bytes that a tensor's external_data entries name. Where they are not `expected` many, they
 * are left for the caller to refuse: they are looked at and hashed only when their size is right.
 */
qb_status qb_external_take(qb_ctx *cx, qb_externals *externals, const Onnx__TensorProto *proto,
                           size_t expected, qb_span *out);

/* A TensorProto whose raw_data lies elsewhere. */
typedef struct qb_onnx_tensor {
    Onnx__TensorProto *proto;
    bool has_raw;
    qb_span raw;
    qb_dtype dtype;
    qb_shape shape;
    size_t bytes; /* in memory */
    int bits;     /* of an element in the file, where several lie in a byte; else 0 */
} qb_onnx_tensor;

/* Reads type and shape and checks them against the data at hand. `proto` and `raw` are set. */
qb_status qb_onnx_tensor_check(qb_ctx *cx, qb_externals *externals, qb_onnx_tensor *tensor);
/* The only element of an s64 or bool tensor inside a message; false when it is no such tensor. */
bool qb_onnx_tensor_scalar(const Onnx__TensorProto *proto, int64_t *out);
/* Writes the elements of a checked tensor. */
qb_status qb_onnx_tensor_fill(qb_ctx *cx, const qb_onnx_tensor *tensor, void *out);
/* Unpacks checked bytes of a TensorProto, leaving raw_data where it is, and checks them. The caller
 * frees tensor->proto with qb_wire_free, also on failure. */
qb_status qb_onnx_tensor_unpack(qb_ctx *cx, qb_externals *externals, qb_span bytes,
                                qb_onnx_tensor *tensor);

/* Puts the name of such a constant aside. */
struct qb_onnx_reader;
qb_status qb_onnx_note_packed(qb_ctx *cx, struct qb_onnx_reader *reader, const char *name,
                              const qb_onnx_tensor *tensor);

/* --- reading nodes --------------------------------------------------------------------------- */

#define QB_ONNX_MAX_REASONS 64

/* One reason why nodes of one kind cannot be read. */
typedef struct qb_onnx_reason {
    const char *op, *domain;
    int64_t version;
    char *why;
    int32_t n_nodes, first;
    const char *first_name;
} qb_onnx_reason;

/* The opsets that a node's operators come from: the model's or a function's. */
typedef struct qb_onnx_imports {
    size_t n;
    Onnx__OperatorSetIdProto *const *import;
} qb_onnx_imports;

/* A node to read: of the file, or made by expanding functions, branches and loops. */
typedef struct qb_onnx_source {
    const Onnx__NodeProto *proto;
    qb_onnx_imports imports;
} qb_onnx_source;

typedef struct qb_onnx_reader {
    bool as_written;          /* see qb_onnx_load_as_written */
    bool partial;             /* reads what one value depends on: nobody asks why it fails */
    bool unfolded;            /* see qb_onnx_load_unfolded */
    const qb_onnx_part *part; /* NULL: all of the model */
    qb_graph *graph;
    Onnx__ModelProto *model; /* without the graph */
    Onnx__GraphProto *proto; /* without initializers */
    qb_span graph_bytes;     /* in the file */
    qb_graph *before;        /* has the types of inputs that the file says nothing of; or NULL */
    qb_onnx_source *node;    /* [n_nodes] expanded */
    size_t n_nodes;
    size_t file_bytes; /* of the file and of the external data that it uses */
    size_t spent;      /* bytes that copies of bodies take; 0: nothing was copied */
    qb_externals externals;
    qb_onnx_reason reason[QB_ONNX_MAX_REASONS];
    int32_t n_reasons, n_more; /* more: nodes whose reason found no place */
    qb_names packed;           /* constants of fewer than 8 bits, which have 8 in memory */
    int32_t *file_node; /* by node of the graph: its index in `node`; -1: made by an upgrade */
    size_t file_nodes;
} qb_onnx_reader;

/* The opset version of a domain; 1 for domains that are not imported. */
int64_t qb_onnx_domain_version(qb_onnx_imports imports, const char *domain);
qb_onnx_imports qb_onnx_model_imports(const Onnx__ModelProto *model);
/* "" for the default domain, which has two names. */
const char *qb_onnx_domain(const char *domain);
/* Leaves in reader->proto and `initializers` what a part of the model needs, with the part's inputs
 * and outputs; those that the file describes nowhere have no type. An error lists tensors with
 * names near to one that is not there. */
qb_status qb_onnx_cut(qb_ctx *cx, qb_onnx_reader *reader, const qb_onnx_part *part,
                      qb_onnx_spans *initializers);
/* Sets reader->node: the file's nodes, where calls of the model's functions, If with a constant
 * condition, Loop with a constant number of iterations and Scan over inputs of known length are
 * replaced by their bodies. Constants
 * (initializers) are in the graph already. What cannot be replaced stays as it is. */
qb_status qb_onnx_expand(qb_ctx *cx, qb_onnx_reader *reader);
/* Counts what an upgrade added to what copies take, which is bounded by the file's size. Without
 * copies the file's own nodes bound it. QB_STATUS_UNSUPPORTED when it is too much. */
qb_status qb_onnx_spend_upgrade(qb_ctx *cx, qb_onnx_reader *reader, int32_t nodes, int32_t values);
/* The error with the node before it: "node 17 Conv 'conv1'", by its index in the file. */
qb_status qb_onnx_wrap_node(qb_ctx *cx, size_t index, const Onnx__NodeProto *proto);
/* Adds the nodes of reader->proto: Constant nodes become constants, attributes are read, older
 * forms upgraded. What is not supported is gathered and reported in one error. */
qb_status qb_onnx_read_nodes(qb_ctx *cx, qb_onnx_reader *reader);
/* Nodes that move integers between QuantizeLinear and DequantizeLinear move floats. The graph need
 * not be sorted. */
qb_status qb_onnx_move_floats(qb_ctx *cx, qb_graph *graph);
/* The same for the nodes in reader->node. */
qb_status qb_onnx_read_expanded(qb_ctx *cx, qb_onnx_reader *reader);
/* The attributes of one node into a new struct. QB_STATUS_UNSUPPORTED is an attribute form that
 * this version does not read. */
qb_status qb_onnx_read_attrs(qb_ctx *cx, qb_onnx_reader *reader, const Onnx__NodeProto *proto,
                             const qb_op *op, int64_t version, void **attrs);
/* AttributeProto.type, deduced where an old file leaves it out; text for messages. */
int qb_onnx_attr_type(const Onnx__AttributeProto *attr);
const char *qb_onnx_attr_type_text(int type);

/* --- writing --------------------------------------------------------------------------------- */

/* The lowest opset from 17 on in which all nodes mean what they mean in memory. */
int32_t qb_onnx_lowest_opset(const qb_graph *graph);
/* The IR version that came with an opset. */
int32_t qb_onnx_ir_version(int32_t opset);

#endif
