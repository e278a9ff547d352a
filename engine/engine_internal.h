/* What the files of engine/ share. */
#ifndef QB_ENGINE_INTERNAL_H
#define QB_ENGINE_INTERNAL_H

#include "engine/engine.h"
#include "graph/fusion.h"
#include "kernels/tactic.h"

/* A stretch of memory. Arena buffers get their offset from the planner; the others point at what
 * the caller or the graph owns. */
typedef enum qb_buffer_kind {
    QB_BUFFER_ARENA,
    QB_BUFFER_INPUT,          /* the caller's input `index` */
    QB_BUFFER_OUTPUT,         /* the caller's output `index` */
    QB_BUFFER_CONSTANT,       /* `data`, in the engine's graph */
    QB_BUFFER_DEVICE,         /* in the device's arena */
    QB_BUFFER_DEVICE_CONSTANT /* `data`, brought into the device's block of constants */
} qb_buffer_kind;

typedef struct qb_buffer {
    qb_buffer_kind kind;
    int32_t index;
    const void *data;
    size_t bytes, offset;
    const void
        *shared; /* DEVICE_CONSTANT of a plan: where it lies for all plans; NULL: at `offset` */
    int32_t first, last; /* steps that touch it, both inclusive */
    bool lasting;        /* it keeps its place to the end: replays read it again */
} qb_buffer;

/* One form in which a value lies in memory: a value may have several (row-major for one user,
 * channels last for another), made by copy steps where they are first needed. */
typedef struct qb_image {
    int32_t value;
    int32_t next; /* the next image of the same value, -1 at the end */
    int32_t buffer;
    qb_desc desc;
} qb_image;

typedef enum qb_step_kind {
    QB_STEP_KERNEL,
    QB_STEP_NODE,     /* the operator's eval on row-major tensors */
    QB_STEP_PLUGIN,   /* a plugin's function, on the host or on the device */
    QB_STEP_ALIAS,    /* nothing to do: the output lies where the input lies */
    QB_STEP_UPLOAD,   /* the same bytes on the device */
    QB_STEP_DOWNLOAD, /* and back */
} qb_step_kind;

/* Another tactic that takes a step's problem in the same form. */
typedef struct qb_rival {
    const qb_tactic *tactic;
    double seconds;  /* measured */
    int32_t variant; /* as in qb_problem */
} qb_rival;

/* How a kernel was chosen. */
typedef struct qb_choice {
    double seconds;             /* measured, 0: not */
    int32_t n_rivals, recorded; /* recorded: which one of the engine's choices */
    const qb_rival *rivals;     /* in the engine's arena */
    int32_t n_alternatives;
    qb_step_alternative *alternatives; /* in the engine's arena */
    const char *why_not;               /* why no tactic of the device runs it; NULL */
    const char *why_half;              /* why it runs in f16, in an INT8 engine; NULL */
    const char *why_joined;            /* why it is a convolution with a pool; NULL */
    const char *note;                  /* why no fast kernel of the device runs it; NULL */
    const char *why_place;             /* why it is not the one that was fastest alone; NULL */
} qb_choice;

typedef struct qb_step {
    qb_step_kind kind;
    const char *name, *op, *tactic;
    qb_kernel *kernel;      /* KERNEL */
    const void **constants; /* KERNEL: [n_in] data of constant inputs, for packing; else NULL */
    size_t packed_offset;   /* KERNEL: in the engine's packed block */
    const void *shared;     /* KERNEL of a plan: packed constants of all plans, instead */
    const qb_node *node;    /* NODE, PLUGIN */
    const struct qbench_plugin_tensor *described; /* PLUGIN: [n_in + n_out] without data */
    bool on_device;                               /* the device runs it */
    size_t workspace_bytes;                       /* scratch of one run, where it runs */
    int32_t node_index;                           /* for messages, -1 for copies */
    int32_t n_in, n_out;
    int32_t *in, *out; /* images; -1 for what is left out */
    int32_t observed;  /* number of the value that this step completes, -1 */
    qb_dtype dtype;
    double flops, bytes;
    qb_choice choice;
} qb_step;

typedef struct qb_port { /* an input or output as the caller sees it */
    const char *name;
    qb_desc desc;
    int32_t buffer;
} qb_port;

typedef struct qb_plans qb_plans;
typedef struct qb_knowledge qb_knowledge; /* engine/build.c */

/* One choice of a build, for engine files. */
typedef struct qb_chosen {
    const qb_tactic *tactic; /* NULL: the device had none, and the host came next */
    int32_t variant;         /* as in qb_problem */
} qb_chosen;

