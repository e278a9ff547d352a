#include "eval/record_internal.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/json_clean.h"
#include "base/text.h"

static void *at(const void *object, size_t offset) { return (char *)(uintptr_t)object + offset; }

/* ---- writing ---- */

/* JSON has no infinities: "inf" as a string; what was not measured is null. */
static json_t *number(double value) {
    if (isnan(value)) return json_null();
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real(value);
}

static json_t *write_list(const qb_field *f, const void *object) {
    const void *list = *(void *const *)at(object, f->offset);
    const int32_t n = *(const int32_t *)at(object, f->count);
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(
            array,
            f->type == QB_FIELD_DOUBLES
                ? number(((const double *)list)[i])
                : qb_record_write(f->record, (const char *)list + (size_t)i * f->record->size));
    if (json_array_size(array) == (size_t)n) return array;
    json_decref(array);
    return NULL;
}

static json_t *write_value(const qb_field *f, const void *object) {
    const void *value = at(object, f->offset);
    char hex[33];
    switch (f->type) {
    case QB_FIELD_TEXT: return qb_json_text(*(char *const *)value);
    case QB_FIELD_HASH: qb_hash_hex(*(const qb_hash *)value, hex); return json_string(hex);
    case QB_FIELD_DOUBLE:
    case QB_FIELD_SCORE:
    case QB_FIELD_LEVEL: return number(*(const double *)value);
    case QB_FIELD_INT64: return json_integer(*(const int64_t *)value);
    case QB_FIELD_INT32:
    case QB_FIELD_CLASS: return json_integer(*(const int32_t *)value);
    case QB_FIELD_OBJECT: return qb_record_write(f->record, value);
    case QB_FIELD_LIST:
    case QB_FIELD_DOUBLES: return write_list(f, object);
    }
    return NULL;
}

/* Optional texts and lists that say nothing. */
static bool is_empty(const qb_field *f, const void *object) {
    if (f->type == QB_FIELD_SCORE) return isnan(*(const double *)at(object, f->offset));
    if (!f->optional) return false;
    if (f->type == QB_FIELD_LIST || f->type == QB_FIELD_DOUBLES)
        return *(const int32_t *)at(object, f->count) == 0;
    if (f->type != QB_FIELD_TEXT) return false;
    const char *text = *(char *const *)at(object, f->offset);
    return !text || text[0] == '\0';
}

