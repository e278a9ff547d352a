/* A build spec: everything that a caller may ask of an engine. One value: it is filled once,
 * embedded by whoever builds engines later, and handed on whole, so that nothing of it gets lost
 * on the way. A copy with another member set is another spec. */
#ifndef QB_ENGINE_SPEC_H
#define QB_ENGINE_SPEC_H

#include "graph/graph.h"

/* Shapes that an engine is to take, one an input in each: engine/profiles.h. */
typedef struct qb_profile {
    const qb_shape *min, *opt, *max;
} qb_profile;

/* Zeroed: the defaults. What pointers lead to outlives the spec, not the engine. */
typedef struct qb_build_spec {
    /* Preference list of tactic backends, comma separated: "cpu,dnnl,ref" (the default when NULL),
     * "cpu,ref", "ref". A step takes the first tactic that can run it. "cuda" stands first or not
     * at all: steps then run on the device by the fastest of its tactics, timed there; what it
     * cannot run goes to the backends behind it (the default ones when none is named). Execution
     * providers are resolved into it: engine/providers.h. */
    const char *backends;
    int32_t device; /* which one of several, counted from 0 */
    /* Of float values: F32 (also for NONE); F16 on a device; BF16 on the host, where
     * qb_engine_no_bf16 has nothing against it: steps that no tactic computes in bf16 stay in f32.
     */
    qb_dtype float_type;
    bool tf32; /* f32 on a device: tactics may round the factors of products to TF32 */
    /* F16 on a device: a quantized step stays so even where f16 with conversions is faster. */
    bool no_mixed_precision;
    uint32_t excluded_sources; /* on a device: no tactics of these sources (kernels/sources.h) */
    /* Times of tactics on the device are read from this file and kept there, one machine's beside
     * another's; NULL: measured for this engine alone. */
    const char *timing_cache;
    size_t workspace_limit; /* tactics that want more scratch memory are left out; 0: no limit */
    int threads;            /* OpenMP threads of one run; 0: qb_threads(cx) */
    /* Concrete shapes, one an input; NULL: the model's own with every symbolic batch = batch. */
    const qb_shape *input_shapes;
    int64_t batch; /* used when input_shapes is NULL; 0: 1 */
    /* Ranges of shapes instead. */
    const qb_profile *profiles;
    int32_t n_profiles;
    /* The one profile is an example: any shapes of its ranks are taken, and tactics chosen for each
     * as if it were the example. */
    bool any_shapes;
    /* The file of a plan (docs/formats/plan.md), as qb_engine_file_plan gives it, perhaps changed
     * by hand: it is realized, and nothing is timed or chosen. All that the spec says but threads
     * and timing_cache must be what the plan was made for. NULL: a plan is tuned. */
    const char *plan;
    /* An engine of the same graph, but for outputs and shapes: each step takes the precision and
     * the tactic that it has there, where that can be had, and nothing is timed. NULL: none. */
    const struct qb_engine *like;
    bool time_tactics; /* choose among the preferred backend's and lower tactics by timing */
    /* On a device: every step takes the first tactic of the list that can run it, nothing is timed,
     * and every build computes the same. */
    bool first_tactic;
    bool observable; /* qb_context_observe will be used: every value of the whole batch is in memory
                        once. Otherwise a batch whose activations exceed the caches may go
                        through the steps in parts, a few items at a time */
    /* Each step of the host is held against the reference on a sample
     * (engine/tune/check_internal.h); a tactic that is wrong is left out, which the timing cache
     * remembers. Engines that are observed are not checked. */
    bool check;
    /* "NAME=N,NAME=AxBxC": the largest sizes of values that have them from the data: N of the one
     * dimension that is open, else of all dimensions, or of elements where their number is open. A
     * run that goes beyond fails and names the node. NULL: what operators tell. */
    const char *max_sizes;
    /* Fails (UNSUPPORTED) where an item's results may depend on the others of its batch. */
    bool items_apart;
} qb_build_spec;
#endif
