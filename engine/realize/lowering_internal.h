/* Lowering: from a bound graph, group by group, to the steps of an engine. What runs each step a
 * selector tells: tuning measures (engine/tune), realizing looks into the plan (realize.c). */
#ifndef QB_ENGINE_REALIZE_LOWERING_INTERNAL_H
#define QB_ENGINE_REALIZE_LOWERING_INTERNAL_H

#include "engine/backends.h"
#include "engine/device_internal.h"
#include "engine/plan/plan_internal.h"

#define QB_MAX_CANDIDATES 32

typedef struct qb_lowering qb_lowering;

/* A kernel that is wanted: for one of the layout candidates of a problem, best first. */
typedef struct qb_selection {
    const qb_problem *candidates;
    int32_t n_candidates;
    const bool *constant;
    const int32_t *values; /* behind the inputs (-1: none); NULL: their copies do not count */
    const char *copied;    /* the value that is copied; NULL: the group at work makes one */
    bool on_device;
    bool optional; /* where nothing runs it, another way is tried */
} qb_selection;

/* What a lowering asks; `b->state` is its own. */
typedef struct qb_selector {
    /* The device is open: what was compiled for it is to be known. */
    qb_status (*open)(qb_lowering *b);
    /* The groups are known: marks the quantized values that are made in f16. */
    qb_status (*precision)(qb_lowering *b);
    /* The values are known, in an engine of f16: marks those whose steps stay in f32. */
    qb_status (*floats)(qb_lowering *b);
    /* Does `fused`, a convolution with the pool behind it, stand for the group at work? */
    qb_status (*fuse)(qb_lowering *b, const qb_group *fused, const qb_group *pool, bool *fuse);
    /* *out is NULL where it is optional and nothing runs it. */
    qb_status (*select)(qb_lowering *b, const qb_selection *wanted, qb_kernel **out);
    /* A step was added: finds or makes its row. `value` is the row's. */
    qb_status (*record)(qb_lowering *b, const char *value, bool is_copy, qb_step *step);
} qb_selector;

/* What is known of a value of the graph while it is lowered. */
typedef struct qb_lowered_value {
    int32_t layout;       /* the first one in memory, -1 */
    int32_t source;       /* quantized graph inputs: the caller's float buffer, -1 */
    int32_t staged;       /* the same bytes on the device, -1 */
    int32_t last_group;   /* that reads it; n for graph outputs; -1 */
    int32_t n_groups;     /* that read it */
    bool only_slices;     /* read by what takes channel slices alone */
    bool only_rows;       /* read by what is row-major alone, or by the caller */
    bool in_window;       /* read by a convolution or pool */
    int32_t slice_of;     /* the concat output it will be a slice of, -1 */
    int64_t slice_offset; /* its first channel there */
    bool wanted_bf16;     /* a float that some step reads in bf16 */
    bool is_f16;          /* quantized in the graph, made in f16 */
    bool keeps_f32;       /* beside f16 */
    const char *f16_reason;
    const char *f32_reason; /* why the step that makes it stays in f32 beside f16; NULL: it does
                               not */
} qb_lowered_value;

/* State that only lives while an engine is lowered. */
struct qb_lowering {
    qb_ctx *cx;
    qb_engine *engine;
    qb_graph *graph;
    qb_groups groups;
    int32_t group; /* at work */
    const qb_build_spec *spec;
    qb_backend_list backends;
    qb_plans *plans;       /* those that the engine is for or one of; NULL */
    qb_compiled *compiled; /* for the device's kernels; NULL without one */
    const qb_selector *selector;
    void *state;
    qb_lowered_value *value;      /* [n_values] */
    qb_layout spatial;            /* of what windows slide over: NHWC, or ROW for ref alone */
    bool in_bf16;                 /* the group's problem in bf16 is tried */
    const char *fallback_reason;  /* why the device does not run the group at work; NULL */
    const qb_tactic *left_out;    /* the last one over the limit of workspace, */
    int32_t left_out_group;       /* and for which group */
    char unsupported_reason[256]; /* no kernel was made by the last tactic that was asked */
    qb_plan_layout row_in[QB_MAX_INPUTS]; /* of the last row that was described */
    const char *fuses;                    /* the value of the group that is part of it; NULL */
    struct qb_kernel_pool *pool;          /* of kernels that steps may share; NULL until one may */
    const struct qb_timings *denied;      /* tactics that are wrong; NULL: none */
    struct {
        size_t buffers, layouts, steps, observed;
    } capacity;
};

