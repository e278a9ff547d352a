/* Engines: a graph with known shapes, planned and packed for one machine, ready to run.
 *
 * An engine is immutable once built and may be shared by any number of threads; each thread runs
 * its own execution context (activation arena and workspace). run allocates nothing; only its first
 * time finds out how much memory the operators without a kernel work in. (oneDNN makes a small
 * table of arguments for each of its primitives.) */
#ifndef QB_ENGINE_ENGINE_H
#define QB_ENGINE_ENGINE_H

#include "engine/spec.h"
#include "graph/fusion.h"

typedef struct qb_engine qb_engine;
typedef struct qb_context qb_context;

/* NULL, or why engines with these backends of the host (NULL: the default ones) do not compute in
 * bf16 here. */
const char *qb_engine_no_bf16(const char *backends);

/* Builds from an optimized graph (float or quantized). Neither graph nor spec (NULL: the defaults)
 * is kept. Errors name the node (and the tactic) that failed. */
qb_status qb_engine_build(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                          qb_engine **out);
void qb_engine_free(qb_engine *engine); /* accepts NULL; contexts must be gone */
QB_RELEASE_AT(qb_engine, qb_engine_free)

int32_t qb_engine_n_inputs(const qb_engine *engine);
int32_t qb_engine_n_outputs(const qb_engine *engine);
/* Name, type and shape (row-major) as the caller passes and receives them: always the model's own
 * float (or integer) types; quantization happens inside. */
const char *qb_engine_input_name(const qb_engine *engine, int32_t i);
const char *qb_engine_output_name(const qb_engine *engine, int32_t i);
const qb_desc *qb_engine_input(const qb_engine *engine, int32_t i);
const qb_desc *qb_engine_output(const qb_engine *engine, int32_t i);
int qb_engine_threads(const qb_engine *engine);

typedef struct qb_engine_memory {
    size_t weights;     /* constants, packed for their kernels or read as they are */
    size_t arena;       /* activations of one context, for the largest shapes that it may take */
    size_t workspace;   /* scratch of one context, likewise */
    size_t planned;     /* activations for the shapes of the engine's inputs */
    size_t lower_bound; /* max over steps of live bytes among them: what a perfect planner needs */
    int64_t parts; /* a run goes through the steps this often, each time with a part of the batch */
} qb_engine_memory;
void qb_engine_memory_of(const qb_engine *engine, qb_engine_memory *out);
/* What the engine occupies by itself, without contexts: constants and the plan. */
size_t qb_engine_bytes(const qb_engine *engine);
/* The compute libraries compiled in, with their run-time versions ("oneDNN 2.6.3"). New memory. */
char *qb_engine_libraries(qb_ctx *cx);

/* "NVIDIA H200, compute capability 9.0, driver 13.0, CUDA 13.0, cuDNN 91300"; NULL for an engine of
 * the host. Lives as long as the engine. */
const char *qb_engine_device(const qb_engine *engine);
/* Seconds of the build or the load until the device was open: the first time in a process its
 * driver makes a context, which is none of the engine's work. 0 for an engine of the host. */
double qb_engine_device_seconds(const qb_engine *engine);

/* A tactic that could have run a step, with its time where it was measured (else 0). */
typedef struct qb_step_alternative {
    const char *tactic;
    double seconds;
    int32_t variant;   /* which of its library's algorithms; 0: it has no choice */
    bool same_layouts; /* it could run in the place of the step's own, without another copy */
} qb_step_alternative;

/* One row a step, for reports: names live as long as the engine. */
typedef struct qb_step_info {
    const char *name;   /* the anchor node's name, or its output value's */
    const char *op;     /* "Conv+Relu" */
    const char *tactic; /* "dnnl.conv", "node", "alias", "reorder" */
    const char *impl;   /* the library's algorithm, or "" */
    qb_dtype dtype;     /* the type it computes in: S8 for integer steps, F32 ... */
    double flops, bytes;
    const char *output; /* value name */
    bool on_device;
    double seconds; /* measured when it was chosen; 0: not measured */
    const qb_step_alternative *alternatives;
    int32_t n_alternatives;
    const char *fallback_reason; /* why the device does not run it; NULL */
    const char *f16_reason;      /* why a step of an INT8 engine runs in f16; NULL */
    const char *fuse_reason;     /* why a convolution and a pool are one step; NULL */
    const char *note; /* why the device's fast kernels leave it out: "C=18: no tile"; NULL */
    const char *tactic_reason; /* why its tactic is not the one that is fastest alone; NULL */
} qb_step_info;
int32_t qb_engine_n_steps(const qb_engine *engine);
void qb_engine_step(const qb_engine *engine, int32_t step, qb_step_info *out);
/* By what they compute in, counted over steps with flops > 0. */
typedef struct qb_layer_counts {
    int32_t int8, fp16, bf16, fp32;
} qb_layer_counts;
qb_layer_counts qb_engine_layers(const qb_engine *engine);
/* Of what the plan decides: fused groups, tactics, precisions and layouts, not of times or reasons.
 * Engines of one model with the same hash run the same kernels in the same order. */
