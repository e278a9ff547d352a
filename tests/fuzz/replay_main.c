/* Runs a fuzz target over every file of the given folders, so that a corpus is a regression test in
 * every build: fuzz_x_replay [--mutations N] [--failing N] FOLDER... With mutations each file is
 * also tried N times with bytes changed, cut off or doubled, always the same ones, and as often
 * with changes of the target's own mutator where it has one. With failing each of its allocations
 * fails once, or N of them, evenly: nothing may fault or be kept. Exit 77 without any file. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "failing_alloc.h"

#define FILE_LIMIT ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
    __attribute__((weak));

/* On memory of exactly `size` bytes, so that address checkers see a read behind the end. */
static void run_copy(const void *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_mutations(const char *data, size_t size, int count) {
    qb_rng rng;
    qb_hash hash = qb_hash_bytes(data, size);
    uint64_t seed;
    memcpy(&seed, hash.byte, sizeof seed);
    qb_rng_seed(&rng, seed);
    uint8_t *changed = malloc(2 * size + 1);
    if (!changed) abort();
    for (int i = 0; i < count && size > 0; i++) {
        size_t n = size;
        memcpy(changed, data, size);
        switch (qb_rng_below(&rng, 4)) {
        case 0: n = (size_t)qb_rng_below(&rng, size); break; /* cut off */
        case 1: {                                            /* a stretch twice */
            size_t from = (size_t)qb_rng_below(&rng, size);
            memcpy(changed + size, data + from, size - from);
            n = 2 * size - from;
            break;
        }
        default: break;
        }
        uint64_t edits = 1 + qb_rng_below(&rng, 8);
        for (uint64_t k = 0; k < edits && n > 0; k++)
            changed[qb_rng_below(&rng, n)] = (uint8_t)qb_rng_u64(&rng);
        run_copy(changed, n);
    }
    free(changed);
}

static void run_own_mutations(const char *data, size_t size, int count) {
    uint8_t *changed = malloc(2 * size + 1);
    if (!changed) abort();
    for (int i = 0; i < count; i++) {
        if (size) memcpy(changed, data, size);
        run_copy(changed, LLVMFuzzerCustomMutator(changed, size, 2 * size, (unsigned)i));
    }
    free(changed);
}

/* What a library makes once and keeps is no more in the second run. */
static bool keeps_memory(const uint8_t *data, size_t size, long fail_at) {
    for (int i = 0; i < 2; i++) {
        const qb_failing run = qb_failing_run(data, size, fail_at);
        if (run.ended || run.kept <= 0) return false;
    }
    return true;
}

static void run_failing(const char *data, size_t size, int count, long tried[2]) {
    const qb_failing plain = qb_failing_run((const uint8_t *)data, size, 0);
    const long step = plain.made / (count > 0 ? count : 1) + 1;
    for (long at = 1; count > 0 && at <= plain.made; at += step) {
        const qb_failing run = qb_failing_run((const uint8_t *)data, size, at);
        tried[0]++;
        tried[1] += run.ended;
        if (run.ended || run.kept <= 0 || !keeps_memory((const uint8_t *)data, size, at)) continue;
        fprintf(stderr, "allocation %ld of %ld fails: %ld blocks are kept\n", at, plain.made,
                run.kept);
        exit(1);
    }
}

static int run_folder(qb_ctx *cx, const char *folder, int mutations, int failing, long tried[2]) {
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort), files = 0;
    if (n < 0) {
        printf("no corpus %s\n", folder);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        bool wanted = entries[i]->d_name[0] != '.' && !qb_path_is_dir(path);
        free(entries[i]);
        if (!wanted) continue;
        char *data;
        size_t size;
        if (qb_file_read(cx, path, FILE_LIMIT, &data, &size) != QB_OK) {
            fprintf(stderr, "%s\n", cx->message);
            exit(1);
        }
        fprintf(stderr, "%s\n", path); /* the last line before a crash names the file */
        run_copy(data, size);
        run_mutations(data, size, mutations);
        run_failing(data, size, failing, tried);
        if (LLVMFuzzerCustomMutator) run_own_mutations(data, size, mutations);
        qb_free(data);
        files++;
    }
    free(entries);
    return files;
}

int main(int argc, char **argv) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    int files = 0, mutations = 0, failing = 0;
    long tried[2] = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mutations") == 0 && i + 1 < argc)
            mutations = atoi(argv[++i]);
        else if (strcmp(argv[i], "--failing") == 0 && i + 1 < argc)
            failing = atoi(argv[++i]);
        else
            files += run_folder(&cx, argv[i], mutations, failing, tried);
    }
    printf("%d files, %d mutations of each; %ld allocations failed, %ld runs ended there\n", files,
           mutations, tried[0], tried[1]);
    if (files == 0) printf("skipped: there is no corpus\n");
    return files ? 0 : 77;
}
