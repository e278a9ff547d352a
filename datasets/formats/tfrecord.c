/* tfrecord: TensorFlow's files of records, each a tf.train.Example with an image file in one of its
 * features (image/encoded, image, ...) and a class number in another (image/class/label, label).
 * A record is length (8 bytes), its checksum, the content and its checksum: CRC-32C, rotated and
 * added to as tensorflow/core/lib/io/record_writer.h says. */
#include <string.h>

#include "base/file.h"
#include "datasets/shards_internal.h"

enum { KEY_MAX = 64 };

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
    const uint32_t crc = crc32c(data, n);
    return qb_get_u32(told) == ((crc >> 15 | crc << 17) + 0xa282ead8u);
}

/* ---- tf.train.Example ---- */

/* One feature: a name and a list, of which the first value counts. */
typedef struct feature {
    char key[KEY_MAX];
    uint64_t at, size; /* bytes_list: of the first one */
    int64_t number;    /* int64_list */
    bool is_bytes, is_number;
} feature;

/* Feature: 1 bytes_list, 3 int64_list, each with its values as field 1. */
static void read_value(qb_bytes *b, const qb_proto_field *of, feature *out) {
    qb_proto_field list, value;
    uint64_t at = of->at;
    if (!qb_proto_next(b, &at, of->at + of->size, &list) || list.type != 2) return;
    at = list.at;
    if (!qb_proto_next(b, &at, list.at + list.size, &value) || value.number != 1) return;
    if (list.number == 1 && value.type == 2) {
        out->is_bytes = true;
        out->at = value.at;
        out->size = value.size;
    } else if (list.number == 3 && value.type == 0) {
        out->is_number = true;
        out->number = (int64_t)value.value;
    } else if (list.number == 3 && value.type == 2) { /* packed: as one that stands alone */
        uint64_t digits = 0;
        const uint8_t *byte;
        for (unsigned i = 0; i < 9 && (byte = qb_bytes_at(b, value.at + i, 1)); i++) {
            digits |= (uint64_t)(*byte & 127) << 7 * i;
            if (*byte < 128) break;
        }
        out->is_number = value.size > 0;
        out->number = (int64_t)digits;
    }
}

/* The next entry of Example.features.feature in [*at, end). */
static bool next_feature(qb_bytes *b, uint64_t *at, uint64_t end, feature *out) {
    qb_proto_field entry, part;
    if (!qb_proto_next(b, at, end, &entry)) return false;
    *out = (feature){0};
    for (uint64_t in = entry.at; qb_proto_next(b, &in, entry.at + entry.size, &part);) {
        const bool fits = part.number == 1 && part.type == 2 && part.size < KEY_MAX;
        const uint8_t *key = fits ? qb_bytes_at(b, part.at, (size_t)part.size) : NULL;
        if (key) memcpy(out->key, key, (size_t)part.size);
        if (part.number == 2 && part.type == 2) read_value(b, &part, out);
    }
    return true;
}

static int rank_of(const char *key, const char *const *names) {
    for (int i = 0; names[i]; i++)
        if (strcmp(key, names[i]) == 0) return i;
    return -1;
}

static bool is_image(qb_bytes *b, const feature *f) {
    const uint8_t *head = f->is_bytes && f->size > 8 ? qb_bytes_at(b, f->at, 8) : NULL;
    return head &&
           (memcmp(head, "\xff\xd8\xff", 3) == 0 || memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0);
}

/* The class and the image of an Example in [at, at + size); false: it is none. An image under one
 * of the usual names wins over others. */
static bool read_example(qb_bytes *b, uint64_t at, uint64_t size, int64_t *label, feature *image) {
    static const char *const labels[] = {"image/class/label", "label", "class", "target", NULL};
    static const char *const images[] = {"image/encoded", "image", "image_raw", "jpg", "png", NULL};
    qb_proto_field features;
    const uint64_t end = at + size;
    int best = 99;
    *label = -1;
    *image = (feature){0};
    if (!qb_proto_next(b, &at, end, &features) || features.number != 1 || features.type != 2)
        return false;
    feature f;
    uint64_t in = features.at;
    while (next_feature(b, &in, features.at + features.size, &f)) {
        const int as_label = f.is_number && f.number >= 0 ? rank_of(f.key, labels) : -1;
        if (as_label >= 0 && as_label < best) {
            best = as_label;
            *label = f.number;
        }
        const bool usual = rank_of(f.key, images) >= 0;
        if (is_image(b, &f) && (!image->is_bytes || (usual && rank_of(image->key, images) < 0)))
            *image = f;
    }
    return in == features.at + features.size;
}

/* ---- records ---- */

static qb_status scan(qb_shard *s) {
    for (uint64_t at = 0; at < s->bytes.size;) {
        const uint8_t *head = qb_bytes_at(&s->bytes, at, 12);
        feature image;
        int64_t label;
        if (!head) return qb_shard_add_damaged(s, at, "it ends within a record");
        if (!is_checksum(head + 8, head, 8))
            return qb_shard_add_damaged(s, at, "a length with another checksum");
        const uint64_t size = qb_get_u64(head), left = s->bytes.size - at - 12;
        if (size > left || left - size < 4)
            return qb_shard_add_damaged(s, at, "it ends within a record");
        if (!read_example(&s->bytes, at + 12, size, &label, &image)) label = -1;
        QB_TRY(qb_shard_add(s, NULL, at + 12, size + 4, label));
        at += 12 + size + 4;
    }
    return QB_OK;
}

static qb_status extract(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                         const uint8_t **from, size_t *n, qb_image *out) {
    (void)out;
    qb_bytes b = {.data = bytes, .size = size - 4};
    feature image;
    int64_t label;
    if (!is_checksum(bytes + size - 4, bytes, size - 4))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: damaged: its content has another checksum", name);
    if (!read_example(&b, 0, b.size, &label, &image))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected a tf.train.Example", name);
    if (!image.is_bytes)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected a JPEG or PNG file in one of its features", name);
    *from = bytes + image.at;
    *n = (size_t)image.size;
    return QB_OK;
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