qb_status qb_engine_plan_hash(qb_ctx *cx, const qb_engine *engine, qb_hash *out);

/* One allocation for arena and workspace. */
qb_status qb_context_create(qb_ctx *cx, const qb_engine *engine, qb_context **out);
void qb_context_free(qb_context *context); /* accepts NULL */
QB_RELEASE_AT(qb_context, qb_context_free)

/* Runs once. `inputs` and `outputs` are host buffers of the described types and sizes, row-major.
 * outputs[i] may be NULL (not copied out). */
qb_status qb_context_run(qb_ctx *cx, qb_context *context, const void *const *inputs,
                         void *const *outputs);
/* Of output i in the last run: less than the engine says where the size came with the data
 * (NonMaxSuppression and what is made of it); behind it the caller's memory holds zeros. */
qb_shape qb_context_output_shape(const qb_context *context, int32_t i);
/* Seconds of the last run that nodes took which run behind all steps, for their sizes come with the
 * data; 0 where there are none. */
double qb_context_late_seconds(const qb_context *context);
/* Engines in which groups of such nodes ran in the last run: those that did much for its sizes. */
int32_t qb_context_late_engines(const qb_context *context);
/* Runs and adds each step's seconds to seconds[n_steps]. On a device each recorded part runs
 * several times, and the marks between steps, which cost time themselves, are taken off: the steps'
 * times are made to add up to those of the parts. */
qb_status qb_context_profile(qb_ctx *cx, qb_context *context, const void *const *inputs,
                             void *const *outputs, double *seconds);

/* What a profile was made of, in seconds: nothing in it was scaled. */
typedef struct qb_profile_raw {
    double *step; /* [n_steps], the caller's: between the marks before and behind it, so that the
                     cost of one mark is in it. On a device only what is recorded: no copies from
                     and to the caller's memory, no steps of the host */
    double marks; /* what the marks of all steps cost: the same marks without the steps */
    double whole; /* the steps without marks between them */
} qb_profile_raw;
/* The same, and adds up what was measured; so the steps' sum less the marks is what they take one
 * by one, to be held against the whole, where a step may begin while the one before it ends. */
qb_status qb_context_profile_raw(qb_ctx *cx, qb_context *context, const void *const *inputs,
                                 void *const *outputs, double *seconds, qb_profile_raw *raw);

/* Where the time of one run on a device went, in milliseconds: the inputs' way there, the steps,
 * the outputs' way back, by the device's clock; and until all of it was started, by the host's. */
typedef struct qb_run_times {
    double h2d, compute, d2h, enqueue;
} qb_run_times;
/* qb_context_run that tells it. Without `transfers` it runs on the inputs of the last run and
 * leaves the outputs there. QB_STATUS_UNSUPPORTED for an engine of the host. */
qb_status qb_context_run_timed(qb_ctx *cx, qb_context *context, const void *const *inputs,
                               void *const *outputs, bool transfers, qb_run_times *times);

/* Memory for inputs and outputs; page-locked for an engine of a device: copies from and to it need
 * nobody to wait. NULL with an error when there is none. */
void *qb_engine_buffer(qb_ctx *cx, const qb_engine *engine, size_t bytes);
void qb_engine_buffer_free(const qb_engine *engine, void *buffer); /* accepts NULL */

/* Engines on a device: runs n times more on the inputs of the last run, without copies from or to
 * the caller's memory; ms[i] is what the i-th took by the device's clock, the runs following each
 * other without a pause. Those inputs must still be there: steps of the processor read them.
 * QB_STATUS_UNSUPPORTED for an engine of the host. */
qb_status qb_context_replay(qb_ctx *cx, qb_context *context, int32_t n, double *ms);

/* Called right after a value was written, while it is in cache: graph inputs first, then every
 * value that reaches memory. `value` is the value's name in the graph; the tensor is in the
 * engine's own layout and type and is valid during the call only. */
typedef qb_status (*qb_observe_fn)(qb_ctx *cx, void *user, int32_t observed, const char *value,
                                   const qb_tensor *tensor);
/* The observed values are numbered 0..n-1, fixed at build. */
int32_t qb_engine_n_observed(const qb_engine *engine);
const char *qb_engine_observed_name(const qb_engine *engine, int32_t observed);
qb_status qb_context_observe(qb_ctx *cx, qb_context *context, const void *const *inputs,
                             void *const *outputs, qb_observe_fn observe, void *user);
#endif
