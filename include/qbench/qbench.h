/* libqbench: engines in other programs. Load an engine file (.qbe) or build from an ONNX model,
 * feed it, read its outputs; make inputs from images as calibration made them.
 *
 * Handles are opaque. A session carries the text of the last error and belongs to one thread at a
 * time; an engine is immutable and may be shared by any number of threads, each with its own
 * session and context; one that another thread is using is QBENCH_INVALID. Every call that can fail
 * returns QBENCH_OK (0) or a status, and its outputs are set only on success. Names returned live
 * as long as the handle that they came from.
 *
 * A call leaves what is the program's as it was: locale, floating-point environment, signals and
 * their masks, descriptors. Results do not depend on them, and the program's signals are not for
 * the library's threads. A thread that calls needs a stack of 256 KiB.
 *
 * A pointer that is NULL is QBENCH_INVALID where nothing here says what NULL means, and the error
 * has its name. Functions that return no status answer as for nothing: "", 0, "cpu" or NULL. */
#ifndef QBENCH_QBENCH_H
#define QBENCH_QBENCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QBENCH_API __attribute__((visibility("default")))
#else
#define QBENCH_API
#endif

typedef enum qbench_status {
    QBENCH_OK,
    QBENCH_NOMEM,
    QBENCH_IO,          /* a file cannot be read or written */
    QBENCH_FORMAT,      /* a damaged file, or one of another kind */
    QBENCH_UNSUPPORTED, /* an operator, a type, a shape */
    QBENCH_INVALID,     /* an argument that makes no sense */
    QBENCH_NOTFOUND,
    QBENCH_MISMATCH, /* an engine file of another machine or program */
    QBENCH_INTERNAL
} qbench_status;

/* ONNX's numbers of element types, as far as engines take and give them. */
typedef enum qbench_dtype {
    QBENCH_FLOAT32 = 1,
    QBENCH_UINT8 = 2,
    QBENCH_INT8 = 3,
    QBENCH_UINT16 = 4,
    QBENCH_INT16 = 5,
    QBENCH_INT32 = 6,
    QBENCH_INT64 = 7,
    QBENCH_BOOL = 9,
    QBENCH_FLOAT16 = 10,
    QBENCH_FLOAT64 = 11,
    QBENCH_UINT32 = 12,
    QBENCH_UINT64 = 13,
    QBENCH_BFLOAT16 = 16
} qbench_dtype;

#define QBENCH_MAX_RANK 8

typedef struct qbench_tensor {
    const char *name;
    qbench_dtype dtype;
    int32_t rank;
    int64_t dim[QBENCH_MAX_RANK]; /* row-major, the last one fastest */
    size_t bytes;
} qbench_tensor;

typedef struct qbench_session qbench_session;
typedef struct qbench_engine qbench_engine;
typedef struct qbench_context qbench_context;
typedef struct qbench_inputs qbench_inputs;

/* "0.1.0" */
QBENCH_API const char *qbench_version(void);

/* NULL when memory runs out. */
QBENCH_API qbench_session *qbench_session_create(void);
QBENCH_API void qbench_session_free(qbench_session *session); /* accepts NULL */
/* What went wrong in the session's last failed call, with file, node and reason; "" before one.
 * Valid until the session's next call. */
QBENCH_API const char *qbench_error(const qbench_session *session);

/* From now on engine files must be signed (FILE.sig) by the Ed25519 key whose public half is in the
 * PEM file `key`, which is read at each load; others are QBENCH_MISMATCH. With `no_machine_code`
 * kernels for a GPU are compiled here, and none that a file holds is run. NULL and 0: as before. */
QBENCH_API qbench_status qbench_session_trust(qbench_session *session, const char *key,
                                              int no_machine_code);

/* Loads a plugin (qbench/plugin.h) for the models and engine files that the session reads from now
 * on. Its library stays open until the session and all engines made in it are freed. One that is
 * loaded already is no error. */
QBENCH_API qbench_status qbench_plugin_load(qbench_session *session, const char *path);

/* ---- engines ---- */

/* Sizes that an input may have, in one profile of an engine. A profile is the ranges of all inputs
 * with its number; kernels are chosen for `opt`, memory is planned for `max`. */
typedef struct qbench_range {
    const char *input;
    int32_t profile; /* from 0 on, without gaps */
    int32_t rank;
    int64_t min[QBENCH_MAX_RANK], opt[QBENCH_MAX_RANK], max[QBENCH_MAX_RANK];
} qbench_range;

typedef struct qbench_build_options {
    int64_t batch;        /* size of a symbolic first dimension; 0: 1 */
    int32_t threads;      /* of one run, at most 4096; 0: as many as there are processors */
    int32_t time_tactics; /* not 0: choose kernels by timing them now */
    const char *backends; /* "cpu,dnnl,ref"; NULL: the default */
    /* Where nodes run, in order of preference: "cuda,cpu"; NULL: the CPU. What is not there is
     * passed over (see qbench_engine_provider), the CPU stands last. Not beside `backends`. */
    const char *providers;
    /* Ranges of sizes, one for each input in each profile; NULL: the model's own shapes. */
    const qbench_range *ranges;
    int32_t n_ranges;
    size_t workspace_limit; /* bytes: kernels that want more scratch memory are left out; 0: none */
} qbench_build_options;

