#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/apart.h"
#include "base/file.h"
#include "base/text.h"
#include "calib/table_h5_internal.h"
#include "datasets/h5_chunks.h"
#include "datasets/h5_inside.h"
#include "datasets/h5_lock.h"

#define FILE_LIMIT ((size_t)1 << 30)
#define APART_BYTES ((size_t)1 << 30)
#define APART_SECONDS 10
#define SAMPLES_MOST ((hsize_t)1 << 28)
#define DEFLATE_MOST 1032 /* deflate cannot shrink by more than this factor */

static qb_status malformed(const qb_h5 *h, const char *field, const char *expected) {
    return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: %s: expected %s", h->name, field, expected);
}

/* Checks the user block and the hash of the rest. */
static qb_status check_user_block(const qb_h5 *h, const uint8_t *bytes, size_t size) {
    char expected[QB_H5_USER_BLOCK];
    const size_t title = strlen(QB_H5_TITLE);
    if (size < title || memcmp(bytes, QB_H5_TITLE, title) != 0)
        return malformed(h, "first line", "\"" QB_H5_TITLE "...\" (is this a .calib.h5 file?)");
    if (size <= QB_H5_USER_BLOCK)
        return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: truncated: %zu bytes, expected more than %d",
                       h->name, size, QB_H5_USER_BLOCK);
    int digits = 0;
    while (digits < 9 && bytes[title + (size_t)digits] >= '0' &&
           bytes[title + (size_t)digits] <= '9')
        digits++;
    if (digits != 1 || bytes[title] != '0' + QB_H5_VERSION)
        return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: version: expected %d, got %.*s", h->name,
                       QB_H5_VERSION, digits, (const char *)bytes + title);
    qb_h5_user_block(bytes + QB_H5_USER_BLOCK, size - QB_H5_USER_BLOCK, expected);
    if (memcmp(bytes, expected, QB_H5_USER_BLOCK) != 0)
        return qb_fail(h->cx, QB_STATUS_FORMAT,
                       "%s: damaged: the content (%zu bytes) has not the hash that the first lines "
                       "give: expected %.37s",
                       h->name, size - QB_H5_USER_BLOCK, expected + title + 2);
    return QB_OK;
}

/* A text attribute of at most `longest` bytes as new memory. */
static qb_status read_long_text(const qb_h5 *h, const char *name, size_t longest, char **out) {
    QB_RELEASED(qb_h5_close) hid_t attribute = H5Aopen(h->file, name, H5P_DEFAULT);
    if (attribute < 0) return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    QB_RELEASED(qb_h5_close) hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    QB_FREED char *text = NULL;
    const size_t size = type < 0 ? 0 : H5Tget_size(type);
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || size == 0 ||
        size > longest || H5Sget_simple_extent_npoints(space) != 1)
        return malformed(h, name, "one text of fixed length");
    QB_TRY_NEW(h->cx, text = qb_alloc(h->cx, size + 1, 1));
    hid_t memory = qb_h5_text_type(size + 1); /* other writers store no terminating zero */
    herr_t done = H5Aread(attribute, memory, text);
    H5Tclose(memory);
    if (done < 0) return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    *out = qb_text_clean(h->cx, text);
    return *out ? QB_OK : h->cx->code;
}

static qb_status read_text(const qb_h5 *h, const char *name, char **out) {
    return read_long_text(h, name, QB_H5_TEXT, out);
}

static qb_status read_hash(const qb_h5 *h, const char *name, qb_hash *out) {
    QB_FREED char *text = NULL;
    QB_TRY(read_text(h, name, &text));
    return qb_hash_parse(text, out) ? QB_OK : malformed(h, name, "32 hexadecimal digits");
}

