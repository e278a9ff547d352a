/* The nodes of an engine whose sizes only a run knows: they run on the host, behind everything that
 * was planned. */
#ifndef QB_ENGINE_TAIL_H
#define QB_ENGINE_TAIL_H

#include "engine/engine_internal.h"
#include "graph/evaluate.h"
#include "graph/late_groups.h"

/* No value of a tail takes more bytes: sizes come with the data. */
#define QB_TAIL_VALUE_MAX ((size_t)1 << 30)

/* What builds and runs engines of groups: it lies above these files. */
typedef struct qb_tail_engines {
    qb_status (*build)(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                       qb_engine **out);
    qb_status (*prepare)(qb_ctx *cx, const qb_engine *engine, qb_workers *workers,
                         const qb_shape *shapes, qb_context **context); /* qb_context_prepare */
    qb_status (*run)(qb_ctx *cx, qb_context *context, const void *const *inputs,
                     void *const *outputs);
    void (*free_context)(qb_context *context);
    void (*free)(qb_engine *engine);
} qb_tail_engines;

/* What makes a tail, beside the engine before it. */
typedef struct qb_tail_parts {
    qb_graph *graph; /* inputs: outputs and inputs of the engine, by their names */
    int32_t *from;   /* [n_outputs] the engine's output, or -1 - the graph's */
    int32_t n_outputs;
    const char *max_sizes; /* as in the build spec; NULL: nothing is told */
} qb_tail_parts;

/* Gives the engine its tail, which takes over graph and from, also on failure. The engine then has
 * the tail's outputs, each at most as large as qb_graph_bound says. `engines` stays. */
qb_status qb_tail_attach(qb_ctx *cx, qb_engine *engine, const qb_tail_parts *parts,
                         const qb_tail_engines *engines);
const qb_tail_parts *qb_tail_parts_of(const struct qb_tail *tail);
void qb_tail_free(struct qb_tail *tail); /* accepts NULL */

/* What a context needs for it: memory for the head's outputs. */
typedef struct qb_tail_run {
    const qb_engine *engine;
    void **head;     /* [n_outputs of the head] */
    qb_shape *shape; /* of each output of the last run */
    struct qb_tail_groups_run *groups;
    double seconds; /* that its nodes took */
} qb_tail_run;
/* `workers`: the context's, which outlive it. */
qb_status qb_tail_run_create(qb_ctx *cx, const qb_engine *engine, qb_workers *workers,
                             qb_tail_run **out);
void qb_tail_run_free(qb_tail_run *run); /* accepts NULL */
QB_RELEASE_AT(qb_tail_run, qb_tail_run_free)
/* After the head ran into run->head: the engine's outputs (NULL: not wanted), zeros behind what is
 * there. */
qb_status qb_tail_run_nodes(qb_ctx *cx, qb_tail_run *run, const void *const *inputs,
                            void *const *outputs);

/* ---- engine/run/tail_groups.c: groups that do much run in engines ---------------------------- */

/* Of a tail's graph, swept, and a copy without quantization, which must outlive it; with threads
 * and backends of its head. Any number of runs may share it. *out is to be freed also after a
 * failure. */
struct qb_tail_groups;
qb_status qb_tail_groups_create(qb_ctx *cx, const qb_engine *head, const qb_tail_parts *parts,
                                const qb_graph *floats, const qb_tail_engines *engines,
                                struct qb_tail_groups **out);
void qb_tail_groups_free(struct qb_tail_groups *groups); /* accepts NULL */
/* The largest shapes of values of the graph, by --max-size; rank -1: not told. What they say holds
 * in runs. NULL: nothing is told. */
const qb_shape *qb_tail_most(const struct qb_tail_groups *groups);

/* What one context needs for them: contexts of their engines, and memory for their outputs. *out is
 * to be freed also after a failure. */
struct qb_tail_groups_run;
qb_status qb_tail_groups_run_create(qb_ctx *cx, struct qb_tail_groups *groups, qb_workers *workers,
                                    struct qb_tail_groups_run **out);
void qb_tail_groups_run_free(struct qb_tail_groups_run *run); /* accepts NULL */
/* All nodes of `graph`, a copy of the one without quantization whose inputs are constant: its
 * values become constant, but for those within groups. Some lie in `run`, until it runs again. */
qb_status qb_tail_groups_run(qb_ctx *cx, struct qb_tail_groups_run *run, qb_graph *graph);
/* Groups that an engine ran in the last run. */
int32_t qb_tail_groups_planned(const struct qb_tail_groups_run *run);

#endif
