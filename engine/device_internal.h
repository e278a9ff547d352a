/* Devices with memory of their own: what the engine needs of one, and how it runs on it. */
#ifndef QB_ENGINE_DEVICE_INTERNAL_H
#define QB_ENGINE_DEVICE_INTERNAL_H

#include "engine/engine_internal.h"

#define QB_DEVICE_ALIGNMENT 256

/* Up to the next place where a tensor or constants may begin. */
static inline size_t qb_device_aligned(size_t bytes) {
    return (bytes + QB_DEVICE_ALIGNMENT - 1) / QB_DEVICE_ALIGNMENT * QB_DEVICE_ALIGNMENT;
}

/* Statistics of tensors gathered on the device, as qb_stats_add_tensor defines them. */
typedef struct qb_device_observers {
    size_t state_bytes;   /* of one tensor; begins with a qb_stats */
    size_t scratch_bytes; /* zeros at first; tensors observed one after the other share it */
    bool (*takes)(const qb_desc *desc);
    qb_status (*reset)(qb_ctx *cx, void *state, void *stream);
    /* Adds the first n_items; low and high: [n_items], all ones before, kept as keys. */
    qb_status (*observe)(qb_ctx *cx, const qb_desc *desc, const void *data, int64_t n_items,
                         void *state, void *scratch, uint32_t *low, uint32_t *high, void *stream);
    void (*extremes)(uint32_t low_key, uint32_t high_key, float *low, float *high);
} qb_device_observers;

/* What an engine was tuned for, and an engine file is bound to. */
typedef struct qb_device_identity {
    char hardware[160]; /* "NVIDIA H200, compute capability 9.0" */
    char software[128]; /* "driver 13.0, CUDA 13.0, cuDNN 91300" */
} qb_device_identity;

/* One kind of device. Streams, events and graphs are handles of the device's runtime; work on a
 * stream runs in order. All calls return a status but those that release (which accept NULL). */
typedef struct qb_device_api {
    const char *backend; /* of its tactics, and in the user's list */
    /* Makes a device the calling thread's, and says what it is (`identity` may be NULL). Fails with
     * one line where there is none. */
    qb_status (*open)(qb_ctx *cx, int32_t ordinal, qb_device_identity *identity);
    /* The same for one that is open, when another thread goes on: costs next to nothing. */
    void (*select)(int32_t ordinal);
    qb_status (*alloc)(qb_ctx *cx, size_t bytes, void **out);
    void (*release)(void *memory);
    /* `from` may also be on the device. */
    qb_status (*upload)(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream);
    qb_status (*download)(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream);
    qb_status (*fill)(qb_ctx *cx, void *to, int byte, size_t bytes, void *stream);
    qb_status (*stream_open)(qb_ctx *cx, void **stream);
    void (*stream_close)(void *stream);
    qb_status (*sync)(qb_ctx *cx, void *stream);
    qb_status (*event_open)(qb_ctx *cx, void **event);
    void (*event_close)(void *event);
    qb_status (*event_record)(qb_ctx *cx, void *event, void *stream);
    qb_status (*event_mark)(qb_ctx *cx, void *event, void *stream); /* during a capture */
    qb_status (*event_elapsed)(qb_ctx *cx, void *from, void *to, float *milliseconds);
    qb_status (*capture_begin)(qb_ctx *cx, void *stream);
    /* In a recording: what follows starts when all before it is finished, no earlier. */
    qb_status (*fence)(qb_ctx *cx, void *stream);
    qb_status (*capture_end)(qb_ctx *cx, void *stream, void **graph);
    qb_status (*graph_launch)(qb_ctx *cx, void *graph, void *stream);
    void (*graph_close)(void *graph);
    /* Page-locked memory of the host, from and to which copies need nobody to wait. */
    qb_status (*host_alloc)(qb_ctx *cx, size_t bytes, void **out);
    void (*host_release)(void *memory);
    qb_status (*event_wait)(qb_ctx *cx, void *event);                /* by the host */
    qb_status (*stream_wait)(qb_ctx *cx, void *stream, void *event); /* by later work on it */
    const qb_device_observers *observers;                            /* NULL: it has none */
    /* Writes why the device's fast kernels do not take the problem of this slow one ("C=18: no
     * tile"); false: it is none, or nobody knows. NULL: the device has no remarks. */
    bool (*remark)(const qb_kernel *kernel, char *text, size_t n);
} qb_device_api;

