/* The file: a block of text that says the plan and the position; 64 bits of each sample before
 * that, as the loader saw it; a .calib.h5. */
#include "calib/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "calib/calib.h"

#define BLOCK 512
#define TITLE "qbench checkpoint 2\n"
#define FILE_LIMIT ((size_t)1 << 30)

qb_hash qb_checkpoint_plan(qb_hash model, const qb_loader_options *loader, bool per_channel) {
    char text[512];
    qb_hash chain[2] = {model};
    const int64_t n = qb_dataset_count(loader->dataset);
    qb_loader_text(loader, text, sizeof text);
    if (per_channel) chain[0] = qb_hash_bytes(chain, sizeof chain);
    chain[1] = qb_hash_bytes(text, strlen(text));
    for (int64_t i = 0; i < n; i++) {
        const char *name = qb_dataset_sample_name(loader->dataset, i);
        chain[0] = qb_hash_bytes(chain, sizeof chain);
        chain[1] = qb_hash_bytes(name, strlen(name));
    }
    return qb_hash_bytes(chain, sizeof chain);
}

/* Statistics that a file can hold; ranges are chosen at the end and are any here. */
static qb_status prepare(qb_ctx *cx, qb_table *table, bool *fit) {
    *fit = table->n_entries > 0;
    for (int32_t i = 0; i < table->n_entries; i++) *fit = *fit && table->entry[i].stats->count > 0;
    qb_method_choice minmax;
    QB_TRY(qb_method_parse(cx, "minmax", &minmax));
    return *fit ? qb_table_choose(cx, table, &minmax, 1) : QB_OK;
}

static qb_status write_file(qb_ctx *cx, const char *path, const char block[BLOCK],
                            const uint64_t *seen, size_t n, const uint8_t *bytes, size_t size) {
    QB_RELEASED(qb_writer_abort) qb_writer writer = {0};
    QB_TRY(qb_writer_open(cx, path, &writer));
    if (fwrite(block, BLOCK, 1, writer.stream) == 1 &&
        fwrite(seen, sizeof *seen, n, writer.stream) == n &&
        fwrite(bytes, size, 1, writer.stream) == 1)
        return qb_writer_commit(cx, &writer);
    return qb_fail_errno(cx, "write %s", path);
}

qb_status qb_checkpoint_save(qb_ctx *cx, const char *path, qb_hash plan,
                             const qb_loader_progress *progress, const uint64_t *seen,
                             qb_table *table) {
    const size_t n = (size_t)progress->next;
    bool fit;
    QB_TRY(prepare(cx, table, &fit));
    if (!fit) return QB_OK;
    table->skipped = progress->skipped;
    table->blank = progress->blank;
    table->data_sum = progress->sum;
    QB_FREED uint8_t *bytes = NULL;
    size_t size;
    QB_TRY(qb_table_write(cx, table, &bytes, &size));
    char block[BLOCK] = {0}, hex[33], seen_hex[33];
    qb_hash_hex(plan, hex);
    qb_hash_hex(qb_hash_bytes(seen, n * sizeof *seen), seen_hex);
    snprintf(block, sizeof block, TITLE "plan %s\nnext %lld\nseen %s\n", hex,
             (long long)progress->next, seen_hex);
    return write_file(cx, path, block, seen, n, bytes, size);
}

/* The samples behind the block; `hex` says their hash. */
static qb_status parse_seen(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                            const char *hex, long long next, uint64_t **out) {
    qb_hash hash;
    const size_t n = next > 0 ? (size_t)next : 0;
    if (next < 0 || n > size / sizeof **out || !qb_hash_parse(hex, &hash) ||
        !qb_hash_equal(hash, qb_hash_bytes(bytes, n * sizeof **out)))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: damaged: the samples that were read", name);
    QB_TRY_NEW(cx, *out = qb_alloc(cx, n + 1, sizeof **out));
    memcpy(*out, bytes, n * sizeof **out);
    return QB_OK;
}

qb_status qb_checkpoint_parse(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                              qb_hash *plan, qb_loader_progress *progress, uint64_t **seen,
                              qb_table **table) {
    char block[BLOCK + 1] = {0}, hex[33], seen_hex[33];
    long long next;
    if (size > BLOCK) memcpy(block, bytes, BLOCK);
    if (strncmp(block, TITLE, strlen(TITLE)) != 0 ||
        sscanf(block + strlen(TITLE), "plan %32[0-9a-f] next %18lld seen %32[0-9a-f]", hex, &next,
               seen_hex) != 3 ||
        !qb_hash_parse(hex, plan))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: not a checkpoint of a calibration", name);
    QB_FREED uint64_t *read = NULL;
    qb_table *t;
    QB_TRY(parse_seen(cx, name, bytes + BLOCK, size - BLOCK, seen_hex, next, &read));
    const size_t begin = BLOCK + (size_t)next * sizeof *read;
    QB_TRY(qb_table_parse(cx, name, bytes + begin, size - begin, &t));
    /* Another place in the data would leave samples out, or count them twice. */
    if (!t->sample || next - t->samples != t->skipped) {
        const qb_status status = qb_fail(
            cx, QB_STATUS_FORMAT,
            "%s: damaged: next: expected the samples, %lld, and those left out, %lld, got %lld",
            name, (long long)t->samples, (long long)t->skipped, next);
        qb_table_free(t);
        return status;
    }
    *progress = (qb_loader_progress){.next = next,
                                     .samples = t->samples,
                                     .skipped = t->skipped,
                                     .blank = t->blank,
                                     .sum = t->data_sum};
    *seen = QB_MOVE(read);
    *table = t;
    return QB_OK;
}

qb_status qb_checkpoint_load(qb_ctx *cx, const char *path, qb_hash plan,
                             qb_loader_progress *progress, uint64_t **seen, qb_table **table) {
    char *bytes;
    size_t size;
    qb_hash got;
    qb_table *t;
    uint64_t *read = NULL;
    QB_TRY(qb_file_read(cx, path, FILE_LIMIT, &bytes, &size));
    qb_status status =
        qb_checkpoint_parse(cx, path, (const uint8_t *)bytes, size, &got, progress, &read, &t);
    qb_free(bytes);
    if (status != QB_OK) return status;
    if (qb_hash_equal(got, plan)) {
        *seen = read;
        *table = t;
        return QB_OK;
    }
    qb_free(read);
    qb_table_free(t);
    return qb_fail(cx, QB_STATUS_MISMATCH,
                   "%s: the checkpoint is of another run (model, data or preprocessing differ): "
                   "remove it, or run without --resume",
                   path);
}
