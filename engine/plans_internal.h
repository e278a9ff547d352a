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

/* Which tactic timing found best for the step that makes a value; in the order of the steps. */
typedef struct qb_hints {
    int32_t n;
    const char **value;
    const qb_tactic **tactic;
} qb_hints;
const qb_tactic *qb_hints_find(const qb_hints *hints, const char *value); /* NULL: none */

/* Constants of one kernel as packed. Kernels of several plans read the same. */
typedef struct qb_pack {
    qb_hash key;
    const void *data;
    void *own; /* `data` where it is to be freed; NULL: it lies in the engine's block */
    size_t bytes;
    int32_t refs; /* plans that read it; the engine's own ones stay */
} qb_pack;

struct qb_plans {
    pthread_mutex_t lock; /* over all below the line */
    qb_arena *arena;
    qb_graph *graph; /* with open shapes, and all constants as the model has them */
    int32_t n_inputs, n_profiles;
    qb_profile *profiles;
    qb_hints *hints; /* [n_profiles]; none of them has any unless tactics were timed */
    const char *backends;
    int threads;
    size_t workspace_limit;
    bool bf16; /* see qb_engine */
    /* ---- */
    size_t arena_bytes, workspace_bytes; /* the most that a plan needs */
    qb_engine *plan[QB_PLANS_MAX];
    int32_t n_plans;
    int64_t clock; /* counts uses */
    qb_pack **packs;
    size_t n_packs, cap_packs;
};

/* Everything but plans and packs. Takes `graph` over, also on failure; the rest is copied. */
qb_status qb_plans_create(qb_ctx *cx, qb_graph *graph, const qb_profile *profiles,
                          int32_t n_profiles, const char *backends, int threads,
                          size_t workspace_limit, qb_plans **out);
void qb_plans_free(qb_plans *plans); /* accepts NULL */
/* engine/engine.c: without regard to plans and references. */
void qb_engine_destroy(qb_engine *engine);
/* Hints of an earlier build, one list a profile. */
qb_status qb_plans_hint(qb_ctx *cx, qb_plans *plans, const qb_hints *hints);
/* The profile that holds the shapes; -1 with an error when none of `only` (-1: all) does. */
int32_t qb_plans_profile(qb_ctx *cx, const qb_plans *plans, int32_t only, const qb_shape *shapes);
/* A context that runs any plan of now needs this much. */
void qb_plans_memory(qb_plans *plans, size_t *arena, size_t *workspace);

/* engine/packs.c */
/* The steps of the engine that the plans belong to: others may read what it packed. */
qb_status qb_packs_of_engine(qb_ctx *cx, qb_plans *plans, const qb_engine *engine);
/* Gives each kernel of a plan its constants: those that are there, or packed now. Under the lock.
 */
qb_status qb_packs_take(qb_ctx *cx, qb_plans *plans, qb_engine *plan);
/* What only this plan read goes. Under the lock. */
void qb_packs_give_back(qb_plans *plans, qb_engine *plan);
size_t qb_packs_bytes(qb_plans *plans); /* beside the engine's block */

/* engine/build.c: a plan for concrete shapes with the constants of plans->graph, not packed. */
qb_status qb_engine_plan(qb_ctx *cx, const qb_plans *plans, const qb_shape *shapes,
                         const qb_hints *hints, bool time_tactics, qb_engine **out);
/* Packs all constants of an engine into a block of its own. */
qb_status qb_engine_pack(qb_ctx *cx, qb_engine *engine);
/* engine/profiles.c: the plans become those of `engine`, which is packed; it takes them over, also
 * on failure. */
qb_status qb_plans_attach(qb_ctx *cx, qb_plans *plans, qb_engine *engine);
/* engine/profiles.c: qb_engine_build for options with profiles. */
qb_status qb_profiles_build(qb_ctx *cx, const qb_graph *graph, const qb_engine_options *options,
                            const char *backends, int threads, qb_engine **out);

#endif
