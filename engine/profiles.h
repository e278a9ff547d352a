/* Engines for ranges of shapes. A profile names the smallest, the usual and the largest shape of
 * each input. Kernels are chosen and weights packed for the usual shapes; other shapes inside get a
 * plan of their own when they are first asked for. Plans share the packed weights, lie in a bounded
 * cache, and run in the one block of memory of a context, which is large enough for the largest
 * shapes from the start.
 *
 * Such an engine is itself the plan for the usual shapes of its first profile: whoever asks for its
 * inputs, steps and memory learns those, and a new context begins with them. */
#ifndef QB_ENGINE_PROFILES_H
#define QB_ENGINE_PROFILES_H

#include "engine/engine.h"

/* 0 for an engine of fixed shapes. */
int32_t qb_engine_n_profiles(const qb_engine *engine);
const qb_profile *qb_engine_profile(const qb_engine *engine, int32_t profile);

/* The plan for these shapes, one an input: an engine in its own right whose weights belong to
 * `engine`, which must outlive it; the engine itself when the shapes are its own. It has the
 * tactics of the profile whose usual shapes these are, else of the one of the fewest shapes that
 * holds them, of equal ones the first. The error for shapes outside (QB_STATUS_INVALID) names
 * input, axis, value and range; an engine of fixed shapes takes its own. Any thread; one makes a
 * plan at a time. Give it back with qb_engine_release once no context runs it. */
qb_status qb_engine_at(qb_ctx *cx, const qb_engine *engine, const qb_shape *shapes,
                       const qb_engine **plan);
/* The same with the tactics of a given profile (-1: as above), which must hold the shapes; the
 * engine itself is the plan for the usual ones of profile 0. */
qb_status qb_engine_at_profile(qb_ctx *cx, const qb_engine *engine, int32_t profile,
                               const qb_shape *shapes, const qb_engine **plan);
void qb_engine_release(const qb_engine *plan); /* accepts NULL */
QB_RELEASE_AT(const qb_engine, qb_engine_release)
/* Plans that are kept at the moment, for any shapes but those of the engine itself. */
int32_t qb_engine_n_plans(const qb_engine *engine);

/* Runs of the context take these shapes from now on. On failure it keeps those that it had. Costs
 * nothing when they are the same; a plan that is in the cache takes microseconds. */
qb_status qb_context_set_shapes(qb_ctx *cx, qb_context *context, const qb_shape *shapes);
/* The plan at work: its inputs and outputs have the shapes of now. Valid until the next
 * qb_context_set_shapes. */
const qb_engine *qb_context_engine(const qb_context *context);
/* Bytes that the context holds. */
size_t qb_context_bytes(const qb_context *context);
#endif