static qb_status read_i64(const qb_h5 *h, const char *name, int64_t *out) {
    QB_RELEASED(qb_h5_close) hid_t attribute = H5Aopen(h->file, name, H5P_DEFAULT);
    if (attribute < 0) return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    QB_RELEASED(qb_h5_close) hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    if (H5Tequal(type, H5T_STD_I64LE) <= 0 || H5Sget_simple_extent_npoints(space) != 1)
        return malformed(h, name, "one 64-bit integer");
    if (H5Aread(attribute, H5T_NATIVE_INT64, out) < 0) return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    if (*out < 0) return malformed(h, name, "a number that is not negative");
    return QB_OK;
}

/* Data must be in this file, in the form that qb_table_save gives it: no links, no storage outside
 * and no chunks of other sizes (which HDF5 would allocate before we see them). */
static bool plain_storage(hid_t set, const hsize_t *chunk) {
    QB_RELEASED(qb_h5_close) hid_t plan = H5Dget_create_plist(set);
    hsize_t got[2] = {0};
    bool plain = H5Pget_external_count(plan) == 0;
    if (chunk)
        plain = plain && H5Pget_layout(plan) == H5D_CHUNKED && H5Pget_chunk(plan, 2, got) == 2 &&
                got[0] == chunk[0] && got[1] == chunk[1];
    else
        plain = plain && H5Pget_layout(plan) == H5D_CONTIGUOUS;
    return plain;
}

static qb_status wrong_shape(const qb_h5 *h, const char *name, int rank, const hsize_t *dims) {
    char text[80] = "";
    for (int i = 0, used = 0; i < rank; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, dims[i] ? "%s%llu" : "%sn",
                         i ? " x " : "", (unsigned long long)dims[i]);
    return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: %s: expected the shape %s", h->name, name, text);
}

/* Opens a dataset with exactly these dimensions; a dimension of 0 in `dims` is read into it. */
static qb_status open_dataset(const qb_h5 *h, const char *name, int rank, hsize_t *dims,
                              const hsize_t *chunk, hid_t *out) {
    if (qb_h5_place_of(h->file, name) == QB_H5_LINKED)
        return malformed(h, name, "plain storage in this file");
    QB_RELEASED(qb_h5_close) hid_t set = H5Dopen2(h->file, name, H5P_DEFAULT), space = -1;
    if (set < 0) return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    /* The space of a dataset that is put together from others would open their files. */
    if (qb_h5_stores_inside(set)) space = H5Dget_space(set);
    hsize_t got[H5S_MAX_RANK] = {0};
    bool fits = H5Sget_simple_extent_ndims(space) == rank &&
                H5Sget_simple_extent_dims(space, got, NULL) == rank;
    for (int i = 0; i < rank && fits; i++) fits = dims[i] == 0 || dims[i] == got[i];
    if (space < 0 || (fits && !plain_storage(set, chunk)))
        return malformed(h, name, "plain storage in this file");
    if (!fits) return wrong_shape(h, name, rank, dims);
    for (int i = 0; i < rank; i++) dims[i] = got[i];
    *out = set;
    set = -1;
    return QB_OK;
}

static bool has_type(hid_t set, hid_t expected) {
    QB_RELEASED(qb_h5_close) hid_t type = H5Dget_type(set);
    return H5Tequal(type, expected) > 0;
}

