/* Structures described by tables, written as JSON objects and read back: one row a key. */
#ifndef QB_EVAL_RECORD_INTERNAL_H
#define QB_EVAL_RECORD_INTERNAL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ctx.h"

typedef enum qb_field_type {
    QB_FIELD_TEXT,    /* char *, owned; no control characters */
    QB_FIELD_HASH,    /* qb_hash, 32 hexadecimal digits */
    QB_FIELD_DOUBLE,  /* null: NaN; never infinite */
    QB_FIELD_LEVEL,   /* the same, may be "inf" or "-inf" */
    QB_FIELD_SCORE,   /* the same, absent instead of null */
    QB_FIELD_INT64,   /* 0 or more */
    QB_FIELD_INT32,   /* 0 or more */
    QB_FIELD_CLASS,   /* int32_t, -1 or more */
    QB_FIELD_OBJECT,  /* a structure at the offset, described by `record` */
    QB_FIELD_LIST,    /* a pointer to `record` structures, counted by an int32_t at `count` */
    QB_FIELD_DOUBLES, /* a pointer to doubles, counted likewise */
} qb_field_type;

struct qb_record;

typedef struct qb_field {
    const char *key;
    qb_field_type type;
    size_t offset;
    const struct qb_record *record;
    size_t count;
    int32_t least, most; /* elements of a list */
    bool optional;       /* may be absent: NaN, 0, "" or an empty list then */
} qb_field;

typedef struct qb_record {
    size_t size;           /* of the structure; 0: its fields are those of the outer one */
    const qb_field *field; /* ends with a key of NULL */
} qb_record;

/* A new JSON object; NULL when a text is missing or not UTF-8, or memory runs out. */
json_t *qb_record_write(const qb_record *record, const void *object);
/* Fills `object`, which comes zeroed. What was read before an error is released by
 * qb_record_release. Errors: QB_STATUS_FORMAT with `name` (a file) and the key. */
qb_status qb_record_read(qb_ctx *cx, const char *name, const json_t *json, const qb_record *record,
                         void *object);
/* Frees texts and lists; not the object. */
void qb_record_release(const qb_record *record, void *object);
/* Makes all texts of a record clean (base/text.h); each is memory of its own. */
qb_status qb_record_clean(qb_ctx *cx, const qb_record *record, void *object);

#endif
