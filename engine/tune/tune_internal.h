/* Tuning: what makes plans. Graphs are lowered to candidates while tactics are measured; what was
 * chosen becomes the rows of a plan, and edits of these rows are what else is tried. */
#ifndef QB_ENGINE_TUNE_TUNE_INTERNAL_H
#define QB_ENGINE_TUNE_TUNE_INTERNAL_H

#include "engine/realize/lowering_internal.h"
#include "engine/run/tail_internal.h"
#include "engine/timings.h"
#include "engine/tune/check_internal.h"

/* What is known of a device's kernels; all candidates of a build share it. */
typedef struct qb_tuning_state {
    qb_timings *timings;   /* NULL until a device is open, or where nothing is timed */
    qb_compiled *compiled; /* instead, where a plan is realized that was tuned before; NULL */
    const char *cache;     /* the file that they are kept in; NULL: none */
    qb_timings *denied;    /* tactics that are wrong; NULL: nothing is checked */
} qb_tuning_state;

/* Of one lowering that makes rows: b->state. */
typedef struct qb_tuning {
    qb_tuning_state *known;     /* NULL: nothing is timed */
    const qb_plan_table *usual; /* the rows at a profile's usual shapes, which are followed where
                                   they can be had; NULL: kernels are chosen here */
    bool at_usual;              /* these are those shapes */
    struct qb_scratch *scratch; /* the device's memory and stream for timing; NULL without one */
    qb_workers *workers;        /* for timing on the host; NULL otherwise */
    /* Times and reasons of the group's kernel that was selected last, and of the copy's: a group's
     * inputs are copied between its selection and its row. */
    qb_plan_row chosen[2];
    const char *fuse_reason; /* why the group at work has its pool; NULL */
} qb_tuning;

/* engine/tune/plan_tune.c */
/* The plan for the shapes of the spec, which is resolved: the fastest on a device or with
 * time_tactics, else the first that runs. `plans` as in qb_lowering. */
qb_status qb_plan_tune(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                       qb_plans *plans, qb_tuning_state *known, qb_plan **out);
/* The same of a graph that is bound (taken over, also on failure), for the batch that it has. */
qb_status qb_plan_tune_bound(qb_ctx *cx, qb_graph *graph, const qb_build_spec *spec,
                             qb_plans *plans, qb_tuning_state *known, qb_plan **out);
/* The plan for other shapes of a profile: times nothing. */
qb_status qb_plan_for_profile(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                              qb_plan **out);
/* The size of the first dimension where it is the same in all shapes, else 0. */
int64_t qb_common_batch(const qb_graph *graph, const qb_shape *shapes);

/* engine/tune/build.c: can it compute in the spec's type of floats? */
qb_status qb_build_check_float_type(qb_ctx *cx, const qb_build_spec *spec,
                                    const qb_backend_list *backends);

/* engine/tune/profiles.c */
/* As qb_plans_realize_fn: what was best at the usual shapes, where that can be had. */
qb_status qb_profile_realize(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                             qb_engine **out);
/* An empty plan for a resolved spec with profiles is tuned where `tunes`, then realized, packed and
 * tried at the corners of all profiles. Takes the plan over, also on failure. */
qb_status qb_profiles_build(qb_ctx *cx, const qb_graph *graph, qb_plan *plan, bool tunes,
                            qb_tuning_state *known, qb_engine **out);

/* engine/tune/host_select.c: the selector's choice on the host. */
qb_status qb_host_select(qb_lowering *b, const qb_selection *wanted, qb_kernel **out);

/* engine/tune/device_select.c */
/* The fastest of the device's tactics, timed on the device with the copies that its layouts need;
 * *out is NULL when none takes the problem, and chosen->fallback_reason then says what the last one
 * said. Texts and alternatives are new memory in the engine's arena. */
qb_status qb_device_measure(qb_lowering *b, const qb_selection *wanted, qb_kernel **out,
                            qb_plan_row *chosen);
/* The seconds that one copy between two layouts or types takes; 1 where no kernel does it. */
qb_status qb_device_copy_seconds(qb_lowering *b, const qb_desc *from, const qb_desc *to,
                                 double *seconds);
/* The selector's choice on the device. */
qb_status qb_device_select(qb_lowering *b, const qb_selection *wanted, qb_kernel **out);
/* Why no fast kernel of the device runs it, in the arena, or NULL. */
qb_status qb_device_remark(qb_ctx *cx, const qb_device_api *device, const qb_kernel *kernel,
                           qb_arena *arena, const char **note);

/* engine/tune/mixed_precision.c */
/* Seconds of the group's fastest tactic; infinite when none takes it. `f16`: in f16. */
qb_status qb_device_time(qb_lowering *b, const qb_group *group, bool f16, double *seconds);
/* Decides which quantized groups run in f16 and gives them float constants. */
qb_status qb_mixed_precision(qb_lowering *b);

/* engine/tune/conv_pool.c: is a convolution faster with the max pool that alone reads it than both
 * alone? */
qb_status qb_fuse_conv_pool(qb_lowering *b, const qb_group *fused, const qb_group *pool,
                            bool *fuse);

/* engine/tune/ab_comparison.c: how long one run of each of two engines takes, the one in mixed
 * precision and the one in FP16, by the device's clock: medians of replays on noise, interleaved.
 * Kept among the timings, so that a build with them decides the same. */
qb_status qb_ab_comparison(qb_ctx *cx, const qb_engine *const engine[2], qb_timings *timings,
                           double ms[2]);
/* The same by another way to run them, where their times are not known: `run` measures; `name`:
 * what the timings call the two. Of the engines, only the operators, tactics and problems of their
 * steps are looked at. */
typedef qb_status (*qb_ab_run_fn)(qb_ctx *cx, void *user, double ms[2]);
qb_status qb_ab_compare(qb_ctx *cx, const qb_engine *const engine[2], const char *const name[2],
                        qb_timings *timings, qb_ab_run_fn run, void *user, double ms[2]);

/* engine/tune/in_graph.c: tactics are timed alone, but in a run a step may begin while the one
 * before it ends, and finds other things in the caches. So for steps of equal problems together,
 * alternatives that were nearly as fast are tried inside the recorded run of a candidate,
 * interleaved with what was chosen, and become the rows of its plan where all of it is faster. Kept
 * among the timings; how much is tried depends on them alone, so that a build with them decides the
 * same. The candidate itself keeps its kernels, and may be packed. */
qb_status qb_tune_in_graph(qb_ctx *cx, qb_engine *candidate, qb_timings *timings);

/* engine/tune/split.c: running a batch in parts. Does nothing in the graph mix the items? `whole`
 * and `one` are the same graph bound for `batch` items and for one. */

bool qb_is_separable(const qb_graph *whole, const qb_graph *one, int64_t batch);
/* Bytes of activations that the caches hold. */
size_t qb_cache_budget(void);
/* The largest divisor of the batch whose activations stay within the budget, at least 1. */
int64_t qb_items_at_once(int64_t batch, size_t bytes_of_one, size_t budget);

/* engine/tune/build.c */
extern const qb_tail_engines qb_tail_group_engines;

#endif
