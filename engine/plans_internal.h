/* What belongs to all plans of an engine with profiles. */
#ifndef QB_ENGINE_PLANS_INTERNAL_H
#define QB_ENGINE_PLANS_INTERNAL_H

#include <pthread.h>

#include "base/hash.h"
#include "engine/engine_internal.h"
#include "engine/plan/plan_internal.h"
#include "engine/profiles.h"

/* Plans beside the engine's own one; those that nobody runs go first, the longest unused first. */
#define QB_PLANS_MAX 32
/* What was compiled for plans is kept longer than they, some ten KiB each, but not without end. */
#define QB_PLANS_COMPILED_MAX 2048

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
typedef struct qb_shared_floats {
    const void *quantized;
    float *f32;
    size_t bytes;
    bool kept; /* such a step reads it */
} qb_shared_floats;

/* The most that a plan needs. */
typedef struct qb_plans_need {
    size_t arena, workspace, device_arena, device_workspace;
} qb_plans_need;

/* An engine for concrete shapes of a profile, its constants not packed: by a plan that is made for
 * them (engine/tune). */
typedef qb_status (*qb_plans_realize_fn)(qb_ctx *cx, qb_plans *plans, int32_t profile,
                                         const qb_shape *shapes, qb_engine **out);

struct qb_plans {
    pthread_mutex_t lock; /* over all below the line */
    qb_graph *graph;      /* with open shapes, and all constants as the model has them */
    int32_t n_inputs;
    const qb_plan *plan;     /* spec, profiles and the rows at their usual shapes: the engine's */
    const qb_engine *engine; /* they belong to; NULL: it is being built */
    qb_plans_realize_fn realize;
    struct qb_tuning_state *tuning; /* of the build; NULL: it is over */
    qb_plans_need built; /* what files say: `need` as it was when the engine was finished */
    /* ---- */
    qb_plans_need need;
    char *device_name;     /* as in qb_engine */
    qb_compiled *compiled; /* for kernels on the device, of all plans so far; NULL: the host's */
    qb_engine *at[QB_PLANS_MAX];
    int32_t n_plans;
    int64_t clock; /* counts uses */
    qb_pack **packs;
    size_t n_packs, cap_packs;
    qb_shared_floats *floats;
    size_t n_floats, cap_floats;
};

/* Everything but engines and packs. Takes `graph` over, also on failure; the plan outlives it. */
qb_status qb_plans_create(qb_ctx *cx, qb_graph *graph, const qb_plan *plan,
                          qb_plans_realize_fn realize, qb_plans **out);
/* What was compiled since goes; what the engine has stays. */
qb_status qb_plans_renew_compiled(qb_ctx *cx, qb_plans *plans);
void qb_plans_free(qb_plans *plans); /* accepts NULL */
QB_RELEASE_AT(qb_plans, qb_plans_free)
/* engine/engine.c: without regard to plans and references. */
void qb_engine_destroy(qb_engine *engine);
/* What was compiled, by the build or since; NULL on the host. */
qb_compiled *qb_plans_compiled(const qb_plans *plans);
/* Are they the profile's usual ones? */
bool qb_plans_are_usual(const qb_plans *plans, int32_t profile, const qb_shape *shapes);
/* A context that runs any plan of now needs this much. */
qb_plans_need qb_plans_memory(qb_plans *plans);
/* engine/engine.c: what a context of the engine needed when it was finished, the same whatever ran
 * since. */
qb_plans_need qb_engine_need(const qb_engine *engine);
/* One more user of a plan, to be given back with qb_engine_release; nothing for other engines. */
void qb_engine_hold(const qb_engine *plan);

/* engine/realize/packs.c */
/* The steps of the engine that the plans belong to: others may read what it packed. */
qb_status qb_packs_of_engine(qb_ctx *cx, qb_plans *plans, const qb_engine *engine);
/* Gives each kernel of a plan its constants: those that are there, or packed now (and uploaded to
 * the device). Under the lock. */
qb_status qb_packs_take(qb_ctx *cx, qb_plans *plans, qb_engine *plan);
/* What only this plan read goes. Under the lock. */
void qb_packs_give_back(qb_plans *plans, qb_engine *plan);
void qb_pack_free(qb_pack *pack);
size_t qb_packs_bytes(qb_plans *plans); /* beside the engine's block, with the floats below */
/* Is it a constant of the graph of all plans, not one that binding made? */
bool qb_plans_own(const qb_plans *plans, const qb_value *value);
/* The floats of such a quantized constant, the same for all plans; NULL with an error. Under
 * the lock, or before there are plans. */
const float *qb_plans_floats(qb_ctx *cx, qb_plans *plans, const qb_value *value);
/* Choosing between quantized values and f16 makes all of a network's weights floats: those that are
 * chosen are kept, and all others (or all) go. */
void qb_plans_keep_floats(qb_plans *plans, const float *f32);
void qb_plans_drop_floats(qb_plans *plans, bool all);

/* engine/tune/profiles.c: the plans become those of `engine`, which is packed; it takes them over,
 * also on failure. */
qb_status qb_plans_attach(qb_ctx *cx, qb_plans *plans, qb_engine *engine);
#endif