/* A whole dataset of numbers into memory that the caller sized by `dims`. */
static qb_status read_numbers(const qb_h5 *h, const char *name, qb_h5_type type, int rank,
                              hsize_t *dims, void *data) {
    static const char *const texts[] = {"32-bit integers", "32-bit floats",
                                        "64-bit unsigned integers", "64-bit integers"};
    QB_RELEASED(qb_h5_close) hid_t set = -1;
    QB_TRY(open_dataset(h, name, rank, dims, NULL, &set));
    if (!has_type(set, qb_h5_file_type(type))) return malformed(h, name, texts[type]);
    if (H5Dread(set, qb_h5_memory_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    return QB_OK;
}

/* Texts of one size, each with a zero at its end. */
typedef struct texts {
    char *data;
    size_t n, size;
} texts;

static void texts_release(texts *t) { qb_free(t->data); }

/* A list of 1 to `most` texts of at most `longest` bytes. */
static qb_status read_texts(const qb_h5 *h, const char *name, hsize_t most, size_t longest,
                            texts *out) {
    hsize_t n = 0;
    QB_RELEASED(qb_h5_close) hid_t set = -1;
    QB_TRY(open_dataset(h, name, 1, &n, NULL, &set));
    QB_RELEASED(qb_h5_close) hid_t type = H5Dget_type(set);
    const size_t stored = type < 0 ? 0 : H5Tget_size(type);
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || stored == 0 ||
        stored > longest)
        return malformed(h, name, "texts of fixed length");
    const size_t size = stored < longest ? stored + 1 : longest;
    if (n < 1 || n > most)
        return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: %s: expected 1 to %llu texts, got %llu",
                       h->name, name, (unsigned long long)most, (unsigned long long)n);
    QB_TRY_NEW(h->cx, out->data = qb_alloc(h->cx, (size_t)n, size));
    out->n = (size_t)n;
    out->size = size;
    QB_RELEASED(qb_h5_close) hid_t memory = qb_h5_text_type(size);
    if (H5Dread(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out->data) < 0)
        return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    for (size_t i = 0; i < n; i++) {
        out->data[(i + 1) * size - 1] = '\0';
        if (!qb_text_is_clean(out->data + i * size))
            return malformed(h, name, "texts that can be shown");
    }
    return QB_OK;
}

static qb_status read_names(const qb_h5 *h, const texts *names, qb_table *table) {
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->data + i * names->size;
        if (*name == '\0' || (i > 0 && strcmp(name - names->size, name) >= 0))
            return qb_fail(h->cx, QB_STATUS_FORMAT,
                           "%s: name: expected ascending names, got '%s' at %zu", h->name, name, i);
        QB_TRY_NEW(h->cx, table->entry[i].name = qb_strdup(h->cx, name));
    }
    return QB_OK;
}

static qb_status read_methods(const qb_h5 *h, qb_table *table) {
    QB_RELEASED(texts_release) texts methods = {0};
    QB_TRY(read_texts(h, "method", QB_TABLE_METHODS, QB_METHOD_TEXT, &methods));
    for (size_t i = 0; i < methods.n; i++) {
        const char *method = methods.data + i * methods.size;
        if (*method == '\0') return malformed(h, "method", "names that are not empty");
        strcpy(table->method[i], method);
    }
    table->n_methods = (int32_t)methods.n;
    return QB_OK;
}

static qb_status read_columns(const qb_h5 *h, qb_table *table) {
    hsize_t n = (hsize_t)table->n_entries;
    QB_FREED uint8_t *data = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)n, sizeof(uint64_t)));
    for (int c = 0; c < QB_H5_COLUMNS; c++) {
        const qb_h5_column *col = &qb_h5_columns[c];
        QB_TRY(read_numbers(h, col->name, col->type, 1, &n, data));
        for (size_t i = 0; i < n; i++)
            memcpy((uint8_t *)table->entry[i].stats + col->offset, data + i * col->size, col->size);
    }
    return QB_OK;
}

static qb_status read_ranges(const qb_h5 *h, qb_table *table) {
    const size_t methods = (size_t)table->n_methods;
    hsize_t dims[3] = {(hsize_t)table->n_entries, methods, 2};
    QB_FREED qb_range *data =
        QB_NEW(h->cx, qb_alloc(h->cx, (size_t)table->n_entries * methods, sizeof *data));
    QB_TRY(read_numbers(h, "range", QB_H5_F32, 3, dims, data));
    for (size_t i = 0; i < (size_t)table->n_entries; i++)
        memcpy(table->entry[i].range, data + i * methods, methods * sizeof *data);
    return QB_OK;
}

/* Opens the bins of n tensors. The file must be large enough to hold them, which bounds what a
 * small file can make us allocate. */
