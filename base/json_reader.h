/* Reads JSON (RFC 8259) value by value from memory, so that a file of any size takes no more memory
 * than what the caller keeps. Errors (QB_STATUS_FORMAT) name the file, line and column.
 *
 *     QB_TRY(qb_json_enter(r, QB_JSON_OBJECT));
 *     for (;;) {
 *         QB_TRY(qb_json_next(r, &more));    // reads the key of a member into r->key
 *         if (!more) break;
 *         if (strcmp(r->key, "id") == 0) QB_TRY(qb_json_read_integer(r, &id));
 *         else QB_TRY(qb_json_skip(r));
 *     }
 */
#ifndef QB_BASE_JSON_READER_H
#define QB_BASE_JSON_READER_H

#include <stdint.h>

#include "strbuf.h"

#define QB_JSON_DEPTH_MAX 64 /* objects and lists in one another */

typedef enum qb_json_kind {
    QB_JSON_NOTHING, /* the end, or no value */
    QB_JSON_OBJECT,
    QB_JSON_LIST,
    QB_JSON_STRING,
    QB_JSON_NUMBER,
    QB_JSON_BOOL,
    QB_JSON_NULL
} qb_json_kind;

typedef struct qb_json_reader {
    qb_ctx *cx;
    const char *name;             /* of the file, for messages; not owned */
    const char *begin, *at, *end; /* the text; not owned */
    char key[64];                 /* of the last member; a longer one is cut */
    qb_strbuf text;               /* of the last string, without escapes */
    int32_t depth;                /* objects and lists that are open */
    uint64_t lists;               /* a bit for each of them: a list, not an object */
    bool first;                   /* nothing of the innermost one was read */
} qb_json_reader;

/* At the beginning of n bytes, which need no terminating zero and outlive the reader. */
void qb_json_reader_init(qb_ctx *cx, const char *name, const char *text, size_t n,
                         qb_json_reader *out);
void qb_json_reader_release(qb_json_reader *reader);
/* What comes next, without reading it. */
qb_json_kind qb_json_peek(qb_json_reader *reader);
/* Goes into the object or list that must come next. */
qb_status qb_json_enter(qb_json_reader *reader, qb_json_kind kind);
/* To the next member or element of the innermost object or list, whose value the caller then reads
 * or skips; at its end *more is false and it is left. */
qb_status qb_json_next(qb_json_reader *reader, bool *more);
/* A finite number. */
qb_status qb_json_read_number(qb_json_reader *reader, double *out);
/* A whole number of 64 bits; 3.0 is one. */
qb_status qb_json_read_integer(qb_json_reader *reader, int64_t *out);
/* A string without control characters, into reader->text. */
qb_status qb_json_read_text(qb_json_reader *reader);
/* true, false, or a number that is not 0. */
qb_status qb_json_read_bool(qb_json_reader *reader, bool *out);
/* Passes over one value of any kind. */
qb_status qb_json_skip(qb_json_reader *reader);
/* Nothing but white space is left? */
qb_status qb_json_read_end(qb_json_reader *reader);
/* An error at the current position. */
qb_status qb_json_fail(qb_json_reader *reader, const char *fmt, ...) QB_PRINTF(2, 3);
#endif