json_t *qb_record_write(const qb_record *record, const void *object) {
    json_t *out = json_object();
    for (const qb_field *f = record->field; f->key; f++) {
        if (is_empty(f, object)) continue;
        if (json_object_set_new(out, f->key, write_value(f, object)) == 0) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

/* ---- reading ---- */

typedef struct reader {
    qb_ctx *cx;
    const char *name;
} reader;

static qb_status bad(const reader *r, const char *key, const char *expected) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: %s: expected %s", r->name, key, expected);
}

static qb_status read_text(const reader *r, const qb_field *f, const json_t *value, char **out) {
    const char *text = json_string_value(value);
    if (!text && !(f->optional && !value)) return bad(r, f->key, "a string");
    *out = qb_text_clean(r->cx, text ? text : ""); /* it goes to terminals and into plots */
    return *out ? QB_OK : r->cx->code;
}

static qb_status read_double(const reader *r, const qb_field *f, const json_t *value, double *out) {
    const bool score = f->type == QB_FIELD_SCORE;
    const char *text = f->type == QB_FIELD_LEVEL || score ? json_string_value(value) : NULL;
    if (json_is_null(value) || ((f->optional || score) && !value))
        *out = NAN;
    else if (json_is_number(value))
        *out = json_number_value(value);
    else if (text && strcmp(text, "inf") == 0)
        *out = INFINITY;
    else if (text && strcmp(text, "-inf") == 0)
        *out = -INFINITY;
    else
        return bad(r, f->key,
                   f->type == QB_FIELD_LEVEL || score ? "a number, null, \"inf\" or \"-inf\""
                                                      : "a number or null");
    return QB_OK;
}

static qb_status read_integer(const reader *r, const qb_field *f, const json_t *value, void *out) {
    if (f->optional && !value) return QB_OK; /* stays 0 */
    const json_int_t least = f->type == QB_FIELD_CLASS ? -1 : 0, number = json_integer_value(value);
    if (!json_is_integer(value) || number < least)
        return bad(r, f->key, least < 0 ? "an integer, -1 or more" : "an integer, 0 or more");
    if (f->type == QB_FIELD_INT64)
        *(int64_t *)out = number;
    else if (number > INT32_MAX)
        return bad(r, f->key, "an integer of 31 bits");
    else
        *(int32_t *)out = (int32_t)number;
    return QB_OK;
}

static qb_status read_element(const reader *r, const qb_field *f, const json_t *json, void *list,
                              size_t i) {
    const qb_field one = {.key = f->key, .type = QB_FIELD_DOUBLE};
    if (f->type == QB_FIELD_DOUBLES) return read_double(r, &one, json, (double *)list + i);
    if (!json_is_object(json)) return bad(r, f->key, "a list of objects");
    return qb_record_read(r->cx, r->name, json, f->record, (char *)list + i * f->record->size);
}

static qb_status read_list(const reader *r, const qb_field *f, const json_t *value, void *object) {
    const size_t n = json_array_size(value);
    if (f->optional && !value) return QB_OK;
    if (!json_is_array(value) || n < (size_t)f->least || n > (size_t)f->most) {
        char expected[64];
        snprintf(expected, sizeof expected, "a list of %d to %d", f->least, f->most);
        return bad(r, f->key, expected);
    }
    const size_t each = f->type == QB_FIELD_DOUBLES ? sizeof(double) : f->record->size;
    void *list = QB_NEW(r->cx, qb_alloc(r->cx, n, each));
    *(void **)at(object, f->offset) = list;
    *(int32_t *)at(object, f->count) = (int32_t)n;
    for (size_t i = 0; i < n; i++) QB_TRY(read_element(r, f, json_array_get(value, i), list, i));
    return QB_OK;
}

static qb_status read_value(const reader *r, const qb_field *f, const json_t *value, void *object) {
    void *out = at(object, f->offset);
    switch (f->type) {
    case QB_FIELD_TEXT: return read_text(r, f, value, out);
    case QB_FIELD_HASH:
        if (!json_is_string(value) || !qb_hash_parse(json_string_value(value), out))
            return bad(r, f->key, "32 hexadecimal digits");
        return QB_OK;
    case QB_FIELD_DOUBLE:
    case QB_FIELD_SCORE:
    case QB_FIELD_LEVEL: return read_double(r, f, value, out);
    case QB_FIELD_INT64:
    case QB_FIELD_INT32:
    case QB_FIELD_CLASS: return read_integer(r, f, value, out);
    case QB_FIELD_OBJECT:
        if (value && !json_is_object(value)) return bad(r, f->key, "an object");
        return qb_record_read(r->cx, r->name, value, f->record, out);
    case QB_FIELD_LIST:
    case QB_FIELD_DOUBLES: return read_list(r, f, value, object);
    }
    return QB_OK;
}

qb_status qb_record_read(qb_ctx *cx, const char *name, const json_t *json, const qb_record *record,
                         void *object) {
    const reader r = {cx, name};
    for (const qb_field *f = record->field; f->key; f++)
        QB_TRY(read_value(&r, f, json_object_get(json, f->key), object));
    return QB_OK;
}

/* ---- release ---- */

static qb_status clean_text(qb_ctx *cx, char **slot) {
    if (!*slot || qb_text_is_clean(*slot)) return QB_OK;
    char *clean = QB_NEW(cx, qb_text_clean(cx, *slot));
    qb_free(*slot);
    *slot = clean;
    return QB_OK;
}

qb_status qb_record_clean(qb_ctx *cx, const qb_record *record, void *object) {
    for (const qb_field *f = record->field; f->key; f++) {
        void *slot = at(object, f->offset);
        if (f->type == QB_FIELD_OBJECT) QB_TRY(qb_record_clean(cx, f->record, slot));
        if (f->type == QB_FIELD_TEXT) QB_TRY(clean_text(cx, slot));
        if (f->type != QB_FIELD_LIST) continue;
        char *list = *(char **)slot;
        for (int32_t i = 0; list && i < *(int32_t *)at(object, f->count); i++)
            QB_TRY(qb_record_clean(cx, f->record, list + (size_t)i * f->record->size));
    }
    return QB_OK;
}

void qb_record_release(const qb_record *record, void *object) {
    for (const qb_field *f = record->field; f->key; f++) {
        void *slot = at(object, f->offset);
        if (f->type == QB_FIELD_OBJECT) qb_record_release(f->record, slot);
        if (f->type == QB_FIELD_TEXT || f->type == QB_FIELD_DOUBLES) qb_free(*(void **)slot);
        if (f->type != QB_FIELD_LIST) continue;
        char *list = *(char **)slot;
        for (int32_t i = 0; list && i < *(int32_t *)at(object, f->count); i++)
            qb_record_release(f->record, list + (size_t)i * f->record->size);
        qb_free(list);
    }
}