/* What an engine is lowered from. */
typedef struct qb_lower_input {
    qb_graph *graph; /* bound; taken over, also on failure */
    qb_plan *plan;   /* whose spec it follows; the engine owns it, but not on failure */
    qb_plans *plans; /* as in qb_lowering */
    qb_compiled *compiled;
    const struct qb_timings *denied; /* as in qb_lowering */
    bool without_memory;             /* nobody asks where its tensors lie */
    const qb_selector *selector;
    void *state;
} qb_lower_input;

/* engine/realize/lower.c */
/* The engine; its constants are not packed. */
qb_status qb_lower(qb_ctx *cx, const qb_lower_input *input, qb_engine **out);
/* Queries, keys and values that are one product in an engine of these shapes, those of the first
 * profile, become one in the graph of all plans: then they share its weights, and split what they
 * do not take as one. */
qb_status qb_lower_fuse_plans(qb_ctx *cx, const qb_lower_input *input);

/* engine/realize/lowering.c */
/* b->value for all values that the graph has by now, unless that was done. */
qb_status qb_lower_values(qb_lowering *b);
/* The value that the group at work makes. */
const char *qb_lower_group_name(const qb_lowering *b);
/* The next number for qb_context_observe belongs to this value. */
qb_status qb_lower_observed(qb_lowering *b, int32_t value);
/* The step as a row of the plan, without times and reasons; valid until the next call. */
qb_plan_row qb_lower_row(qb_lowering *b, const char *value, bool is_copy, const qb_step *step);
/* The value as it stands in the graph, in a layout. */
qb_desc qb_lower_desc(const qb_lowering *b, int32_t value, qb_layout layout);
bool qb_same_params(const qb_qparams *a, const qb_qparams *b);
/* Is the group one node whose output is its input's memory? */
bool qb_lower_is_alias(const qb_lowering *b, const qb_group *group);
/* The float, row-major form of a value: f32 where it is quantized. */
qb_desc qb_lower_float_desc(const qb_lowering *b, int32_t value);
qb_step *qb_lower_step(qb_lowering *b, qb_step_kind kind, int32_t n_in, int32_t n_out);
/* Attention as one step wherever `takes` does (qb_fuse_attention); what is added to its scores as
 * one term first. */
qb_status qb_lower_attention(qb_lowering *b, qb_problem_filter takes);

/* engine/realize/create.c */
/* Was the kernel found wrong? */
qb_status qb_lower_is_denied(qb_lowering *b, const qb_kernel *kernel, const bool *constant,
                             bool *denied);
/* *out is NULL where the tactic does not take it, was found wrong, or wants more workspace than the
 * limit; b->unsupported_reason may then say why. */
qb_status qb_lower_create(qb_lowering *b, const qb_tactic *tactic, const qb_problem *problem,
                          const bool *constant, qb_kernel **out);
/* The same for the first of the candidates that it takes. */
qb_status qb_lower_create_first(qb_lowering *b, const qb_selection *wanted, const qb_tactic *tactic,
                                int32_t variant, qb_kernel **out);
/* By the first tactic, in the order of backends, that takes any. */
qb_status qb_lower_preferred(qb_lowering *b, const qb_selection *wanted, qb_kernel **out);
/* Is the tactic one of the host's backends, or the device's and of no source that is excluded? */
bool qb_lower_has(const qb_lowering *b, const qb_tactic *tactic, bool on_device);
/* Does the kernel keep to the limit of workspace? Says so when it does not. */
bool qb_lower_within_limit(qb_lowering *b, const qb_kernel *kernel);

/* engine/realize/kernel_pool.c: kernels of the host that hold no constants. Steps that make the
 * same problem share one: making it takes time and memory, and models repeat themselves. */
/* *out is the kernel that a tactic made of this very problem before, with one more owner, or NULL.
 */
qb_status qb_kernel_pool_find(qb_lowering *b, const qb_tactic *tactic, const qb_problem *problem,
                              const bool *constant, qb_kernel **out);
/* Keeps a kernel that was made of what was looked for last, where steps may share it. */
qb_status qb_kernel_pool_add(qb_lowering *b, qb_kernel *kernel);
void qb_kernel_pool_free(struct qb_kernel_pool *pool); /* accepts NULL */

