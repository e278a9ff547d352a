/* What the files that plan memory share. */
#ifndef QB_ENGINE_REALIZE_PLANNER_INTERNAL_H
#define QB_ENGINE_REALIZE_PLANNER_INTERNAL_H

#include "engine/engine_internal.h"

/* Bytes that a buffer takes in the arena. */
size_t qb_plan_padded(size_t bytes);
/* engine/realize/memory_sweep.c: offsets for buffers in the order of their first steps; *end is
 * where the highest one ends. Takes more memory than a search, and no more time for each of many
 * buffers than for one of a few. */
qb_status qb_plan_sweep(qb_ctx *cx, qb_buffer *const *order, int32_t n, size_t *end);

#endif
