/* A step's choice of kernel as JSON, for engine files and for who prints engines. */
#ifndef QB_ENGINE_STEP_JSON_H
#define QB_ENGINE_STEP_JSON_H

#include <jansson.h>

#include "engine/engine.h"

/* Adds to `step` what was measured when its kernel was chosen on a device ("us", "tops",
 * "gb_per_s", "alternatives" with their "us") and the reasons that there are ("half", "fallback",
 * "in_place", "joined", "note"; see qb_step_info). Nothing for a step without any. */
void qb_step_choice_json(const qb_step_info *info, json_t *step);
#endif