struct qb_engine {
    qb_graph *graph; /* bound; owns names, constants and quantization parameters */
    qb_arena *arena; /* owns everything below but kernels and packed */
    int threads;
    int64_t parts; /* one run goes this often through all steps, each time with other items */
    int32_t n_buffers, n_images, n_steps, n_inputs, n_outputs, n_observed;
    qb_buffer *buffers;
    qb_image *images;
    qb_step *steps;
    qb_port *inputs, *outputs;
    int32_t *observed; /* value ids: the graph's inputs first */
    void *packed;
    bool packed_mapped;          /* `packed` lies in the file */
    struct qb_engine_file *file; /* it was loaded from; NULL: built */
    const char *backends;        /* as the build resolved them: "cpu,dnnl,ref" */
    size_t workspace_limit;      /* 0: none */
    qb_compiled *compiled;       /* what was compiled for its kernels; NULL: nothing */
    bool bf16;                   /* float steps of the host are in bf16 where they can */
    qb_chosen *recorded;         /* choice by choice */
    int32_t n_recorded;
    qb_engine_memory memory;
    const struct qb_device_api *device; /* NULL: everything runs on the host */
    int32_t ordinal;                    /* which one of the devices */
    char *device_name;
    void *device_block;      /* on the device: packed constants and QB_BUFFER_DEVICE_CONSTANT */
    size_t device_constants; /* bytes of it */
    size_t device_arena, device_workspace; /* of one context, on the device */
    qb_dtype device_float;                 /* F32 or F16; NONE: no device */
    bool tf32;                             /* as in qb_engine_options */
    bool mixed;                            /* steps of codes might go to f16 */
    uint32_t without;                      /* sources of tactics that are left out */
    double device_seconds;                 /* until the device was open */
    const int32_t *half; /* [n_half]: for each group of codes that runs in f16 its value, the number
                            of its inputs, and these */
    int32_t n_half;
    qb_plans *plans;        /* of an engine with profiles; NULL */
    qb_plans *plan_of;      /* this is one of its plans; NULL */
    int32_t profile;        /* whose hints the plan follows */
    struct qb_pack **packs; /* that the plan reads */
    int32_t n_packs, refs;  /* refs: of who uses the plan now */
    bool cached;            /* the plan stays when nobody uses it */
    int64_t last_use;
};

/* Sets the calling thread's OpenMP team size; returns what it was. */
int qb_use_threads(int threads);

/* Plans offsets so that buffers which live at the same time do not overlap: largest first, each
 * into the lowest gap that fits best. Only buffers of `kind` are placed. */
qb_status qb_plan_memory(qb_ctx *cx, qb_buffer_kind kind, qb_buffer *buffers, int32_t n,
                         int32_t n_steps, size_t *total, size_t *lower_bound);

/* engine/split.c: running a batch in parts. Does nothing in the graph mix the items? `whole` and
 * `one` are the same graph bound for `batch` items and for one. */
bool qb_is_separable(const qb_graph *whole, const qb_graph *one, int64_t batch);
/* Bytes of activations that the caches hold. */
size_t qb_cache_budget(void);
/* The largest divisor of the batch whose activations stay within the budget, at least 1. */
int64_t qb_items_at_once(int64_t batch, size_t bytes_of_one, size_t budget);

/* What an earlier build chose, to be chosen again. */
typedef struct qb_replay {
    const qb_tactic *const *tactic; /* NULL: this program has it no more */
    const char *const *name;        /* "": the device had none */
    const int32_t *variant;
    int32_t n;
    const int32_t *half; /* as in qb_engine */
    int32_t n_half;
    const qb_compiled *compiled; /* for its kernels */
} qb_replay;

/* Bytes of the constants that its steps read: packed ones and those that lie in the graph. */
size_t qb_engine_weights(const qb_engine *engine);

/* How an engine is made again. */
typedef struct qb_again {
    const char *backends;
    int threads;
    size_t workspace_limit;
    qb_dtype device_float; /* NONE: of the host */
    bool tf32;
    bool mixed;
    uint32_t without;        /* see qb_engine */
    bool bf16;               /* see qb_engine */
    int32_t ordinal;         /* of the device */
    const qb_replay *replay; /* NULL: tactics are those that are best here */
    qb_plans *plans;         /* it becomes their engine, to which these were true; NULL: none */
    const struct qb_hints *hints; /* of these, for what `replay` does not say */
    qb_knowledge *known;          /* of the build that times; NULL: none does */
} qb_again;

/* engine/build.c: an engine from the bound graph of an earlier one (taken over, also on failure).
 * Constants are not packed, but have their places: `packed` stays NULL. */
qb_status qb_engine_again(qb_ctx *cx, qb_graph *graph, const qb_again *how, qb_engine **out);
/* An engine for a part of the batch becomes one for all of it. */
qb_status qb_engine_in_parts(qb_ctx *cx, qb_engine *engine, int64_t parts, int64_t batch);