/* The device of a backend; NULL for backends that run on the host. */
const qb_device_api *qb_device_find(const char *backend);

/* engine/device_choose.c */
/* The fastest of the device's tactics, timed on the device with the copies that its form needs;
 * *out is NULL when none takes the problem, and *why then says what the last one said (new memory
 * in the engine's arena). `values` are the graph's values behind the inputs (-1: none; NULL: do not
 * count copies). */
qb_status qb_device_kernel(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                           const bool *constant, const int32_t *values, qb_kernel **out,
                           qb_choice *choice);
/* The same for a step of the engine: what is chosen is recorded, or chosen as it was recorded. */
qb_status qb_device_decide(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                           const bool *constant, const int32_t *values, qb_kernel **out,
                           qb_choice *choice);
/* Sets choice->note: why no fast kernel of the device runs it, or NULL. */
qb_status qb_device_remark(qb_ctx *cx, const qb_engine *engine, const qb_kernel *kernel,
                           qb_choice *choice);
/* Is the tactic the device's, of that kind, and of a source that is not left out? */
bool qb_device_has(const qb_builder *b, const qb_tactic *tactic, qb_kind kind);
/* Does any tactic of the device copy from one form to the other? */
bool qb_device_copies(const qb_builder *b, const qb_desc *from, const qb_desc *to);

/* engine/device_mix.c */
/* Seconds of the group's fastest tactic; infinite when none takes it. `half`: in f16. */
qb_status qb_device_time(qb_builder *b, const qb_group *group, bool half, double *seconds);
/* Are the graph's codes made in f16? */
bool qb_device_is_half(const qb_builder *b, int32_t value);
/* Decides which groups of codes run in f16 and gives them float constants. Adds values to the
 * graph, so it comes before whatever is allocated for each value. */
qb_status qb_device_mix(qb_builder *b);
/* The same as the earlier build decided, whose graph has the float constants. QB_STATUS_MISMATCH
 * where what was recorded does not fit the graph. */
qb_status qb_device_mix_again(qb_builder *b);
/* The same as at the usual shapes, by the names of the hints. */
qb_status qb_device_mix_hinted(qb_builder *b);

/* engine/device_join.c: a convolution of codes, the group at work, and the max pool that alone
 * reads it become one group where a tactic of the device is faster than the two chosen alone, or
 * where the earlier build or the hints say so. The pool's own group is then empty. */
qb_status qb_device_join(qb_builder *b);

/* engine/device_race.c: how long one run of each of two engines takes, the one that mixes
 * precisions and the one in FP16, by the device's clock: medians of replays on noise, by turns.
 * Kept among the timings, so that a build with them decides the same. */
struct qb_timings;
qb_status qb_device_race(qb_ctx *cx, const qb_engine *const engine[2], struct qb_timings *timings,
                         double ms[2]);
/* The same by another way to run them, where their times are not known: `run` measures; `name`:
 * what the timings call the two. Of the engines, only the operators, tactics and problems of their
 * steps are looked at. */
typedef qb_status (*qb_race_fn)(qb_ctx *cx, void *user, double ms[2]);
qb_status qb_device_raced(qb_ctx *cx, const qb_engine *const engine[2], const char *const name[2],
                          struct qb_timings *timings, qb_race_fn run, void *user, double ms[2]);

/* engine/device_refine.c: tactics are timed alone, but in a run a step may begin while the one
 * before it ends, and finds other things in the caches. So for steps of equal problems together,
 * tactics that were nearly as fast are tried inside the recorded run, by turns with what was
 * chosen, and stay where all of it is faster. Kept among the timings; how much is tried depends on
 * them alone, so that a build with them decides the same. *changed: the engine has other kernels
 * now, and its constants are not packed. Where nothing changed, they may be. */
qb_status qb_device_refine(qb_ctx *cx, qb_engine *engine, struct qb_timings *timings,
                           bool *changed);

/* engine/device_floats.c */
/* Finds the values that stay f32 beside f16. */
qb_status qb_device_keep_floats(qb_builder *b);
/* qb_device_desc for a value's F32 data, but for those. */
qb_desc qb_device_float(const qb_builder *b, int32_t value, qb_desc desc);

/* engine/device_steps.c */
/* F32 data in the float type of the device: inputs and result that are no constants. */
qb_desc qb_device_desc(const qb_builder *b, qb_desc desc);
/* The form in which the step that makes a value leaves it on the device. */
qb_desc qb_device_value(const qb_builder *b, int32_t value, qb_layout layout);
/* A group's problem as the device takes it: float inputs and result that are no constants in the
 * device's float type, or all that is no constant in f16 where `half`. `in` is problem->in. */
