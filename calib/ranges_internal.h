/* What the formats share. */
#ifndef QB_CALIB_RANGES_INTERNAL_H
#define QB_CALIB_RANGES_INTERNAL_H

#include <jansson.h>

#include "calib/ranges.h"

/* One line of a text, without its end. */
typedef struct qb_line {
    const char *text;
    size_t n;
    int64_t number; /* from 1 */
} qb_line;
/* Takes the next line off [*at, end); starts from a zeroed line. False at the end. */
bool qb_line_next(const char **at, const char *end, qb_line *line);
/* qb_ranges_add of the symmetric range to amax, which this line gives the name in its first n
 * bytes. */
qb_status qb_ranges_add_line(qb_ctx *cx, qb_ranges *ranges, const qb_line *line, size_t n,
                             double amax);
/* A number that fills n bytes but for blanks around it. */
bool qb_line_number(const char *text, size_t n, double *out);

/* The range of this name; NULL: none. */
const qb_named_range *qb_ranges_find(const qb_ranges *ranges, const char *name);
/* The largest magnitude: what formats of symmetric ranges store. */
double qb_named_range_amax(const qb_named_range *range);
/* A name that a line can hold: QB_STATUS_UNSUPPORTED when control characters are in it. */
qb_status qb_ranges_check_line_name(qb_ctx *cx, const char *name);

/* Parses JSON that must be an object; the caller drops the reference. */
qb_status qb_ranges_parse_json(qb_ctx *cx, const char *bytes, size_t size, json_t **out);
/* Writes {name: value(range)} for all ranges into `root` under `key` and appends root's text. Takes
 * the reference to root. */
qb_status qb_ranges_write_json(qb_ctx *cx, const qb_ranges *ranges, json_t *root, const char *key,
                               json_t *(*value)(const qb_named_range *range), qb_strbuf *out);
/* Does the text begin like JSON and hold this word? */
bool qb_ranges_is_json_with(const char *bytes, size_t size, const char *word);

#endif
