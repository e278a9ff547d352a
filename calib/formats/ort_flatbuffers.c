/* onnxruntime's calibration.flatbuffers, which its TensorRT provider reads:
 *   table TrtTable { dict: [KeyValue]; }   table KeyValue { key: string; value: string; }
 * with amax as decimal text and keys in order. FlatBuffers: little endian; a reference is the
 * distance forward to its target; a table begins with the distance back to a list of u16 (bytes of
 * the list, bytes of the table, place of each field, 0 where it is left out). */
#include <stdlib.h>
#include <string.h>

#include "calib/ranges_internal.h"

typedef struct buffer {
    const uint8_t *data;
    size_t size;
} buffer;

static bool read_u32(const buffer *b, size_t at, uint32_t *out) {
    if (at > b->size || b->size - at < 4) return false;
    *out = b->data[at] | (uint32_t)b->data[at + 1] << 8 | (uint32_t)b->data[at + 2] << 16 |
           (uint32_t)b->data[at + 3] << 24;
    return true;
}

static bool read_u16(const buffer *b, size_t at, uint32_t *out) {
    if (at > b->size || b->size - at < 2) return false;
    *out = b->data[at] | (uint32_t)b->data[at + 1] << 8;
    return true;
}

/* Follows the reference at `at`. */
static bool follow(const buffer *b, size_t at, size_t *target) {
    uint32_t distance;
    if (!read_u32(b, at, &distance) || distance == 0 || distance >= b->size - at) return false;
    *target = at + distance;
    return true;
}

/* What field `i` of a table refers to. */
static bool field(const buffer *b, size_t table, uint32_t i, size_t *target) {
    uint32_t back, bytes, place;
    if (!read_u32(b, table, &back)) return false;
    const int64_t list = (int64_t)table - (int32_t)back;
    if (list < 0 || !read_u16(b, (size_t)list, &bytes) || bytes < 6 + 2 * i ||
        !read_u16(b, (size_t)list + 4 + 2 * i, &place) || place == 0)
        return false;
    return follow(b, table + place, target);
}

static bool text(const buffer *b, size_t at, const char **out, size_t *n) {
    uint32_t length;
    if (!read_u32(b, at, &length) || length > b->size - at - 4) return false;
    *out = (const char *)b->data + at + 4;
    *n = length;
    return true;
}

static bool open_list(const buffer *b, size_t *list, uint32_t *n) {
    size_t root;
    return follow(b, 0, &root) && field(b, root, 0, list) && read_u32(b, *list, n) &&
           *n <= (b->size - *list - 4) / 4;
}

static bool probe(const char *bytes, size_t size) {
    const buffer b = {(const uint8_t *)bytes, size};
    size_t list;
    uint32_t n;
    return open_list(&b, &list, &n) && n > 0;
}

static qb_status read_ranges(qb_ctx *cx, const char *bytes, size_t size, qb_ranges *out) {
    const buffer b = {(const uint8_t *)bytes, size};
    size_t list;
    uint32_t n;
    if (!open_list(&b, &list, &n))
        return qb_fail(cx, QB_STATUS_FORMAT, "expected a FlatBuffers list of keys and values");
    for (uint32_t i = 0; i < n; i++) {
        size_t pair, key, value, key_size, value_size;
        const char *name, *number;
        double amax;
        if (!follow(&b, list + 4 + 4 * (size_t)i, &pair) || !field(&b, pair, 0, &key) ||
            !field(&b, pair, 1, &value) || !text(&b, key, &name, &key_size) ||
            !text(&b, value, &number, &value_size))
            return qb_fail(cx, QB_STATUS_FORMAT, "entry %u: expected a key and a value", i);
        if (!qb_line_number(number, value_size, &amax) || !(amax >= 0))
            return qb_fail(cx, QB_STATUS_FORMAT, "entry %u: the value is no largest magnitude", i);
        QB_TRY_WRAP(cx, qb_ranges_add(cx, out, name, key_size, -amax, amax), "entry %u", i);
    }
    return QB_OK;
}

/* ---- writing ---- */

static void add_u32(qb_strbuf *out, size_t value) {
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                              (uint8_t)(value >> 24)};
    qb_strbuf_addn(out, (const char *)bytes, 4);
}

static void add_u16s(qb_strbuf *out, int n, const uint16_t *values) {
    for (int i = 0; i < n; i++) {
        const uint8_t bytes[2] = {(uint8_t)values[i], (uint8_t)(values[i] >> 8)};
        qb_strbuf_addn(out, (const char *)bytes, 2);
    }
}

/* Length, text, a zero, and zeros up to a multiple of 4. */
static size_t text_bytes(size_t n) { return (4 + n + 1 + 3) / 4 * 4; }

static void add_text(qb_strbuf *out, const char *value) {
    const size_t n = strlen(value);
    add_u32(out, n);
    qb_strbuf_addn(out, value, n);
    qb_strbuf_addn(out, "\0\0\0", text_bytes(n) - 4 - n);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const qb_named_range *const *)a)->name,
                  (*(const qb_named_range *const *)b)->name);
}

enum { LIST = 20, PAIR_BYTES = 12, NUMBER = 32 };

/* Root, its table, the list of references, the pairs' field list, the pairs, the texts. */
static void write_sorted(const qb_named_range *const *item, size_t n, qb_strbuf *out) {
    const uint16_t table_fields[] = {6, 8, 4, 0}, pair_fields[] = {8, PAIR_BYTES, 4, 8};
    const size_t fields = LIST + 4 + 4 * n, pairs = fields + 8, texts = pairs + PAIR_BYTES * n;
    add_u32(out, 12);
    add_u16s(out, 4, table_fields);
    add_u32(out, 8); /* the table, at 12: back to its fields, forward to the list */
    add_u32(out, 4);
    add_u32(out, n);
    for (size_t i = 0; i < n; i++) add_u32(out, pairs + PAIR_BYTES * i - (LIST + 4 + 4 * i));
    add_u16s(out, 4, pair_fields);
    size_t at = texts;
    for (size_t i = 0; i < n; i++) {
        const size_t pair = pairs + PAIR_BYTES * i;
        add_u32(out, pair - fields);
        add_u32(out, at - (pair + 4));
        at += text_bytes(strlen(item[i]->name));
        add_u32(out, at - (pair + 8));
        at += NUMBER;
    }
    for (size_t i = 0; i < n; i++) {
        char number[NUMBER - 4]; /* of fixed room, so that places are known before */
        add_text(out, item[i]->name);
        memset(number, 0, sizeof number);
        const int length = snprintf(number, sizeof number, "%.9g", qb_named_range_amax(item[i]));
        add_u32(out, (size_t)length);
        qb_strbuf_addn(out, number, sizeof number);
    }
}

static qb_status write_ranges(qb_ctx *cx, const qb_ranges *ranges, const qb_graph *graph,
                              qb_strbuf *out) {
    (void)graph;
    const size_t n = (size_t)ranges->n;
    QB_FREED const qb_named_range **item = QB_NEW(cx, qb_alloc(cx, n, sizeof *item));
    for (size_t i = 0; i < n; i++) item[i] = &ranges->item[i];
    qsort(item, n, sizeof *item, by_name);
    write_sorted(item, n, out);
    return QB_OK;
}

const qb_calib_format qb_calib_format_ort_flatbuffers = {
    .name = "ort-flatbuffers",
    .summary = "onnxruntime's table for its TensorRT provider",
    .suffix = ".flatbuffers",
    .probe = probe,
    .read = read_ranges,
    .write = write_ranges,
};