void qb_device_problem(const qb_builder *b, const qb_group *group, bool half, qb_desc *in,
                       qb_problem *problem, bool *constant);
/* Makes attention one node wherever a tactic of the device takes it (in f16). Before fusion. */
qb_status qb_device_fuse(qb_builder *b);
/* Queries, keys and values that are one product in an engine of the builder's shapes, those of the
 * first profile, in the graph of all plans: then they share its weights, and split what they do not
 * take as one. The builder's graph is out of date where it changed. */
qb_status qb_device_fuse_plans(qb_builder *b, bool *changed);
/* Does a tactic of the builder's device take it, with its floats in the device's type? */
bool qb_device_takes(const qb_builder *b, const qb_problem *problem);
/* The group as a step on the device; *done is false where no tactic takes it, and the group then
 * runs on the host. `problem` is the graph's. */
qb_status qb_device_step(qb_builder *b, const qb_group *group, const qb_problem *problem,
                         bool *done);
/* The same for nodes that pose a problem of their own. */
qb_status qb_device_node(qb_builder *b, const qb_group *group, bool *done);
/* engine/device_packed.c */
/* Is the group a Split that needs no step, because an Attention on the device reads what it splits?
 */
bool qb_device_is_packing(const qb_builder *b, const qb_group *group);
/* That Split for an Attention, whose problem then has one input in the place of three: packed[4]
 * are the values behind it; NULL: there is none. `in` becomes problem->in. */
const qb_group *qb_device_packed(const qb_builder *b, const qb_group *group, int32_t *packed,
                                 qb_desc *in, qb_problem *problem);
/* Copies from the caller's memory first, copies to it last, so that what lies between can be
 * recorded as one. */
qb_status qb_device_order(qb_ctx *cx, qb_engine *engine);
/* Packs all constants of device steps and brings them to the device. */
qb_status qb_device_pack(qb_ctx *cx, qb_engine *engine);
/* The two halves of it: where the constants lie and how many bytes they are, and bringing them
 * there, packed (device_constants bytes of the host). */
void qb_device_place(qb_engine *engine);
qb_status qb_device_adopt(qb_ctx *cx, qb_engine *engine, const void *block);
/* New memory there with these bytes of the host; NULL for none. */
qb_status qb_device_bring(qb_ctx *cx, const qb_device_api *device, const void *bytes, size_t n,
                          void **out);
/* The packed constants back from the device. */
qb_status qb_device_constants(qb_ctx *cx, const qb_engine *engine, void *block);

/* Makes the engine's device the calling thread's; nothing for an engine of the host. */
void qb_engine_select(const qb_engine *engine);

/* engine/device_run.c */
typedef struct qb_device_run qb_device_run;
struct qb_context;
qb_status qb_device_run_create(qb_ctx *cx, struct qb_context *context);
/* Makes the context's engine the one that runs: with memory for it and the recording of its steps,
 * made now or kept from before. All addresses are bound anew where memory moves. */
qb_status qb_device_run_turn(qb_ctx *cx, struct qb_context *context);
size_t qb_device_run_bytes(const qb_device_run *run); /* on the device */
void qb_device_run_free(qb_device_run *run, const qb_device_api *device);
/* Where a buffer on the device lies. */
void *qb_device_address(const struct qb_context *context, const qb_buffer *buffer);
/* Starts a copy or a kernel of the device. */
qb_status qb_device_run_step(qb_ctx *cx, struct qb_context *context, int32_t step);
/* One run on what qb_context_bind left; `seconds` and `raw` (may be NULL) as in
 * qb_context_profile_raw. */
qb_status qb_device_run_once(qb_ctx *cx, struct qb_context *context, double *seconds,
                             qb_profile_raw *raw);
/* The same with its parts timed; see qb_context_run_timed. */
qb_status qb_device_run_timed(qb_ctx *cx, struct qb_context *context, bool transfers,
                              qb_run_times *times);
qb_status qb_device_replay(qb_ctx *cx, struct qb_context *context, int32_t n, double *ms);
/* A step's result on the host, for observers; valid until the next call. */
qb_status qb_device_fetch(qb_ctx *cx, struct qb_context *context, int32_t image, const void *from,
                          void **data);

#endif
