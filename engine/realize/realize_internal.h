/* From a plan to an engine. */
#ifndef QB_ENGINE_REALIZE_REALIZE_INTERNAL_H
#define QB_ENGINE_REALIZE_REALIZE_INTERNAL_H

#include "engine/engine_internal.h"
#include "engine/plan/plan_internal.h"

/* The engine that the plan says, of the bound graph (taken over, also on failure): decides nothing
 * and times nothing. Steps follow the plan's first table; the engine owns the plan, but not on
 * failure. Constants are not packed, but have their places: `packed` stays NULL. `plans` (NULL:
 * none) are those that it is for or one of; `compiled` (NULL on the host) has what was compiled for
 * its kernels, and takes what has to be. QB_STATUS_MISMATCH names a row that cannot be had, and
 * why. */
qb_status qb_realize(qb_ctx *cx, qb_graph *graph, qb_plan *plan, qb_plans *plans,
                     qb_compiled *compiled, qb_engine **out);
/* The graph bound for the plan's shapes, or for a part of their batch; `share`: its constants are
 * those of `graph`, which outlives it. */
qb_status qb_plan_bind(qb_ctx *cx, const qb_graph *graph, const qb_plan *plan, bool share,
                       qb_graph **out);
/* The same of a graph that is bound now for the plan's shapes, or for a part of their batch; its
 * constants are shared where there are plans, which own them. */
qb_status qb_plan_realize(qb_ctx *cx, const qb_graph *graph, qb_plan *plan, qb_plans *plans,
                          qb_compiled *compiled, qb_engine **out);
/* Queries, keys and values that are one product at the usual shapes of the first profile become one
 * in the graph of all plans. */
qb_status qb_plan_fuse_products(qb_ctx *cx, qb_plans *plans);

#endif
