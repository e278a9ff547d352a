/* From the plan of an engine back to what it chose. */
#ifndef QB_SEARCH_PLAN_CHOICE_H
#define QB_SEARCH_PLAN_CHOICE_H

#include "search/space.h"

/* The alternative of a plan's file (docs/formats/plan.md): a group is float where its row reads no
 * quantized values; a group without a row of its own, which is part of another, is not.
 * out->is_float is new memory. */
qb_status qb_plan_choice(qb_ctx *cx, const char *path, const qb_space *space, qb_alternative *out);
#endif
