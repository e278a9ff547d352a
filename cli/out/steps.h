/* The steps of an engine with their kernels, as `inspect`, `build` and `bench` show them. */
#ifndef QB_CLI_OUT_STEPS_H
#define QB_CLI_OUT_STEPS_H

#include <jansson.h>

#include "engine/engine.h"

/* A list with an object for each step: name, operator, provider, tactic, type, operations, bytes,
 * and what qb_step_choice_json adds. NULL when memory runs out. */
json_t *qb_steps_json(const qb_engine *engine);

/* Prints that list, or the one in an engine file's tags, as a table: a line for each step, and
 * behind those that a GPU timed, or might have run, one with time, alternatives and reasons. */
void qb_steps_print(const json_t *steps);

/* "41 steps in INT8, 15 in FP16, 1 in FP32", of those that compute. */
void qb_steps_summary(const qb_engine *engine, char *text, size_t n);

#endif
