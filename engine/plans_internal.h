/* What belongs to all plans of an engine with profiles. */
#ifndef QB_ENGINE_PLANS_INTERNAL_H
#define QB_ENGINE_PLANS_INTERNAL_H

#include <pthread.h>

#include "base/hash.h"
#include "engine/engine_internal.h"
#include "engine/profiles.h"

#define QB_PROFILES_MAX 16
/* Plans beside the engine's own one; those that nobody runs go first, the longest unused first. */
#define QB_PLANS_MAX 32
/* What was compiled for plans is kept longer than they, some ten KiB each, but not without end. */
#define QB_PLANS_COMPILED_MAX 2048

/* What timing found best at the usual shapes of a profile: the tactic of the step that makes a
 * value, in the order of the steps, and the codes that are made in f16. */
typedef struct qb_hint {
    const char *value;
    const qb_tactic *tactic; /* NULL: this program has it no more */
    int32_t variant;         /* as in qb_problem, for those shapes */
} qb_hint;
typedef struct qb_hints {
    int32_t n, n_half;
    qb_hint *hint;
    const char **half;
} qb_hints;
const qb_hint *qb_hints_find(const qb_hints *hints, const char *value); /* NULL: none */

/* Constants of one kernel as packed, or one of the graph on a device. Several plans read the same.
 */
typedef struct qb_pack {
    qb_hash key;
    const void *data;
    void *own; /* `data` where it is to be freed; NULL: it lies in the engine's block */
    const struct qb_device_api *device; /* `data` lies there; NULL: on the host */
    size_t bytes;
    int32_t refs; /* plans that read it; the engine's own ones stay */
} qb_pack;

/* A quantized constant as floats, for steps that run in f16. */
typedef struct qb_reals {
    const void *codes;
    float *real;
    size_t bytes;
    bool kept; /* such a step reads it */
} qb_reals;

/* The most that a plan needs. */
typedef struct qb_plans_need {
    size_t arena, workspace, device_arena, device_workspace;
} qb_plans_need;

struct qb_plans {
    pthread_mutex_t lock; /* over all below the line */
    qb_arena *arena;
    qb_graph *graph; /* with open shapes, and all constants as the model has them */
    int32_t n_inputs, n_profiles;
    qb_profile *profiles;
    qb_hints *hints;         /* [n_profiles]; none of them has any unless tactics were timed */
    qb_again how;            /* every plan is built; for none of them alone */
    const qb_engine *engine; /* they belong to; NULL: it is being built */
    qb_plans_need built;     /* what files say: `need` as it was when the engine was finished */
    /* ---- */
    qb_plans_need need;
    char *device_name;     /* as in qb_engine */
    qb_compiled *compiled; /* for kernels on the device, of all plans so far; NULL: the host's */
    qb_engine *plan[QB_PLANS_MAX];
    int32_t n_plans;
    int64_t clock; /* counts uses */
    qb_pack **packs;
    size_t n_packs, cap_packs;
    qb_reals *reals;
    size_t n_reals, cap_reals;
};

/* Everything but plans and packs. Takes `graph` over, also on failure; the rest is copied. */
qb_status qb_plans_create(qb_ctx *cx, qb_graph *graph, const qb_profile *profiles,
                          int32_t n_profiles, const qb_again *how, qb_plans **out);
void qb_plans_free(qb_plans *plans); /* accepts NULL */
/* engine/engine.c: without regard to plans and references. */
void qb_engine_destroy(qb_engine *engine);
/* Memory of constants that the graph has no more goes; no plan reads them. */
qb_status qb_plans_trim(qb_ctx *cx, qb_plans *plans);
/* Hints of an earlier build, one list a profile. */
qb_status qb_plans_hint(qb_ctx *cx, qb_plans *plans, const qb_hints *hints);
/* Are they the profile's usual ones? */
bool qb_plans_are_usual(const qb_plans *plans, int32_t profile, const qb_shape *shapes);
/* The profile that serves the shapes (see qb_engine_at); -1 with an error when `only` that one (-1:
 * any) does not hold them. */
int32_t qb_plans_profile(qb_ctx *cx, const qb_plans *plans, int32_t only, const qb_shape *shapes);
/* A context that runs any plan of now needs this much. */
qb_plans_need qb_plans_memory(qb_plans *plans);
/* engine/engine.c: what a context of the engine needed when it was finished, the same whatever ran
 * since. */
qb_plans_need qb_engine_need(const qb_engine *engine);
/* One more user of a plan, to be given back with qb_engine_release; nothing for other engines. */
void qb_engine_hold(const qb_engine *plan);

/* engine/packs.c */
/* The steps of the engine that the plans belong to: others may read what it packed. */
qb_status qb_packs_of_engine(qb_ctx *cx, qb_plans *plans, const qb_engine *engine);
/* Gives each kernel of a plan its constants: those that are there, or packed now (and brought to
 * the device). Under the lock. */
qb_status qb_packs_take(qb_ctx *cx, qb_plans *plans, qb_engine *plan);
/* What only this plan read goes. Under the lock. */
void qb_packs_give_back(qb_plans *plans, qb_engine *plan);
void qb_pack_free(qb_pack *pack);
size_t qb_packs_bytes(qb_plans *plans); /* beside the engine's block, with the reals below */
/* Is it a constant of the graph of all plans, not one that binding made? */
bool qb_plans_own(const qb_plans *plans, const qb_value *value);
/* The real values of such a quantized constant, the same for all plans; NULL with an error. Under
 * the lock, or before there are plans. */
const float *qb_plans_reals(qb_ctx *cx, qb_plans *plans, const qb_value *value);
/* Choosing between codes and f16 makes all of a network's weights floats: those that are chosen are
 * kept, and all others (or all) go. */
void qb_plans_keep_reals(qb_plans *plans, const float *real);
void qb_plans_drop_reals(qb_plans *plans, bool all);

/* engine/build.c: a plan for concrete shapes with the constants of plans->graph, not packed. It
 * keeps to the hints of the profile, or times tactics as `tune` (may be NULL) says. */
qb_status qb_engine_plan(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                         const qb_engine_options *tune, qb_engine **out);
/* Packs all constants of an engine into a block of its own, unless that was done. */
qb_status qb_engine_pack(qb_ctx *cx, qb_engine *engine);
/* engine/profiles.c: the plans become those of `engine`, which is packed; it takes them over, also
 * on failure. */
qb_status qb_plans_attach(qb_ctx *cx, qb_plans *plans, qb_engine *engine);
/* engine/profiles.c: qb_engine_build for options with profiles. */
qb_status qb_profiles_build(qb_ctx *cx, const qb_graph *graph, const qb_engine_options *options,
                            const qb_again *how, qb_engine **out);
/* What was chosen in the engine of a profile becomes its hints. */
qb_status qb_plans_take_hints(qb_ctx *cx, qb_plans *plans, int32_t profile,
                              const qb_engine *engine);

#endif