static qb_status open_bins(const qb_h5 *h, size_t n, hid_t *out) {
    hsize_t dims[2] = {n, QB_STATS_BINS};
    const hsize_t chunk[2] = {1, QB_STATS_BINS};
    QB_RELEASED(qb_h5_close) hid_t set = -1;
    QB_TRY(open_dataset(h, "bins", 2, dims, chunk, &set));
    if (!has_type(set, H5T_STD_U64LE)) return malformed(h, "bins", "64-bit unsigned integers");
    if (H5Dget_storage_size(set) < n * sizeof((qb_stats){0}.bin) / DEFLATE_MOST)
        return malformed(h, "bins", "data for every tensor");
    *out = set;
    set = -1;
    return QB_OK;
}

static qb_status read_rows(const qb_h5 *h, const char *name, qb_h5_type type, hid_t set,
                           const qb_table *table, hsize_t width, qb_h5_row_of row) {
    QB_RELEASED(qb_h5_close)
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &width, NULL);
    for (int32_t i = 0; i < table->n_entries; i++)
        if (qb_h5_row(set, space, memory, type, i, width, NULL, row(&table->entry[i])) < 0)
            return qb_h5_fail(h, QB_STATUS_FORMAT, name);
    return QB_OK;
}

static qb_status read_bins(const qb_h5 *h, hid_t set, const qb_table *table) {
    QB_RELEASED(qb_h5_close) hid_t copy = -1;
    if (qb_h5_chunks_copy(h->cx, set, 0, (hsize_t)table->n_entries, 0, &copy) != QB_OK)
        return qb_wrap(h->cx, "%s: bins", h->name);
    return read_rows(h, "bins", QB_H5_U64, copy, table, QB_STATS_BINS, qb_h5_bins_of);
}

/* Extremes by sample, which the file must hold in full. */
static qb_status read_extremes(const qb_h5 *h, const char *name, const qb_table *table,
                               qb_h5_row_of row) {
    hsize_t dims[2] = {(hsize_t)table->n_entries, (hsize_t)table->n_recorded};
    QB_RELEASED(qb_h5_close) hid_t set = -1;
    QB_TRY(open_dataset(h, name, 2, dims, NULL, &set));
    if (!has_type(set, qb_h5_file_type(QB_H5_F32))) return malformed(h, name, "32-bit floats");
    if (H5Dget_storage_size(set) != dims[0] * dims[1] * sizeof(float))
        return malformed(h, name, "data for every tensor");
    return read_rows(h, name, QB_H5_F32, set, table, dims[1], row);
}

/* Are n 64-bit numbers really in the file? It bounds what a small file can make us allocate. */
static qb_status check_stored(const qb_h5 *h, const char *name, hsize_t n) {
    QB_RELEASED(qb_h5_close) hid_t set = -1;
    QB_TRY(open_dataset(h, name, 1, &n, NULL, &set));
    if (!has_type(set, qb_h5_file_type(QB_H5_U64)))
        return malformed(h, name, "64-bit unsigned integers");
    if (H5Dget_storage_size(set) == n * sizeof(uint64_t)) return QB_OK;
    return malformed(h, name, "a number for every sample");
}

static qb_status read_keys(const qb_h5 *h, qb_table *table) {
    hsize_t n = (hsize_t)table->samples;
    if (n < 1 || n > SAMPLES_MOST)
        return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: sample: expected 1 to %llu samples, got %llu",
                       h->name, (unsigned long long)SAMPLES_MOST, (unsigned long long)n);
    QB_TRY(check_stored(h, "sample", n));
    QB_TRY_NEW(h->cx, table->sample = qb_alloc(h->cx, (size_t)n, sizeof *table->sample));
    QB_TRY(read_numbers(h, "sample", QB_H5_U64, 1, &n, table->sample));
    for (hsize_t i = 1; i < n; i++)
        if (table->sample[i - 1] > table->sample[i])
            return malformed(h, "sample", "ascending numbers");
    return QB_OK;
}