/* The builder: state that only lives during qb_engine_build. */
typedef struct qb_builder {
    qb_ctx *cx;
    qb_engine *engine;
    qb_graph *graph;
    qb_groups groups;
    int32_t group;               /* at work */
    const char *const *backends; /* in order of preference, ends with NULL */
    bool time_tactics;
    qb_plans *plans;              /* those that the engine is for or one of; NULL */
    const struct qb_hints *hints; /* tactics to try first, without timing on a device; NULL */
    bool usual;                   /* the shapes are those that the hints are from */
    size_t workspace_limit;       /* 0: none */
    const qb_tactic *left_out;    /* the last one over the limit, */
    int32_t left_out_group;       /* and for which group */
    const qb_replay *replay;      /* NULL: choose */
    bool *wanted_bf16;          /* [n_values] floats that some step reads in bf16; NULL: none is */
    bool trying;                /* another form of the group is tried when no tactic takes this */
    qb_dtype device_float;      /* F32 or F16: what float values are on the device */
    bool tf32;                  /* the device may round the factors of f32 products */
    struct qb_timings *timings; /* of tactics on the device; NULL without one */
    qb_compiled *compiled;      /* for the device's kernels; NULL without one */
    bool first_tactic;          /* on the device: nothing is timed */
    bool packs_heads;           /* an Attention may read what a Split divides: no one observes it */
    bool *is_half;              /* [n_values] codes of the graph that are made in f16; NULL: none */
    const char **half_note;     /* [n_values] and why */
    bool *keeps_f32;            /* [n_values] beside f16; NULL: none */
    const char *why_not;        /* why the device does not run the group at work; NULL */
    const char *why_joined;     /* why it is joined with another; NULL */
    bool may_join;              /* nobody wants to see what would be inside such a step */
    struct qb_scratch *scratch; /* the device's memory and stream for timing */
    qb_workers *workers;        /* for timing; NULL otherwise */
    qb_layout spatial;          /* layout of images between windows: NHWC, or ROW for ref alone */
    int32_t *image_of;          /* [n_values] first image, -1 */
    int32_t *source_of;    /* [n_values] quantized graph inputs: the caller's float buffer, -1 */
    int32_t *staged_of;    /* [n_values] the same bytes on the device, -1 */
    int32_t *last_group;   /* [n_values] last group that reads it; n for graph outputs; -1 */
    bool *only_windows;    /* [n_values] read by sliding windows and additions alone */
    int32_t *slice_of;     /* [n_values] the concat output it will be a slice of, -1 */
    int64_t *slice_offset; /* [n_values] its first channel there */
    size_t cap_recorded, cap_buffers, cap_images, cap_steps, cap_observed;
} qb_builder;

/* engine/images.c */
int32_t qb_build_buffer(qb_builder *b, qb_buffer_kind kind, int32_t index, const void *data,
                        size_t bytes); /* -1 on failure */
/* The id, or -1 on failure. Images of value -1 are private to the step that made them. */
int32_t qb_build_image(qb_builder *b, int32_t value, const qb_desc *desc, int32_t buffer);
/* A new arena buffer with an image in it, on the device or on the host. */
int32_t qb_build_fresh(qb_builder *b, int32_t value, const qb_desc *desc, bool device);
/* The value as it stands in the graph, in a layout. */
qb_desc qb_build_desc(const qb_builder *b, int32_t value, qb_layout layout);
/* An image that reads as `want` on the device or on the host; -1 when there is none yet. */
int32_t qb_build_find(const qb_builder *b, int32_t value, const qb_desc *want, bool device);
/* Does the device have to copy this form of a value, which it has or is given, from another
 * (*have)? */
bool qb_build_needs_copy(const qb_builder *b, int32_t value, const qb_desc *want, qb_desc *have);
/* The same, with the copy steps that it takes when there is none; -1 on failure. */
int32_t qb_build_require(qb_builder *b, int32_t value, const qb_desc *want, bool device);
/* A copy step from one image to another at the same place (host or device). */
qb_status qb_build_copy(qb_builder *b, int32_t from, int32_t to);
/* A step that moves the same bytes between host and device. */
qb_status qb_build_move(qb_builder *b, int32_t from, int32_t to);
/* The first image of a value on the device or on the host, -1. */
int32_t qb_build_first(const qb_builder *b, int32_t value, bool device);
bool qb_image_on_device(const qb_engine *engine, int32_t image);
/* Does a step that reads the value and may run anywhere run on the device? */
bool qb_build_is_there(const qb_builder *b, int32_t value);
/* The next number for qb_context_observe belongs to this value. */
qb_status qb_build_observed(qb_builder *b, int32_t value);
bool qb_same_params(const qb_qparams *a, const qb_qparams *b);
/* Is row-major order the same as the layout's for this shape? */
bool qb_layout_is_row(const qb_desc *desc);

