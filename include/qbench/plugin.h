/* Operators of your own: a plugin is a shared library (.so) that describes operators of ONNX
 * domains of its own and runs them on the CPU or on a CUDA stream. qbench loads it with --plugin
 * LIB.so, a program with qbench_plugin_load. Nodes of the plugin's domains are then read, observed
 * by calibration, quantized by the operator's rule, measured and kept in engine files like others.
 *
 * The library exports one function:
 *
 *     const qbench_plugin *qbench_plugin_entry(void);
 *
 * It returns a description that lives as long as the library is loaded. An operator is a pure
 * function of its inputs and attributes: it keeps no state between calls, and calls may come from
 * several threads at once. Nothing may be thrown out of a callback.
 *
 * Versions: QBENCH_PLUGIN_ABI grows when a structure here changes its meaning, and a plugin of
 * another number is refused. `struct_size` is what sizeof said where the plugin was compiled; later
 * headers of the same ABI may add members behind the last one.
 *
 * What a callback answers is checked: another rank than it can be, an unknown type, a negative
 * dimension that no input has and the like are errors that name the node and the plugin. */
#ifndef QBENCH_PLUGIN_H
#define QBENCH_PLUGIN_H

#include "qbench.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QBENCH_PLUGIN_ABI 1
#define QBENCH_PLUGIN_MAX_INPUTS 16
#define QBENCH_PLUGIN_MAX_OUTPUTS 8
#define QBENCH_PLUGIN_MAX_SIZES 16

/* ---- what a plugin is asked about ---- */

/* How elements lie in memory. Shapes are always those of the model; CHANNELS_LAST (N, spatial, C)
 * applies to tensors of rank 3 to 5, others are row-major all the same. */
typedef enum qbench_layout { QBENCH_ROW_MAJOR, QBENCH_CHANNELS_LAST } qbench_layout;

typedef enum qbench_memory_space { QBENCH_ON_CPU, QBENCH_ON_CUDA } qbench_memory_space;

/* An input or output. An optional one that is left out has dtype 0. */
typedef struct qbench_plugin_tensor {
    int32_t dtype; /* a qbench_dtype */
    int32_t layout;
    int32_t rank;
    int32_t quantized; /* 1: the value is scale (code - zero_point) */
    /* infer: a negative size is not known; two that are equal and below -1 are the same size. Later
     * all sizes are known. */
    int64_t dim[QBENCH_MAX_RANK];
    float scale;
    int32_t zero_point;
    size_t bytes;
    /* Row-major host data of an input that is a constant of the model, in `dtype`; else NULL. */
    const void *constant;
    void *data; /* run: where it lies, in memory of the place; inputs must not be written */
} qbench_plugin_tensor;

/* A node at hand. Its functions read attributes, typed as the operator's table says; asking for one
 * that the table has not, or as another type, gives 0 or NULL and fails the call. Lists and texts
 * live as long as the node. */
typedef struct qbench_plugin_node {
    uint32_t struct_size;
    int32_t n_in, n_out; /* as the model has them: optional tail left out */
    const char *name;    /* of the node; may be "" */
    int64_t (*int_of)(const struct qbench_plugin_node *node, const char *attribute);
    float (*float_of)(const struct qbench_plugin_node *node, const char *attribute);
    const char *(*text_of)(const struct qbench_plugin_node *node, const char *attribute);
    const int64_t *(*ints_of)(const struct qbench_plugin_node *node, const char *attribute,
                              int32_t *n);
    const float *(*floats_of)(const struct qbench_plugin_node *node, const char *attribute,
                              int32_t *n);
    /* Says why a call fails and returns what the callback is to return: `return node->fail(node,
     * "expected 2 inputs, got %d", n);` */
    int (*fail)(const struct qbench_plugin_node *node, const char *format, ...);
    void *host; /* qbench's own */
    /* In `infer`: what is known of the elements of a short input of integers (at most
     * QBENCH_PLUGIN_MAX_SIZES of them), be it a constant or computed from shapes, so that outputs
     * can be as large as it says. Each is a size like those in `dim`: a negative one is not known
     * yet, two that are equal and below -1 are the same. Negative numbers, which are no sizes,
     * count as not known; a constant's stand in `constant`. Returns how many elements there are;
     * -1, with `size` left alone, where it is no such input or has more than `max`, and outside of
     * `infer`. Below here is what later headers of this ABI added: there when struct_size reaches
     * behind it. */
    int32_t (*sizes_of)(const struct qbench_plugin_node *node, int32_t input, int64_t *size,
                        int32_t max);
} qbench_plugin_node;