/* The samples, and the extremes of each where they were recorded. */
static qb_status read_samples(const qb_h5 *h, qb_table *table) {
    if (H5Lexists(h->file, "sample", H5P_DEFAULT) <= 0) return QB_OK;
    QB_TRY(read_keys(h, table));
    if (H5Lexists(h->file, "sample_min", H5P_DEFAULT) <= 0) return QB_OK;
    if (table->samples > QB_TABLE_SAMPLES ||
        (uint64_t)table->n_entries * (uint64_t)table->samples * 2 * sizeof(float) > h->size)
        return malformed(h, "sample_min, sample_max", "data for every tensor");
    QB_TRY(qb_table_record(h->cx, table, table->samples));
    QB_TRY(read_extremes(h, "sample_min", table, qb_h5_minima_of));
    return read_extremes(h, "sample_max", table, qb_h5_maxima_of);
}

/* Room for each tensor's channels; *all is their number. */
static qb_status read_channel_counts(const qb_h5 *h, qb_table *table, hsize_t *all) {
    hsize_t n = (hsize_t)table->n_entries;
    QB_FREED int32_t *count = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)n, sizeof *count));
    QB_TRY(read_numbers(h, "channels", QB_H5_I32, 1, &n, count));
    *all = 0;
    for (hsize_t i = 0; i < n; i++) {
        if (count[i] < QB_CHANNELS_MIXED || count[i] > QB_CHANNELS_MOST)
            return malformed(h, "channels", "-1 to 65536 of each tensor");
        *all += count[i] > 0 ? (hsize_t)count[i] : 0;
        if (*all * 2 * sizeof(float) > h->size)
            return malformed(h, "channel_min, channel_max", "data for every channel");
    }
    for (hsize_t i = 0; i < n; i++) {
        table->entry[i].channels.n = count[i];
        if (count[i] > 0) QB_TRY(qb_channels_alloc(h->cx, count[i], &table->entry[i].channels));
    }
    return QB_OK;
}

static qb_status read_channels(const qb_h5 *h, const char *name, hsize_t all, bool maxima,
                               const qb_table *table) {
    QB_FREED float *data = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)all, sizeof *data));
    QB_TRY(read_numbers(h, name, QB_H5_F32, 1, &all, data));
    size_t at = 0;
    for (int32_t i = 0; i < table->n_entries; i++) {
        const qb_channels *c = &table->entry[i].channels;
        if (c->n <= 0) continue;
        memcpy(maxima ? c->max : c->min, data + at, (size_t)c->n * sizeof *data);
        at += (size_t)c->n;
    }
    return QB_OK;
}

static qb_status read_all_channels(const qb_h5 *h, qb_table *table) {
    hsize_t all;
    if (H5Lexists(h->file, "channels", H5P_DEFAULT) <= 0) return QB_OK;
    table->per_channel = true;
    QB_TRY(read_channel_counts(h, table, &all));
    if (all == 0) return QB_OK;
    QB_TRY(read_channels(h, "channel_min", all, false, table));
    return read_channels(h, "channel_max", all, true, table);
}

/* What is wrong with the statistics, or NULL. */
static const char *check_no_stats(const qb_stats *s) {
    for (int32_t b = 0; b < QB_STATS_BINS; b++)
        if (s->bin[b] != 0) return "bins: values where count has none";
    return s->zeros ? "zeros: more than count" : NULL;
}

static const char *check_stats(const qb_stats *s) {
    if (s->exponent < QB_STATS_MIN_EXPONENT || s->exponent > QB_STATS_MAX_EXPONENT)
        return "exponent: out of bounds";
    if (s->count == 0) return check_no_stats(s); /* the range was imported */
    if (!isfinite(s->min) || !isfinite(s->max) || s->min > s->max)
        return "min, max: not finite or not in order";
    uint64_t sum = 0;
    int32_t first = QB_STATS_BINS, last = -1;
    for (int32_t b = 0; b < QB_STATS_BINS; b++) {
        if (s->bin[b] == 0) continue;
        if (__builtin_add_overflow(sum, s->bin[b], &sum)) return "bins: too large";
        if (last < 0) first = b;
        last = b;
    }
    if (sum != s->count) return "bins: their sum is not count";
    if (s->zeros > s->bin[QB_STATS_BINS / 2]) return "zeros: more than the bin of zero holds";
    if (s->min < qb_stats_edge(s, first) || s->min >= qb_stats_edge(s, first + 1))
        return "min: not in the first bin that is not empty";
    if (s->max < qb_stats_edge(s, last) || s->max >= qb_stats_edge(s, last + 1))
        return "max: not in the last bin that is not empty";
    return NULL;
}