/* Loads an engine file that `qbench build` or qbench_engine_save wrote. QBENCH_MISMATCH says what
 * it was made for and how to make it here. The file must not be cut short while the engine lives.
 */
QBENCH_API qbench_status qbench_engine_load(qbench_session *session, const char *path,
                                            qbench_engine **out);
/* Reads, optimizes and builds an ONNX model: FP32, or INT8 where it has Q/DQ nodes. `options` may
 * be NULL. */
QBENCH_API qbench_status qbench_engine_build(qbench_session *session, const char *onnx_path,
                                             const qbench_build_options *options,
                                             qbench_engine **out);
/* Writes the engine to a file, atomically. */
QBENCH_API qbench_status qbench_engine_save(qbench_session *session, const qbench_engine *engine,
                                            const char *path);
/* Accepts NULL. What contexts need of it lives as long as they do. */
QBENCH_API void qbench_engine_free(qbench_engine *engine);

/* "cuda" when at least one step runs on a GPU, else "cpu". */
QBENCH_API const char *qbench_engine_provider(const qbench_engine *engine);
QBENCH_API int32_t qbench_engine_n_inputs(const qbench_engine *engine);
QBENCH_API int32_t qbench_engine_n_outputs(const qbench_engine *engine);
/* Describes input or output i; QBENCH_INVALID when there is none. */
QBENCH_API qbench_status qbench_engine_input(const qbench_engine *engine, int32_t i,
                                             qbench_tensor *out);
QBENCH_API qbench_status qbench_engine_output(const qbench_engine *engine, int32_t i,
                                              qbench_tensor *out);

/* 0 for an engine of one set of shapes. What qbench_engine_input and _output describe, and what a
 * new context takes, are the `opt` sizes of profile 0. */
QBENCH_API int32_t qbench_engine_n_profiles(const qbench_engine *engine);
/* The range of input i in a profile; QBENCH_INVALID when there is none. */
QBENCH_API qbench_status qbench_engine_range(const qbench_engine *engine, int32_t profile,
                                             int32_t i, qbench_range *out);

/* ---- execution ---- */

/* One context a thread: its activations and workspace. */
QBENCH_API qbench_status qbench_context_create(qbench_session *session, const qbench_engine *engine,
                                               qbench_context **out);
QBENCH_API void qbench_context_free(qbench_context *context); /* accepts NULL */
/* The next runs take inputs of these sizes: dim[i] has as many entries as input i has dimensions.
 * They must lie in one profile of the engine; QBENCH_INVALID names input, axis, value and range,
 * and the context keeps the sizes that it had. Of several profiles the one whose `opt` sizes these
 * are serves them, else the tightest. The first time that sizes come up a plan is made for
 * them; the context's memory is that of the largest sizes from the start. */
QBENCH_API qbench_status qbench_context_set_shapes(qbench_session *session, qbench_context *context,
                                                   const int64_t *const *dim);
/* Describes input or output i at the sizes of now; QBENCH_INVALID when there is none. */
QBENCH_API qbench_status qbench_context_input(const qbench_context *context, int32_t i,
                                              qbench_tensor *out);
QBENCH_API qbench_status qbench_context_output(const qbench_context *context, int32_t i,
                                               qbench_tensor *out);
/* Runs once. One host buffer an input and an output, of the types and sizes of now; an output that
 * is NULL is not copied out; `outputs` NULL: none is. Buffers that overlap are QBENCH_INVALID, but
 * for inputs with each other. Allocates nothing. */
QBENCH_API qbench_status qbench_context_run(qbench_session *session, qbench_context *context,
                                            const void *const *inputs, void *const *outputs);
/* Describes what the last run left of output i. Where a size comes with the data, such as the
 * number of boxes behind NonMaxSuppression, it is smaller than qbench_context_output says, which
 * buffers must hold; zeros follow. QBENCH_INVALID when there is no such output. */
QBENCH_API qbench_status qbench_context_result(const qbench_context *context, int32_t i,
                                               qbench_tensor *out);

/* ---- inputs from images ---- */

/* How images become inputs and what classes are called: a model's JSON sidecar (resize, crop,
 * color, mean, std, labels). */
QBENCH_API qbench_status qbench_inputs_load(qbench_session *session, const char *sidecar_path,
                                            qbench_inputs **out);
QBENCH_API void qbench_inputs_free(qbench_inputs *inputs); /* accepts NULL */
/* Decodes a JPEG or PNG file and prepares it as calibration did, into out[channels x height x
 * width] of n elements in all; another n is QBENCH_INVALID. */
QBENCH_API qbench_status qbench_inputs_image(qbench_session *session, const qbench_inputs *inputs,
                                             const char *image_path, int32_t height, int32_t width,
                                             float *out, size_t n);
/* The name of a class; NULL when it has none. */
QBENCH_API const char *qbench_inputs_label(const qbench_inputs *inputs, int32_t index);

#ifdef __cplusplus
}
#endif
#endif