/* One run. `in` has n_in, `out` n_out entries. */
typedef struct qbench_plugin_run {
    uint32_t struct_size;
    int32_t threads; /* CPU: how many threads the run may use */
    const qbench_plugin_tensor *in;
    const qbench_plugin_tensor *out;
    void *workspace; /* what `workspace` asked for, 64-byte aligned (CUDA: 256); NULL for 0 bytes */
    void *stream;    /* CUDA: a cudaStream_t */
} qbench_plugin_run;

/* ---- what a plugin says ---- */

typedef enum qbench_attr_type {
    QBENCH_ATTR_INT = 1, /* int64_t */
    QBENCH_ATTR_FLOAT,   /* float */
    QBENCH_ATTR_TEXT,
    QBENCH_ATTR_INTS,  /* empty when not given */
    QBENCH_ATTR_FLOATS /* empty when not given */
} qbench_attr_type;

typedef struct qbench_plugin_attr {
    const char *name;
    int32_t type;     /* a qbench_attr_type */
    int32_t required; /* 1: a node without it is refused */
    int64_t default_int;
    int64_t min, max; /* bounds of INT and of each of INTS; both 0: none */
    float default_float;
    const char *default_text; /* TEXT; may be NULL */
} qbench_plugin_attr;

/* What quantization to INT8 may do around the operator. Whatever the rule, calibration observes its
 * inputs and outputs. */
typedef enum qbench_quantization {
    QBENCH_STAYS_FLOAT, /* inputs and outputs stay float */
    QBENCH_SAME_SCALE, /* it moves or selects values: quantized values in, the same quantized values
                          out */
    QBENCH_OWN_SCALE /* reads quantized values where its inputs have them and makes quantized values
                        of its own scale */
} qbench_quantization;

/* The form of one tensor in a format.
 *   dtype 0         the model's own type (float32 where the model is quantized)
 *   FLOAT32         float values, converted where they are kept otherwise
 *   FLOAT16         the same, on CUDA only
 *   UINT8, INT8     quantized values: only for tensors that are quantized to this type with one
 * scale */
typedef struct qbench_plugin_form {
    int32_t dtype;
    int32_t layout;
} qbench_plugin_form;

/* Forms in which the operator takes all of its tensors at once. Positions that are not named are
 * {0, QBENCH_ROW_MAJOR}. */
typedef struct qbench_plugin_format {
    int32_t place; /* a qbench_memory_space */
    qbench_plugin_form in[QBENCH_PLUGIN_MAX_INPUTS];
    qbench_plugin_form out[QBENCH_PLUGIN_MAX_OUTPUTS];
} qbench_plugin_format;

/* Callbacks return 0, or what node->fail returned. */
typedef struct qbench_plugin_op {
    uint32_t struct_size; /* sizeof(qbench_plugin_op) */
    int32_t since;        /* lowest version of the domain that is read, at least 1 */
    const char *name;     /* ONNX op_type */
    const char *domain;   /* not "" or "ai.onnx": "com.example" */
    int32_t min_in, max_in, min_out, max_out;
    const qbench_plugin_attr *attrs;
    int32_t n_attrs;
    int32_t quantization; /* a qbench_quantization */
    /* In order of preference; the one that needs the fewest conversions is taken. None: the model's
     * own types, row-major, in every place that it runs in. */
    const qbench_plugin_format *formats;
    int32_t n_formats;
    /* Sets dtype, rank and dim of the outputs (n_out entries) from the inputs: their shapes, the
     * values of constants and sizes_of. Called anew for other shapes. Memory is planned by the
     * answer: an output whose size only a run can tell is given its largest size and a second
     * output that says how much of it counts. */
    int (*infer)(const qbench_plugin_node *node, const qbench_plugin_tensor *in,
                 qbench_plugin_tensor *out);
    /* Bytes of scratch memory of one run; NULL: none. Called once, when the engine is built. */
    int (*workspace)(const qbench_plugin_node *node, int32_t place, const qbench_plugin_tensor *in,
                     const qbench_plugin_tensor *out, size_t *bytes);
    /* Computes the outputs. NULL where it does not run there; one of the two must be. */
    int (*run_cpu)(const qbench_plugin_node *node, const qbench_plugin_run *run);
    /* The same on the stream: it may be recorded into a graph, so that it only launches work and
     * neither allocates nor waits. */
    int (*run_cuda)(const qbench_plugin_node *node, const qbench_plugin_run *run);
} qbench_plugin_op;

typedef struct qbench_plugin {
    uint32_t abi;         /* QBENCH_PLUGIN_ABI */
    uint32_t struct_size; /* sizeof(qbench_plugin) */
    const char *name;     /* letters, digits, '-' and '_': engine files ask for it by this name */
    const char *version;  /* and for this version */
    const qbench_plugin_op *ops;
    int32_t n_ops;
} qbench_plugin;

QBENCH_API const qbench_plugin *qbench_plugin_entry(void);

#ifdef __cplusplus
}
#endif
#endif
