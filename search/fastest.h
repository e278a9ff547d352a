/* The fastest of all alternatives, whatever accuracy: the precision word `best`. */
#ifndef QB_SEARCH_FASTEST_H
#define QB_SEARCH_FASTEST_H

#include "search/space.h"

/* Chooses for engines of the host among integers, f32 and, where the processor has it, bf16, for
 * each group: what steps take proposes, and whole engines that run against each other decide; what
 * is not clearly faster than all integers is not taken. *graph is the quantized graph (a float one
 * where floats win everywhere), *floats the type of its float groups. Two calls may differ, as
 * their times do. The build of a device decides by itself (mixed precision in engine/tune): there
 * *graph is all integers. */
qb_status qb_fastest(qb_ctx *cx, const qb_space *space, qb_graph **graph, qb_dtype *floats);
#endif
