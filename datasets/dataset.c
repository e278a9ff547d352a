#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "datasets/shards.h"
#include "datasets/shards_internal.h"

#define X(name) extern const qb_dataset_format qb_format_##name;
#include "datasets/formats.def"

static const qb_dataset_format *const formats[] = {
#define X(name) &qb_format_##name,
#include "datasets/formats.def"
};
#define N_FORMATS ((int)(sizeof formats / sizeof *formats))

const char *qb_dataset_format_row(int row, const char **text) {
    if (row < 0 || row >= N_FORMATS) return NULL;
    if (text) *text = formats[row]->text;
    return formats[row]->name;
}

static qb_status add(qb_ctx *cx, qb_dataset *dataset, qb_sample sample) {
    if (dataset->n >= QB_SAMPLES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %zu samples", QB_SAMPLES_MAX);
    QB_TRY(
        qb_grow(cx, &dataset->sample, &dataset->capacity, dataset->n + 1, sizeof *dataset->sample));
    dataset->sample[dataset->n++] = sample;
    return QB_OK;
}

qb_status qb_dataset_add(qb_ctx *cx, qb_dataset *dataset, const char *name, int64_t position,
                         int32_t label) {
    const char *shown = QB_SHOWN(name);
    if (shown != name) shown = QB_NEW(cx, qb_arena_strdup(cx, dataset->arena, shown));
    return add(cx, dataset, (qb_sample){name, position, label, shown});
}

/* "[i]" at `to`, without the printf that a file of millions of rows would wait for; its length. */
static size_t write_index(int64_t i, char to[24]) {
    char digits[24], *at = digits + sizeof digits;
    *--at = ']';
    do *--at = (char)('0' + i % 10);
    while ((i /= 10) > 0);
    *--at = '[';
    const size_t n = (size_t)(digits + sizeof digits - at);
    memcpy(to, at, n);
    return n;
}

qb_status qb_dataset_add_rows(qb_ctx *cx, qb_dataset *dataset, int64_t n, const int64_t *label,
                              const qb_labels *labels) {
    const char *file = qb_path_base(dataset->path);
    const size_t length = strnlen(file, NAME_MAX);
    const bool clean = qb_text_is_clean(file);
    int64_t highest = -1;
    char text[NAME_MAX + 24];
    memcpy(text, file, length);
    for (int64_t i = 0; i < n; i++) {
        if (i % 65536 == 0) QB_TRY(qb_check_cancel(cx));
        const size_t size = length + write_index(i, text + length);
        const char *name = QB_NEW(cx, qb_arena_strndup(cx, dataset->arena, text, size));
        if (label) {
            QB_TRY(qb_label_check(cx, name, label[i], labels));
            if (label[i] > highest) highest = label[i];
        }
        const int32_t of = label ? (int32_t)label[i] : -1;
        QB_TRY(clean ? add(cx, dataset, (qb_sample){name, i, of, name})
                     : qb_dataset_add(cx, dataset, name, i, of));
    }
    dataset->has_labels = label != NULL;
    dataset->n_classes = labels ? labels->n : (int32_t)highest + 1;
    return QB_OK;
}

qb_status qb_dataset_root_beside(qb_ctx *cx, qb_dataset *dataset) {
    char *folder = QB_NEW(cx, qb_path_dir(cx, dataset->path));
    dataset->root = qb_arena_strdup(cx, dataset->arena, folder);
    qb_free(folder);
    return dataset->root ? QB_OK : cx->code;
}

static int compare_samples(const void *a, const void *b) {
    const qb_sample *left = a, *right = b;
    return strcmp(left->name, right->name);
}

void qb_dataset_sort(qb_dataset *dataset) {
    if (dataset->n > 1)
        qsort(dataset->sample, dataset->n, sizeof *dataset->sample, compare_samples);
}

qb_status qb_dataset_read_file(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                               qb_image *out, qb_hash *hash) {
    QB_FREED char *path = QB_NEW(cx, qb_path_join(cx, dataset->root, sample->name));
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_TRY(qb_map_open(cx, path, &map));
    QB_TRY(qb_decoder_decode(cx, dataset->decoder, path, map.data, map.size, out));
    *hash = qb_hash_bytes(map.data, map.size);
    return QB_OK;
}

qb_status qb_dataset_add_folder(qb_ctx *cx, qb_dataset *dataset, qb_scan_kind kind) {
    QB_RELEASED(qb_names_release) qb_names names = {0};
    qb_status status = qb_scan_folder(cx, dataset->root, kind, dataset->arena, &names);
    for (size_t i = 0; i < names.n && status == QB_OK; i++)
        status = qb_dataset_add(cx, dataset, names.name[i], 0, -1);
    if (status == QB_OK) qb_scan_tell_others(cx, dataset, &names);
    return status;
}

static qb_status find_format(qb_ctx *cx, const char *path, const qb_dataset_format **out) {
    struct stat info;
    if (stat(path, &info) != 0) {
        if (!qb_shards_is_pattern(path)) return qb_fail_errno(cx, "data %s", path);
        info.st_mode = S_IFREG;
    }
    /* Probes take what they cannot look into for something else. */
    if (S_ISDIR(info.st_mode) && access(path, R_OK | X_OK) != 0)
        return qb_fail_errno(cx, "data %s", path);
    for (int i = 0; i < N_FORMATS; i++) {
        if (!formats[i]->probe(path)) continue;
        *out = formats[i];
        return QB_OK;
    }
    if (S_ISDIR(info.st_mode))
        return qb_fail(cx, QB_STATUS_NOTFOUND,
                       "data %s: no JPEG or PNG images in the folder, nor .npy, .npz, .bin or .pb "
                       "tensors",
                       path);
    qb_strbuf known = {0};
    for (int i = 0; i < N_FORMATS; i++)
        qb_strbuf_addf(&known, "%s%s", i ? ", " : "", formats[i]->name);
    char *text;
    QB_TRY(qb_strbuf_take(cx, &known, &text));
    qb_fail(cx, QB_STATUS_UNSUPPORTED,
            "data %s: no data set of a known kind (%s; see 'qbench help data')", path, text);
    qb_free(text);
    return cx->code;
}

/* Keeps `max` of the samples, evenly spaced; memory of the names stays in the arena. */
static void thin_out(qb_dataset *dataset, int64_t max) {
    if (max <= 0 || (size_t)max >= dataset->n) return;
    for (int64_t k = 0; k < max; k++)
        dataset->sample[k] = dataset->sample[k * (int64_t)dataset->n / max];
    dataset->n = (size_t)max;
}

/* A seeded shuffle of the numbers tells who is in which part; at least one sample is in each. */
static qb_status keep_split(qb_ctx *cx, qb_dataset *dataset, const qb_split *split) {
    const size_t n = dataset->n;
    if (split->percent == 0) return QB_OK;
    if (n < 2)
        return qb_fail(cx, QB_STATUS_INVALID, "data %s: one sample cannot be split", dataset->path);
    size_t *order = qb_alloc(cx, n, sizeof *order);
    bool *drawn = qb_alloc(cx, n, sizeof *drawn);
    size_t first = n * (size_t)split->percent / 100, kept = 0;
    first = first < 1 ? 1 : first > n - 1 ? n - 1 : first;
    qb_rng rng;
    qb_rng_seed(&rng, (uint64_t)split->seed);
    for (size_t i = 0; order && i < n; i++) order[i] = i;
    for (size_t i = 0; order && drawn && i < first; i++) {
        const size_t k = i + (size_t)qb_rng_below(&rng, n - i), taken = order[k];
        order[k] = order[i];
        drawn[taken] = true;
    }
    for (size_t i = 0; order && drawn && i < n; i++)
        if (drawn[i] != split->rest) dataset->sample[kept++] = dataset->sample[i];
    if (order && drawn) dataset->n = kept;
    const bool done = order && drawn;
    QB_FREE_ALL(order, drawn);
    return done ? QB_OK : cx->code;
}

void qb_dataset_keep_part(qb_dataset *dataset, int64_t part, int64_t of) {
    size_t kept = 0;
    for (int64_t i = part; i < (int64_t)dataset->n; i += of)
        dataset->sample[kept++] = dataset->sample[i];
    dataset->n = kept;
}

static qb_status open_format(qb_ctx *cx, qb_dataset *dataset, const char *path,
                             const qb_dataset_options *options) {
    QB_TRY(qb_arena_create(cx, &dataset->arena));
    dataset->has_tensors = !dataset->format->read;
    dataset->path = dataset->root = qb_arena_strdup(cx, dataset->arena, path);
    dataset->images = options->images ? options->images : "images"; /* while it is opened */
    dataset->folder = options->folder;
    if (!dataset->path) return cx->code;
    QB_TRY_WRAP(cx, dataset->format->open(cx, dataset, options->labels), "data %s (%s)", path,
                dataset->format->name);
    if (dataset->n == 0)
        return qb_fail(cx, QB_STATUS_NOTFOUND, "data %s (%s): it holds no sample", path,
                       dataset->format->name);
    QB_TRY(keep_split(cx, dataset, &options->split));
    thin_out(dataset, options->max_samples);
    return QB_OK;
}

static qb_status open_decoder(qb_ctx *cx, const qb_dataset_options *options, qb_dataset *dataset) {
    const qb_jpeg_batch_api *api = NULL;
    if (options->decoder) QB_TRY(qb_decoder_find(cx, options->decoder, &api));
    if (!api) return QB_OK;
    if (dataset->format->read == qb_dataset_read_file || dataset->format->read == qb_shards_read ||
        dataset->truth)
        return qb_decoder_open(cx, api, options->device, &dataset->decoder);
    qb_warn(cx, "data %s (%s): no image files: nothing for decoder %s", dataset->path,
            dataset->format->name, api->name);
    return QB_OK;
}

qb_status qb_dataset_open(qb_ctx *cx, const char *path, const qb_dataset_options *options,
                          qb_dataset **out) {
    static const qb_dataset_options defaults = {0};
    if (!options) options = &defaults;
    if (options->max_samples < 0)
        return qb_fail(cx, QB_STATUS_INVALID, "data %s: expected 0 or more samples, got %lld", path,
                       (long long)options->max_samples);
    const qb_dataset_format *format = NULL;
    QB_TRY(find_format(cx, path, &format));
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = qb_alloc(cx, 1, sizeof *dataset);
    if (!dataset) return cx->code;
    dataset->format = format;
    QB_TRY(open_format(cx, dataset, path, options));
    QB_TRY(open_decoder(cx, options, dataset));
    *out = QB_MOVE(dataset);
    return QB_OK;
}

void qb_dataset_close(qb_dataset *dataset) {
    if (!dataset) return;
    if (dataset->format->close) dataset->format->close(dataset);
    qb_decoder_close(dataset->decoder);
    if (dataset->truth) qb_coco_release(dataset->truth);
    QB_FREE_ALL(dataset->truth, dataset->sample);
    qb_arena_free(dataset->arena);
    qb_free(dataset);
}

const char *qb_dataset_decoder(const qb_dataset *dataset) {
    return qb_decoder_name(dataset->decoder);
}

const char *qb_dataset_format_name(const qb_dataset *dataset) { return dataset->format->name; }

int64_t qb_dataset_count(const qb_dataset *dataset) { return (int64_t)dataset->n; }

bool qb_dataset_has_labels(const qb_dataset *dataset) { return dataset->has_labels; }

int32_t qb_dataset_classes(const qb_dataset *dataset) {
    return dataset->has_labels ? dataset->n_classes : 0;
}

int32_t qb_dataset_label(const qb_dataset *dataset, int64_t index) {
    if (index < 0 || (size_t)index >= dataset->n) return -1;
    return dataset->sample[index].label;
}

const char *qb_dataset_sample_name(const qb_dataset *dataset, int64_t index) {
    if (index < 0 || (size_t)index >= dataset->n) return "?";
    return dataset->sample[index].shown;
}

bool qb_dataset_has_tensors(const qb_dataset *dataset) { return dataset->has_tensors; }

bool qb_dataset_has_masks(const qb_dataset *dataset) { return dataset->format->read_mask != NULL; }

qb_status qb_dataset_read_mask(qb_ctx *cx, const qb_dataset *dataset, int64_t index,
                               qb_image *out) {
    return dataset->format->read_mask(cx, dataset, &dataset->sample[index], out);
}

bool qb_dataset_has_targets(const qb_dataset *dataset) { return dataset->has_targets; }

const qb_coco *qb_dataset_truth(const qb_dataset *dataset) { return dataset->truth; }

int32_t qb_dataset_truth_image(const qb_dataset *dataset, int64_t index) {
    return (int32_t)dataset->sample[index].position;
}

static qb_status check_read(qb_ctx *cx, const qb_dataset *dataset, int64_t index, bool tensors) {
    if (index < 0 || (size_t)index >= dataset->n)
        return qb_fail(cx, QB_STATUS_INVALID, "data %s: sample %lld of %zu", dataset->path,
                       (long long)index, dataset->n);
    if (dataset->has_tensors != tensors)
        return qb_fail(cx, QB_STATUS_INVALID, "data %s (%s): its samples are %s, expected %s",
                       dataset->path, dataset->format->name, tensors ? "images" : "tensors",
                       tensors ? "tensors" : "images");
    return QB_OK;
}

qb_status qb_dataset_read_tensors(qb_ctx *cx, const qb_dataset *dataset, int64_t index,
                                  qb_tensors *out) {
    QB_TRY(check_read(cx, dataset, index, true));
    QB_RELEASED(qb_tensors_release) qb_tensors tensors = {0};
    QB_TRY(dataset->format->read_tensors(cx, dataset, &dataset->sample[index], &tensors));
    *out = tensors;
    tensors.n = 0;
    return QB_OK;
}

qb_status qb_dataset_read(qb_ctx *cx, const qb_dataset *dataset, int64_t index, qb_image *out,
                          qb_hash *hash) {
    QB_TRY(check_read(cx, dataset, index, false));
    qb_image image = {0};
    qb_hash content = {{0}};
    QB_TRY(dataset->format->read(cx, dataset, &dataset->sample[index], &image, &content));
    *out = image;
    if (hash) *hash = content;
    return QB_OK;
}

/* As qb_dataset_read_file tells it. */
static qb_status hash_file(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                           qb_hash *hash) {
    QB_FREED char *path = QB_NEW(cx, qb_path_join(cx, dataset->root, sample->name));
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_TRY(qb_map_open(cx, path, &map));
    *hash = qb_hash_bytes(map.data, map.size);
    return QB_OK;
}

qb_status qb_dataset_hash(qb_ctx *cx, const qb_dataset *dataset, int64_t index, qb_hash *hash) {
    QB_TRY(check_read(cx, dataset, index, false));
    const qb_sample *sample = &dataset->sample[index];
    if (dataset->format->read == qb_dataset_read_file || dataset->truth)
        return hash_file(cx, dataset, sample, hash);
    if (dataset->format->read == qb_shards_read) return qb_shards_hash(cx, dataset, sample, hash);
    QB_RELEASED(qb_image_release) qb_image image = {0};
    return dataset->format->read(cx, dataset, sample, &image, hash);
}
