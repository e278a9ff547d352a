/* A calibration spread over processes: each gathers its share of the samples, and the tables travel
 * to the first one. The transport (MPI) is a module of its own, calib/distribute.c, which a program
 * loads where it was started by mpirun and only there. */
#ifndef QB_CALIB_DISTRIBUTE_H
#define QB_CALIB_DISTRIBUTE_H

#include <stddef.h>
#include <stdint.h>

#include "calib/table.h"

/* The processes of a run and how bytes get from one to another. */
typedef struct qb_ranks {
    int32_t rank, size;
    /* Both give 0 on success. What is received is the caller's, to be freed with free(). */
    int (*send)(int32_t to, const void *bytes, size_t n);
    int (*receive)(int32_t from, void **bytes, size_t *n);
    void (*finish)(void); /* the last call */
} qb_ranks;

/* What the module exports under this name: joins the other processes; 0 on success. */
#define QB_RANKS_START "qb_ranks_start"
typedef int (*qb_ranks_start_fn)(qb_ranks *out);
int qb_ranks_start(qb_ranks *out);

/* Merges the tables of all ranks, pair by pair (a tree of log2(size) steps), in rank 0; *table
 * becomes the whole there and NULL elsewhere. *table may be NULL where a rank had no samples. Every
 * rank calls this once. */
qb_status qb_ranks_reduce(qb_ctx *cx, const qb_ranks *ranks, qb_table **table);
#endif
