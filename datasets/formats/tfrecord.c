/* tfrecord: TensorFlow's files of records, each a tf.train.Example with an image file in one of its
 * features (image/encoded, image, ...) and a class number in another (image/class/label, label).
 * A record is length (8 bytes), its checksum, the content and its checksum: CRC-32C, rotated and
 * added to as tensorflow/core/lib/io/record_writer.h says. */
#include <string.h>

#include "base/file.h"
#include "datasets/shards_internal.h"
#include "records.pb-c.h"

static uint32_t crc32c(const uint8_t *data, size_t n) {
    static const uint32_t nibble[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                        0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        crc = nibble[crc & 15] ^ crc >> 4;
        crc = nibble[crc & 15] ^ crc >> 4;
    }
    return ~crc;
}

static bool is_checksum(const uint8_t *told, const uint8_t *data, size_t n) {
    const uint32_t crc = crc32c(data, n), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    return memcmp(told, &masked, sizeof masked) == 0; /* little-endian, as we are */
}

/* ---- tf.train.Example ---- */

/* The place of a feature's name in a list; `other` where it is not there. */
static int rank_of(const Records__FeatureEntry *entry, const char *const *names, int other) {
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == entry->key.len &&
            memcmp(names[i], entry->key.data, entry->key.len) == 0)
            return i;
    return other;
}

/* The class: of the first of the usual names that has one; of several none is that of the image. */
static int64_t label_of(const Records__Features *features) {
    static const char *const names[] = {"image/class/label", "label", "class", "target", NULL};
    const int none = (int)(sizeof names / sizeof *names);
    int best = none;
    int64_t label = -1;
    for (size_t i = 0; i < features->n_feature; i++) {
        const Records__Feature *f = features->feature[i]->value;
        const int rank = rank_of(features->feature[i], names, none);
        if (rank >= best || !f || f->kind_case != RECORDS__FEATURE__KIND_INT64_LIST ||
            f->int64_list->n_value != 1 || f->int64_list->value[0] < 0)
            continue;
        best = rank;
        label = f->int64_list->value[0];
    }
    return label;
}

/* The image: a feature that is one; under one of the usual names it wins over others. NULL:
 * there is none. */
static const ProtobufCBinaryData *image_of(const Records__Features *features) {
    static const char *const names[] = {"image/encoded", "image", "image_raw", "jpg", "png", NULL};
    const ProtobufCBinaryData *found = NULL;
    bool usual = false;
    for (size_t i = 0; features && i < features->n_feature; i++) {
        const Records__Feature *f = features->feature[i]->value;
        if (!f || f->kind_case != RECORDS__FEATURE__KIND_BYTES_LIST || f->bytes_list->n_value != 1)
            continue;
        const ProtobufCBinaryData *value = &f->bytes_list->value[0];
        const bool known = rank_of(features->feature[i], names, -1) >= 0;
        if (!qb_bytes_are_image(value->data, value->len) || (found && (usual || !known))) continue;
        found = value;
        usual = known;
    }
    return found;
}

/* The class of an Example, of which images are not looked at; -1: none. */
static int64_t read_label(qb_ctx *cx, qb_span example, uint8_t *buffer) {
    const ProtobufCMessageDescriptor *desc = &records__features__descriptor;
    ProtobufCMessage *features;
    qb_wire_field field;
    if (!qb_wire_next(&example, &field) || field.number != 1 || field.type != 2) return -1;
    const qb_span small = qb_message_without_large(field.content, buffer);
    if (qb_wire_check(cx, desc, small) != QB_OK ||
        qb_wire_unpack(cx, desc, small, &features) != QB_OK)
        return -1;
    const int64_t label = label_of((const Records__Features *)features);
    qb_wire_free(features);
    return label;
}

/* ---- records ---- */

static qb_status list(qb_shard *s, const uint8_t *bytes, uint8_t *buffer) {
    for (uint64_t at = 0, size; at < s->size; at += 12 + size + 4) {
        const uint64_t left = s->size - at;
        if (left < 12) return qb_shard_add_damaged(s, at, "it ends within a record");
        if (!is_checksum(bytes + at + 8, bytes + at, 8))
            return qb_shard_add_damaged(s, at, "a length with another checksum");
        memcpy(&size, bytes + at, sizeof size);
        if (size > left - 12 || left - 12 - size < 4)
            return qb_shard_add_damaged(s, at, "it ends within a record");
        const int64_t label =
            read_label(&(qb_ctx){0}, (qb_span){bytes + at + 12, (size_t)size}, buffer);
        QB_TRY(qb_shard_add(s, NULL, at + 12, size + 4, label));
    }
    return QB_OK;
}

static qb_status scan(qb_shard *s) {
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_TRY(qb_map_open(s->cx, s->path, &map));
    QB_FREED uint8_t *buffer = qb_alloc(s->cx, QB_LABELS_ROOM, 1);
    s->size = map.size;
    return buffer ? list(s, map.data, buffer) : s->cx->code;
}

/* Its image, moved to the front. */
static qb_status extract(qb_ctx *cx, const char *name, uint8_t *bytes, size_t size,
                         const uint8_t **from, size_t *n, qb_image *out) {
    (void)out;
    const ProtobufCMessageDescriptor *desc = &records__example__descriptor;
    const qb_span span = {bytes, size - 4};
    ProtobufCMessage *example;
    if (!is_checksum(bytes + span.size, bytes, span.size))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: damaged: its content has another checksum", name);
    if (qb_wire_check(cx, desc, span) != QB_OK || qb_wire_unpack(cx, desc, span, &example) != QB_OK)
        return qb_wrap(cx, "%s: expected a tf.train.Example", name);
    const ProtobufCBinaryData *image = image_of(((const Records__Example *)example)->features);
    if (image) {
        memcpy(bytes, image->data, image->len);
        *from = bytes;
        *n = image->len;
    } else {
        qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: expected a JPEG or PNG file in one of its features",
                name);
    }
    qb_wire_free(example);
    return image ? QB_OK : cx->code;
}

static const char *const suffixes[] = {".tfrecord", ".tfrecords", ".tfrec", NULL};
static const qb_shard_kind tfrecord = {.suffix = suffixes, .scan = scan, .extract = extract};

static bool tfrecord_probe(const char *path) { return qb_shards_probe(path, suffixes); }

static qb_status tfrecord_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    return qb_shards_open(cx, dataset, labels, &tfrecord);
}

const qb_dataset_format qb_format_tfrecord = {
    .name = "tfrecord",
    .text = ".tfrecord files of tf.train.Example with image files in them: one, a folder of them, "
            "or train-{00..09}.tfrecord",
    .probe = tfrecord_probe,
    .open = tfrecord_open,
    .read = qb_shards_read,
    .close = qb_shards_close,
};
