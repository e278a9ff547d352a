/* Ranges as other tools store them: by name, without statistics. One row in formats.def and one
 * file in formats/ for each tool's file; docs/formats/foreign.md describes them. */
#ifndef QB_CALIB_RANGES_H
#define QB_CALIB_RANGES_H

#include "base/strbuf.h"
#include "calib/table.h"
#include "graph/graph.h"

#define QB_RANGES_FILE_LIMIT ((size_t)64 << 20)

typedef struct qb_named_range {
    char *name;    /* of a tensor, or of the layer that reads it */
    double lo, hi; /* finite, lo <= hi */
    int64_t line;  /* of the file that gave it; 0: not from a file of lines */
} qb_named_range;

typedef struct qb_ranges {
    int32_t n;
    size_t capacity;
    qb_named_range *item;
} qb_ranges;

typedef struct qb_calib_format {
    const char *name;    /* "trt" */
    const char *summary; /* one line for the help */
    const char *suffix;  /* of the files' names, ".calib" */
    bool by_layer;       /* names are those of the layers that read the tensors */
    bool wants_graph;    /* `write` looks at the weights */
    /* Could the bytes be of this format? */
    bool (*probe)(const char *bytes, size_t size);
    /* Appends to `out`, which the caller releases also on failure. */
    qb_status (*read)(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out);
    /* `graph` may be NULL unless wants_graph. */
    qb_status (*write)(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph, qb_strbuf *out);
} qb_calib_format;

const qb_calib_format *const *qb_calib_formats(int32_t *n);
/* By name; QB_STATUS_USAGE listing the known ones. */
qb_status qb_calib_format_find(qb_ctx *cx, const char *name, const qb_calib_format **out);

/* Adds a range; the name (n bytes) is copied. Bounds that are not finite or not in order and names
 * that are empty or too long are QB_STATUS_FORMAT. */
qb_status qb_ranges_add(qb_ctx *cx, qb_ranges *ranges, const char *name, size_t n, double lo,
                        double hi);
void qb_ranges_release(qb_ranges *ranges); /* accepts a zeroed one */

/* Reads a file. `*format` NULL: found out, and set. Errors name the file and the place. A name that
 * is there twice with different ranges is QB_STATUS_FORMAT: which of them counted where the file
 * was used cannot be told. */
qb_status qb_ranges_load(qb_ctx *cx, const char *path, const qb_calib_format **format,
                         qb_ranges *out);
/* The same from memory; `name` for messages. */
qb_status qb_ranges_parse(qb_ctx *cx, const char *name, const char *bytes, size_t size,
                          const qb_calib_format **format, qb_ranges *out);
/* Writes a file. Atomic; same ranges, same bytes. */
qb_status qb_ranges_save(qb_ctx *cx, const qb_ranges *ranges, const qb_calib_format *format,
                         const qb_graph *graph, const char *path);

/* How ranges and a model fit. The lists hold names that live as long as graph and ranges. */
typedef struct qb_ranges_fit {
    int32_t used;                  /* tensors that got a range */
    const char **missing, **extra; /* read by a layer but without a range; not in the model */
    int32_t n_missing, n_extra;
} qb_ranges_fit;
void qb_ranges_fit_release(qb_ranges_fit *fit); /* accepts a zeroed one */

/* A table (without statistics, by one method called "import:FORMAT") of the graph's tensors that
 * have a range. When less than a tenth of the names are the graph's, the file belongs to another
 * model: QB_STATUS_MISMATCH naming both (`file` is the ranges' name). `fit` is set on success. */
qb_status qb_ranges_to_table(qb_ctx *cx, const qb_ranges *ranges, const qb_calib_format *format,
                             const char *file, const qb_graph *graph, qb_table **out,
                             qb_ranges_fit *fit);
/* The graph's values get the largest magnitude that the table's run saw of them, or that an
 * imported range allows: an engine of f16 floats keeps steps in f32 by it. */
void qb_table_note_largest(const qb_table *table, qb_graph *graph);
/* The ranges of a table by method number `method`. */
qb_status qb_ranges_of_table(qb_ctx *cx, const qb_table *table, int32_t method, qb_ranges *out);
#endif
