/* Values that hold exactly what other values hold, joined or in another order: the outputs of
 * Concat, Reshape, Transpose ... Their statistics are sums of others, so nobody has to look at
 * them; on networks that concatenate this saves a third of the observers' work. */
#ifndef QB_CALIB_UNIONS_H
#define QB_CALIB_UNIONS_H

#include "calib/table.h"
#include "graph/fusion.h"

/* Names are the graph's. */
typedef struct qb_union {
    const char *name;
    int32_t n_parts;
    const char **part; /* one that is there twice counts twice */
} qb_union;

typedef struct qb_unions {
    int32_t n;
    qb_union *item;      /* in execution order: parts may be unions before it */
    const char **sorted; /* their names */
    qb_arena *arena;
} qb_unions;

/* All unions of float values that engines of the graph show for every sample. */
qb_status qb_unions_find(qb_ctx *cx, const qb_graph *graph, const qb_groups *groups,
                         qb_unions *out);
void qb_unions_release(qb_unions *unions); /* accepts zeroed */
bool qb_unions_has(const qb_unions *unions, const char *name);
/* Statistics and extremes of the unions from those of their parts, which the table has. */
void qb_unions_fill(const qb_unions *unions, qb_table *table);
#endif