/* Are extremes by sample or channel in order, and together those of the tensor? Both INFINITY and
 * -INFINITY: nothing finite there. */
static bool are_ordered(const float *min, const float *max, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!(min[i] <= max[i]) && !(min[i] == INFINITY && max[i] == -INFINITY)) return false;
    return true;
}

static bool are_all(const float *min, const float *max, int64_t n, const qb_stats *s) {
    float low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        low = fminf(low, min[i]);
        high = fmaxf(high, max[i]);
    }
    return n <= 0 || (low == s->min && high == s->max);
}

static const char *check_extremes(const qb_table_entry *e, int64_t n_samples) {
    const qb_channels *c = &e->channels;
    if (!are_ordered(e->sample_min, e->sample_max, n_samples))
        return "sample_min, sample_max: not in order";
    if (!are_all(e->sample_min, e->sample_max, n_samples, e->stats))
        return "sample_min, sample_max: not those of the tensor";
    if (!are_ordered(c->min, c->max, c->n)) return "channel_min, channel_max: not in order";
    if (!are_all(c->min, c->max, c->n, e->stats))
        return "channel_min, channel_max: not those of the tensor";
    return NULL;
}

static qb_status check_entries(const qb_h5 *h, const qb_table *table) {
    for (int32_t i = 0; i < table->n_entries; i++) {
        const qb_table_entry *e = &table->entry[i];
        const char *wrong = check_stats(e->stats);
        if (!wrong) wrong = check_extremes(e, table->n_recorded);
        for (int32_t m = 0; m < table->n_methods && !wrong; m++) {
            const qb_range r = e->range[m];
            const bool imported = e->stats->count == 0; /* then there is no min and max */
            if (!(r.lo <= r.hi) || !isfinite(r.lo) || !isfinite(r.hi) ||
                (!imported && !(r.lo >= e->stats->min && r.hi <= e->stats->max)))
                wrong = "range: not in order inside min and max";
        }
        if (wrong)
            return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: tensor '%s': %s", h->name, e->name, wrong);
    }
    return QB_OK;
}

/* What merging needs; tables of other origin do without. */
static qb_status read_origin(const qb_h5 *h, qb_table *table) {
    QB_FREED char *shards = NULL;
    if (H5Aexists(h->file, "preprocess") <= 0) return QB_OK;
    QB_TRY(read_text(h, "preprocess", &table->preprocess));
    if (H5Aexists(h->file, "blank") > 0) QB_TRY(read_i64(h, "blank", &table->blank));
    if (H5Aexists(h->file, "doctor") > 0)
        QB_TRY(read_long_text(h, "doctor", QB_TABLE_FINDINGS, &table->doctor));
    QB_TRY(read_hash(h, "data_sum", &table->data_sum));
    QB_TRY(read_text(h, "shards", &shards));
    if (qb_shards_parse(shards, &table->shards)) return QB_OK;
    return malformed(h, "shards", "numbers and their total, such as \"1,3/4\"");
}

static qb_status read_attributes(const qb_h5 *h, qb_table *table) {
    QB_TRY(read_text(h, "model", &table->model));
    QB_TRY(read_text(h, "dataset", &table->dataset));
    QB_TRY(read_hash(h, "model_hash", &table->model_hash));
    QB_TRY(read_hash(h, "data_hash", &table->data_hash));
    if (H5Aexists(h->file, "recovered_from") > 0)
        QB_TRY(read_hash(h, "recovered_from", &table->recovered_from));
    QB_TRY(read_i64(h, "samples", &table->samples));
    return read_i64(h, "skipped", &table->skipped);
}