/* engine/choose.c */
/* The kernel for a problem that may be posed in several forms (layouts and slices), best first: the
 * first tactic in the user's order of backends that takes any, or the fastest with time_tactics. */
qb_status qb_build_kernel(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                          const bool *constant, qb_kernel **out);

/* The value that the group at work makes. */
const char *qb_build_group_name(const qb_builder *b);

/* Notes what was chosen, for engine files; NULL: the device has no tactic for it. */
qb_status qb_build_record(qb_builder *b, const qb_kernel *kernel);
/* What the earlier build chose here; *out is NULL where that was to leave it to the host. Which
 * form it takes follows from the tactic. */
qb_status qb_build_again(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                         const bool *constant, bool device, qb_kernel **out);

/* Does the kernel keep to the limit of workspace? Says so when it does not. */
bool qb_build_within_limit(qb_builder *b, const qb_kernel *kernel);

/* engine/bf16.c */
/* Finds the values that are to be in bf16; for engines of the host with `bf16`. */
qb_status qb_bf16_prepare(qb_builder *b);
bool qb_bf16_is(const qb_builder *b, int32_t value); /* was it computed in bf16? */
/* The type that a value is to have in memory: its own, or BF16. */
qb_dtype qb_bf16_type(const qb_builder *b, int32_t value);
/* The group's problem in bf16, with room for its inputs in `in`; false: it stays as it is. */
bool qb_bf16_pose(const qb_builder *b, const qb_group *group, const qb_problem *problem,
                  qb_desc *in, qb_problem *out);

/* engine/steps.c */
/* Is the group one node whose output is its input's memory? */
bool qb_build_is_alias(const qb_builder *b, const qb_group *group);
/* Operators of which most are. */
bool qb_build_is_alias_op(const char *name);
#define QB_MAX_FORMS 32
/* The forms in which a problem is offered to the tactics. */
typedef struct qb_forms {
    int32_t n;
    bool device; /* looks at the images there */
    qb_problem problem[QB_MAX_FORMS];
    qb_desc in[QB_MAX_FORMS][4];
} qb_forms;
/* All forms of `p`, best first; out_slice: where the result should go, or NULL. */
void qb_build_forms(qb_builder *b, const qb_group *group, const qb_problem *p,
                    const qb_desc *out_slice, qb_forms *f);
/* Does it add two float images of one shape? The processor's kernel for it takes them as slices. */
bool qb_build_is_sum(const qb_builder *b, const qb_group *group);
/* Name, operator and node of the group's step. */
qb_status qb_build_describe(qb_builder *b, const qb_group *group, qb_step *step);
/* Bytes that a step moves: its images once each, and what was packed. */
double qb_step_bytes(const qb_engine *engine, const qb_step *step);
/* The real-valued, row-major form of a value: f32 where it is quantized. */
qb_desc qb_build_real_desc(const qb_builder *b, int32_t value);
/* A quantized output of an operator that made real values: `private` is those, the value begins
 * with its quantized copy, at the same place. */
qb_status qb_build_quantized(qb_builder *b, int32_t value, int32_t private);
qb_step *qb_build_step(qb_builder *b, qb_step_kind kind, int32_t n_in, int32_t n_out);
qb_status qb_build_group(qb_builder *b, const qb_group *group);
/* The group's node by its operator's eval, on the host. */
qb_status qb_build_node(qb_builder *b, const qb_group *group);
/* Adds the kernel's step with the copies it needs before it; *kernel becomes NULL once the engine
 * owns it. */
qb_status qb_build_add_kernel(qb_builder *b, const qb_group *group, qb_kernel **kernel);
/* *done: the node moves nothing, and its step is an alias (see alias.c). */
qb_status qb_build_alias(qb_builder *b, const qb_group *group, bool *done);
/* The group's output is there already, in the memory of `from`. */
qb_status qb_build_add_alias(qb_builder *b, const qb_group *group, int32_t from, int32_t to);

/* engine/plugin_steps.c */
/* The node of a plugin, on the device where there is one and the plugin runs there. */
qb_status qb_build_plugin(qb_builder *b, const qb_group *group);
/* Runs it; `data` has n_in + n_out pointers. */
qb_status qb_plugin_step_run(qb_ctx *cx, const qb_step *step, const void *const *data,
                             void *workspace, void *stream, int threads);

/* engine/concat.c */
/* Finds the values that can be written straight into the output of a Concat. */
qb_status qb_build_slices(qb_builder *b);
/* Where in the larger tensor a value with slice_of goes. */
qb_status qb_build_slice_desc(qb_builder *b, int32_t value, qb_desc *out);
/* The image of a whole Concat output, made when its first part is; -1 on failure. */
int32_t qb_build_whole(qb_builder *b, int32_t value);
qb_status qb_build_concat(qb_builder *b, const qb_group *group, const qb_problem *problem);

#endif
