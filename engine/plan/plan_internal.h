/* The plan of an engine: all that a build decides, as data. A table of rows for each set of shapes
 * that it is tuned for, one row for each fused group of nodes and one for each copy between two
 * layouts. Rows are found by the name of the value that they make, never by their position, so that
 * a plan can be read, edited by hand, and realized again (engine/realize). A plan owns all that it
 * points to, and nothing in it belongs to an engine. One object belongs to one thread at a time. */
#ifndef QB_ENGINE_PLAN_INTERNAL_H
#define QB_ENGINE_PLAN_INTERNAL_H

#include <jansson.h>

#include "base/arena.h"
#include "base/index.h"
#include "base/strbuf.h"
#include "engine/engine.h"

#define QB_PLAN_SCHEMA "qbench.plan/1"
#define QB_PROFILES_MAX 16

/* How a tensor lies in memory. */
typedef struct qb_plan_layout {
    qb_dtype dtype; /* NONE: there is no such tensor */
    qb_layout layout;
    int64_t channel_offset, channel_total; /* as in qb_desc */
} qb_plan_layout;

typedef struct qb_plan_row {
    const char *value;  /* that the group makes, or that is copied */
    const char *op;     /* "Conv+Relu", "quantize" */
    const char *tactic; /* "cpu.conv_s8.vnni"; "node" for the operator's eval, "alias" for none */
    int32_t variant;    /* as in qb_problem */
    bool is_copy;       /* told apart from others of the value by `in`, `out` and on_device */
    bool on_device;
    qb_dtype precision; /* the type it computes in */
    int32_t n_in;
    const qb_plan_layout *in; /* [n_in] */
    qb_plan_layout out;       /* of the first result */
    const char *fuses;        /* the value of the group before it that is part of it; NULL */
    double seconds;           /* measured, 0: not */
    int32_t n_alternatives;
    const qb_step_alternative *alternatives; /* that were measured; the chosen tactic among them */
    const char *fallback_reason, *f16_reason, *fuse_reason, *note, *tactic_reason; /* or NULL */
} qb_plan_row;

/* The rows for one set of shapes. What they are found by (`value`, `fuses`, and of copies `in`,
 * `out` and `on_device`) does not change. */
typedef struct qb_plan_table {
    int64_t parts; /* a run goes this often through all steps, each time with other items */
    int32_t n_rows;
    qb_plan_row *rows;
    size_t capacity;
    qb_index index; /* of the rows, see plan_index.c */
} qb_plan_table;

typedef struct qb_plan {
    qb_arena *arena;
    qb_build_spec spec; /* it was made for: resolved, without timing cache; shapes or profiles are
                           the plan's */
    int32_t n_inputs;
    bool dequantized; /* it is of the graph without its quantization (graph/dequantize.h) */
    int32_t n_tables; /* 1, or one for each profile of the spec */
    qb_plan_table table[QB_PROFILES_MAX];
} qb_plan;

/* An empty plan with one table for a resolved spec, whose text and shapes (of n_inputs inputs) are
 * copied. */
qb_status qb_plan_create(qb_ctx *cx, const qb_build_spec *spec, int32_t n_inputs, qb_plan **out);
void qb_plan_free(qb_plan *plan); /* accepts NULL */
QB_RELEASE_AT(qb_plan, qb_plan_free)
/* Adds a copy of the row; *index (NULL: not asked for) is where. */
qb_status qb_plan_add(qb_ctx *cx, qb_plan *plan, qb_plan_table *table, const qb_plan_row *row,
                      int32_t *index);
/* A copy of another plan's table becomes this plan's. */
qb_status qb_plan_set_table(qb_ctx *cx, qb_plan *plan, int32_t index, const qb_plan_table *from);

qb_plan_layout qb_plan_layout_of(const qb_desc *desc);
bool qb_plan_layout_equal(const qb_plan_layout *a, const qb_plan_layout *b);
/* "u8:nhwc@0/64"; "-" where there is none. */
const char *qb_plan_layout_text(const qb_plan_layout *layout, char *text, size_t n);

/* engine/plan/plan_index.c: finding rows, in a time that does not depend on how many there are. The
 * first of several that are alike. */
/* The row of the group that makes the value, -1. */
int32_t qb_plan_find(const qb_plan_table *table, const char *value);
/* The row of a copy like this one, -1. */
int32_t qb_plan_find_copy(const qb_plan_table *table, const qb_plan_row *like);
/* The row that has made the value part of itself, -1. */
int32_t qb_plan_find_fused(const qb_plan_table *table, const char *value);
/* Enters the last row of the table. */
qb_status qb_plan_index_add(qb_ctx *cx, qb_plan_table *table);

/* engine/plan/plan_json.c: schema qbench.plan/1 (docs/formats/schema/plan.json). The same plan
 * gives the same text. `names`: [n_inputs] of the inputs. */
qb_status qb_plan_write(qb_ctx *cx, const qb_plan *plan, const char *const *names, qb_strbuf *out);
/* Such a text with each key on a line of its own, new memory. */
qb_status qb_plan_indent(qb_ctx *cx, const char *path, const char *text, size_t size, char **out);
/* The same from a file. */
qb_status qb_plan_load(qb_ctx *cx, const char *path, qb_plan **out);
/* Was it made for this spec, which is resolved? QB_STATUS_USAGE says what differs. */
qb_status qb_plan_check_spec(qb_ctx *cx, const qb_plan *plan, const qb_build_spec *spec);
/* From such a text; errors (QB_STATUS_FORMAT) name `path` and the row. */
qb_status qb_plan_read(qb_ctx *cx, const char *path, const char *text, size_t size, qb_plan **out);

#endif