static qb_status check_magic(const qb_h5 *h) {
    QB_FREED char *magic = NULL;
    int64_t version;
    QB_TRY(read_text(h, "magic", &magic));
    if (strcmp(magic, QB_H5_MAGIC) != 0) return malformed(h, "magic", "\"" QB_H5_MAGIC "\"");
    QB_TRY(read_i64(h, "version", &version));
    if (version == QB_H5_VERSION) return QB_OK;
    return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: version: expected %d, got %lld", h->name,
                   QB_H5_VERSION, (long long)version);
}

static qb_status read_all(const qb_h5 *h, qb_table **out) {
    QB_RELEASED(texts_release) texts names = {0};
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    QB_RELEASED(qb_h5_close) hid_t bins = -1;
    QB_TRY(check_magic(h));
    QB_TRY(read_texts(h, "name", QB_TABLE_ENTRIES, QB_H5_TEXT, &names));
    QB_TRY(open_bins(h, names.n, &bins));
    QB_TRY(qb_table_create(h->cx, (int32_t)names.n, &table));
    QB_TRY(read_names(h, &names, table));
    QB_TRY(read_attributes(h, table));
    QB_TRY(read_origin(h, table));
    QB_TRY(read_methods(h, table));
    QB_TRY(read_columns(h, table));
    QB_TRY(read_ranges(h, table));
    QB_TRY(read_samples(h, table));
    QB_TRY(read_all_channels(h, table));
    QB_TRY(read_bins(h, bins, table));
    QB_TRY(check_entries(h, table));
    *out = QB_MOVE(table);
    return QB_OK;
}

static qb_status read_image(qb_h5 *h, const void *bytes, size_t size, qb_table **out) {
    QB_RELEASED(qb_h5_close) hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(access, 4096, false);
    H5Pset_file_image(access, (void *)(uintptr_t)bytes, size); /* copies; is not written to */
    h->file = H5Fopen("table", H5F_ACC_RDONLY, access);
    qb_status status = h->file < 0 ? qb_h5_fail(h, QB_STATUS_FORMAT, "open") : read_all(h, out);
    if (h->file >= 0) H5Fclose(h->file);
    return status;
}

typedef struct image {
    const char *name;
    const void *data;
    size_t size;
} image;

static qb_status parse(qb_ctx *cx, const image *from, qb_table **out) {
    qb_h5 h = {cx, from->name, -1, from->size};
    qb_status status;
    qb_h5_lock();
    H5E_BEGIN_TRY { status = read_image(&h, from->data, from->size, out); }
    H5E_END_TRY
    qb_h5_unlock();
    return status;
}

/* The library may not outlive these bytes: a process of its own looks whether it does. */
static qb_status parse_apart(qb_ctx *cx, void *work, const int64_t ask[QB_APART_ASK], void *out,
                             size_t n) {
    const image *from = work;
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    (void)ask, (void)out, (void)n;
    qb_apart_allow(APART_BYTES + 4 * from->size, APART_SECONDS);
    QB_TRY(parse(cx, from, &table));
    return QB_OK;
}

qb_status qb_table_parse(qb_ctx *cx, const char *name, const void *data, size_t size,
                         qb_table **out) {
    image from = {name, data, size};
    const qb_h5 h = {cx, name, -1, size};
    QB_TRY(check_user_block(&h, data, size));
    QB_TRY(qb_apart_try(cx, name, parse_apart, &from));
    return parse(cx, &from, out);
}

qb_status qb_table_load(qb_ctx *cx, const char *path, qb_table **out) {
    QB_FREED char *bytes = NULL;
    size_t size = 0;
    QB_TRY(qb_file_read(cx, path, FILE_LIMIT, &bytes, &size));
    return qb_table_parse(cx, path, bytes, size, out);
}