/* engine/realize/realize.c */
/* The table's row of the group at work or of the copy that is selected; NULL: it has none. */
const qb_plan_row *qb_lower_selected(const qb_lowering *b, const qb_selection *wanted,
                                     const qb_plan_table *table);
/* As qb_lower_create_first, for the candidates that have the row's layouts. */
qb_status qb_lower_create_row(qb_lowering *b, const qb_selection *wanted, const qb_tactic *tactic,
                              const qb_plan_row *row, qb_kernel **out);

/* engine/realize/layouts.c */
int32_t qb_lower_buffer(qb_lowering *b, qb_buffer_kind kind, int32_t index, const void *data,
                        size_t bytes); /* -1 on failure */
/* The id, or -1 on failure. Layouts of value -1 are private to the step that made them. */
int32_t qb_lower_layout(qb_lowering *b, int32_t value, const qb_desc *desc, int32_t buffer);
/* A new arena buffer with a layout in it, on the device or on the host. */
int32_t qb_lower_fresh(qb_lowering *b, int32_t value, const qb_desc *desc, bool device);
/* A layout that reads as `want` on the device or on the host; -1 when there is none yet. */
int32_t qb_lower_find(const qb_lowering *b, int32_t value, const qb_desc *want, bool device);
/* Does the device have to copy this form of a value, which it has or is given, from another
 * (*have)? */
bool qb_lower_needs_copy(const qb_lowering *b, int32_t value, const qb_desc *want, qb_desc *have);
/* The same, with the copy steps that it takes when there is none; -1 on failure. */
int32_t qb_lower_require(qb_lowering *b, int32_t value, const qb_desc *want, bool device);
/* A copy step from one layout to another in the same memory space (host or device). */
qb_status qb_lower_copy(qb_lowering *b, int32_t from, int32_t to);
/* A step that moves the same bytes between host and device. */
qb_status qb_lower_move(qb_lowering *b, int32_t from, int32_t to);
/* The first layout of a value on the device or on the host, -1. */
int32_t qb_lower_first(const qb_lowering *b, int32_t value, bool device);
/* Does a step that reads the value and may run anywhere run on the device? */
bool qb_lower_is_there(const qb_lowering *b, int32_t value);

/* engine/realize/candidates.c */
/* Problems with more inputs have one candidate: themselves. */
#define QB_CANDIDATE_INPUTS 4
/* The candidates in which a problem is offered to the tactics. */
typedef struct qb_candidates {
    int32_t n;
    bool device; /* looks at the layouts there */
    qb_problem problem[QB_MAX_CANDIDATES];
    qb_desc in[QB_MAX_CANDIDATES][QB_CANDIDATE_INPUTS];
} qb_candidates;
/* Channels that a tensor of `value` has on a device with its padding, where convolutions, and
 * others that take slices, read it there: docs/adr/0023. 0: it has none. */
int64_t qb_lower_padded_channels(const qb_lowering *b, int32_t value, const qb_desc *desc);
/* All candidates of `p`, best first; out_slice: where the result should go, or NULL. */
void qb_lower_candidates(qb_lowering *b, const qb_group *group, const qb_problem *p,
                         const qb_desc *out_slice, qb_candidates *f);
/* Does it add two float values of one shape? The processor's kernel for it takes them as slices. */
bool qb_lower_is_sum(const qb_lowering *b, const qb_group *group);

/* engine/realize/steps.c */
/* Name, operator and node of the group's step. */
qb_status qb_lower_describe(qb_lowering *b, const qb_group *group, qb_step *step);
/* Bytes that a step moves: its layouts once each, and what was packed. */
double qb_step_bytes(const qb_engine *engine, const qb_step *step);
/* A quantized output of an operator that made floats: `private` is those, the value begins
 * with its quantized copy, in the same memory space. */
qb_status qb_lower_quantized(qb_lowering *b, int32_t value, int32_t private);
/* The group's node by its operator's eval, on the host. */
qb_status qb_lower_node(qb_lowering *b, const qb_group *group);
/* Adds the kernel's step with the copies it needs before it; *kernel becomes NULL once the engine
 * owns it. */
qb_status qb_lower_add_kernel(qb_lowering *b, const qb_group *group, qb_kernel **kernel);
/* The group's output is there already, in the memory of `from`. */
qb_status qb_lower_add_alias(qb_lowering *b, const qb_group *group, int32_t from, int32_t to);

