/* What a search chooses among: the groups of a model that can compute in integers, each of which
 * may stay in float instead, and the type of the floats.
 *
 * An alternative is a quantized graph of its own, and its engine is tuned and realized like any
 * other: conversions, fused groups and layouts are those that it really has. */
#ifndef QB_SEARCH_SPACE_H
#define QB_SEARCH_SPACE_H

#include "engine/engine.h"
#include "quant/quant.h"

/* One way to quantize all of the model: plain ranges, or what makes INT8 itself better. An
 * alternative names one by its number. Not owned; what it points to outlives the space. */
typedef struct qb_space_way {
    const char *name;      /* "int8:entropy" */
    const qb_graph *graph; /* optimized, float; values have the same names in all ways */
    const qb_table *table;
    qb_quant_options options;
} qb_space_way;

/* A group whose precision is chosen. */
typedef struct qb_space_group {
    const char *value; /* that it makes: its key in plans */
    const char *node;  /* its first node's name; "" where it has none */
    const char *op;    /* "Conv" */
} qb_space_group;

/* One group reads what another one makes, perhaps through groups that only move values. */
typedef struct qb_space_edge {
    int32_t from, to;
    double elements; /* of an item; 0: not known before shapes are */
} qb_space_edge;

typedef struct qb_space {
    const qb_space_way *way;
    int32_t n_ways;
    qb_build_spec spec; /* of every engine, but for float_type */
    int32_t n;
    qb_space_group *group; /* in the order of execution */
    int32_t n_edges;
    qb_space_edge *edge;
    qb_arena *arena; /* of all of that */
} qb_space;

/* `is_float` has an entry for each group. */
typedef struct qb_alternative {
    bool *is_float;
    qb_dtype floats; /* F32, or BF16 on the host, F16 on a device */
    int32_t way;
} qb_alternative;

/* The groups are those that qb_quantize puts into integers by the first way. `spec` is copied; what
 * it points to outlives the space. */
qb_status qb_space_create(qb_ctx *cx, const qb_space_way *ways, int32_t n_ways,
                          const qb_build_spec *spec, qb_space **out);
void qb_space_free(qb_space *space); /* accepts NULL */

/* The alternative of a plan's file (docs/formats/plan.md): a group is float where its row reads no
 * quantized values; a group without a row of its own, which is part of another, is not.
 * out->is_float is new memory. */
qb_status qb_plan_choice(qb_ctx *cx, const char *path, const qb_space *space, qb_alternative *out);

/* The quantized graph of an alternative. */
qb_status qb_space_quantize(qb_ctx *cx, const qb_space *space, const qb_alternative *alternative,
                            qb_graph **out);
/* What its engine is built with. */
qb_build_spec qb_space_spec(const qb_space *space, const qb_alternative *alternative);
/* Both together. */
qb_status qb_space_build(qb_ctx *cx, const qb_space *space, const qb_alternative *alternative,
                         qb_engine **out);
/* How many of its groups are float. */
int32_t qb_space_count_float(const qb_space *space, const qb_alternative *alternative);
#endif
