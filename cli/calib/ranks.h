/* The processes that mpirun started beside this one. */
#ifndef QB_CLI_CALIB_RANKS_H
#define QB_CLI_CALIB_RANKS_H

#include "calib/distribute.h"

/* One process of its own: rank 0 of 1. Otherwise (mpirun set the environment) loads the MPI module
 * that was built with the program and joins; QB_STATUS_UNSUPPORTED where there is none. The first
 * process speaks for all: others log warnings alone. A rank that ends without qb_ranks_leave makes
 * mpirun end the others. */
qb_status qb_ranks_join(qb_ctx *cx, qb_ranks *out);
void qb_ranks_leave(const qb_ranks *ranks);

/* "2/5": part 2 of 5, at most `most`; NULL leaves both alone. */
qb_status qb_shard_parse(qb_ctx *cx, const char *text, int32_t most, int32_t *shard,
                         int32_t *shards);

#endif