/* engine/realize/alias.c */
/* *done: the node moves nothing, and its step is an alias (see alias.c). */
qb_status qb_lower_alias(qb_lowering *b, const qb_group *group, bool *done);

/* engine/realize/concat.c */
qb_status qb_lower_concat(qb_lowering *b, const qb_group *group, const qb_problem *problem);

/* engine/realize/slices.c */
/* Finds the values that can be written straight into the output of a Concat. */
qb_status qb_lower_slices(qb_lowering *b);
/* Where in the larger tensor a value with slice_of goes. */
qb_status qb_lower_slice_desc(qb_lowering *b, int32_t value, qb_desc *out);
/* The layout of a whole Concat output, made when its first part is; -1 on failure. */
int32_t qb_lower_whole(qb_lowering *b, int32_t value);
/* Is the group a Concat along the channels of something that has pixels? */
bool qb_is_channel_concat(const qb_lowering *b, const qb_group *group);

/* engine/realize/bf16.c */
/* Finds the values that are to be in bf16; for engines of the host with `bf16`. */
void qb_bf16_prepare(qb_lowering *b);
bool qb_bf16_is(const qb_lowering *b, int32_t value); /* was it computed in bf16? */
/* The type that a value is to have in memory: its own, or BF16. */
qb_dtype qb_bf16_type(const qb_lowering *b, int32_t value);
/* The group's problem in bf16, its inputs in `in`; false: it stays as it is. */
bool qb_bf16_problem(const qb_lowering *b, const qb_group *group, const qb_problem *problem,
                     qb_desc *in, qb_problem *out);

/* engine/realize/plugin_steps.c */
/* The node of a plugin, on the device where there is one and the plugin runs there. */
qb_status qb_lower_plugin(qb_lowering *b, const qb_group *group);

/* engine/realize/groups.c */
qb_status qb_lower_group(qb_lowering *b, const qb_group *group);

/* engine/realize/f32_steps.c */
/* Does the group have numbers that f16 has not? */
bool qb_f32_exceeds_f16(const qb_lowering *b, const qb_group *group);
/* Marks what such groups make; groups that are in f16 by choice were asked before. */
qb_status qb_f32_by_range(qb_lowering *b);
/* Marks what a table's rows compute in f32 alone. */
void qb_f32_as_rows(qb_lowering *b, const qb_plan_table *table);

/* engine/realize/device_problem.c */
/* Finds the values that stay f32 beside f16. */
qb_status qb_device_keep_floats(qb_lowering *b);
/* qb_device_desc for a value's F32 data, but for those. */
qb_desc qb_device_float(const qb_lowering *b, int32_t value, qb_desc desc);
/* F32 data in the float type of the device: inputs and result that are no constants. */
qb_desc qb_device_desc(const qb_lowering *b, qb_desc desc);
/* The form in which the step that makes a value leaves it on the device. */
qb_desc qb_device_value(const qb_lowering *b, int32_t value, qb_layout layout);
/* A group's problem as the device takes it: float inputs and result that are no constants in the
 * device's float type, or all that is no constant in f16 where `f16`. `in` is problem->in. */
void qb_device_problem(const qb_lowering *b, const qb_group *group, bool f16, qb_desc *in,
                       qb_problem *problem, bool *constant);
/* Does a tactic of the lowering's device take it, with its floats in the device's type? */
bool qb_device_takes(const void *lowering, const qb_problem *problem);
/* Does any tactic of the device copy from one layout to the other? */
bool qb_device_copies(const qb_lowering *b, const qb_desc *from, const qb_desc *to);

/* engine/realize/device_steps.c */
/* Makes attention one node wherever a tactic of the device takes it (in f16). Before fusion. */
qb_status qb_device_fuse(qb_lowering *b);
/* The group as a step on the device; *done is false where no tactic takes it, and the group then
 * runs on the host. `problem` is the graph's. */
qb_status qb_device_step(qb_lowering *b, const qb_group *group, const qb_problem *problem,
                         bool *done);
/* The same for nodes that make a problem of their own. */
qb_status qb_device_node(qb_lowering *b, const qb_group *group, bool *done);
/* Fuses products of the graph of all plans; *n: how many times. */
qb_status qb_device_fuse_plans(qb_lowering *b, int32_t *n);

#endif
