/* How fast image files are read: bench_decode FOLDER [SECONDS].
 *
 * By the processor and by the GPU's JPEG engines, alternating: files to pixels (read, hash, decode)
 * by as many threads as there are processors, or as the decoder wants; and the loader, which also
 * resizes to 256 and crops to 224. Prints JSON: medians over five rounds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/sort.h"
#include "datasets/decoder.h"
#include "datasets/loader.h"

enum { ROUNDS = 5, SIDE = 224, THREADS_MAX = 1024 };

typedef struct reading {
    const qb_dataset *dataset;
    double until;
    atomic_llong next;
} reading;

static void *read_files(void *argument) {
    reading *r = argument;
    qb_ctx cx;
    qb_ctx_init(&cx);
    while (qb_now() < r->until) {
        qb_image image;
        qb_hash hash;
        const int64_t i = r->next++ % qb_dataset_count(r->dataset);
        if (qb_dataset_read(&cx, r->dataset, i, &image, &hash) == QB_OK) qb_image_release(&image);
    }
    return NULL;
}

/* Files a second. */
static double time_reading(const qb_dataset *dataset, int threads, double seconds) {
    pthread_t thread[THREADS_MAX];
    const double start = qb_now();
    reading r = {.dataset = dataset, .until = start + seconds};
    int n = 0;
    while (n < threads && n < THREADS_MAX && pthread_create(&thread[n], NULL, read_files, &r) == 0)
        n++;
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    return (double)r.next / (qb_now() - start);
}

static qb_status run_loader(qb_ctx *cx, const qb_loader_options *options, double *seconds) {
    qb_loader *loader;
    qb_batch batch = {.n = 1};
    const double start = qb_now();
    QB_TRY(qb_loader_create(cx, options, &loader));
    qb_status status = QB_OK;
    while (status == QB_OK && batch.n > 0) {
        status = qb_loader_next(cx, loader, &batch);
        const int32_t n = batch.n;
        qb_loader_give_back(loader, &batch);
        batch.n = n;
    }
    qb_loader_free(loader);
    *seconds += qb_now() - start;
    return status;
}

/* Samples a second. */
static qb_status time_loader(qb_ctx *cx, const qb_dataset *dataset, double seconds, double *out) {
    qb_loader_options options = {.dataset = dataset,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .batch = 1,
                                 .threads = qb_threads(cx),
                                 .prefetch = 2 * qb_threads(cx)};
    qb_preprocess_default(&options.preprocess);
    options.preprocess.resize = QB_RESIZE_SHORT_SIDE;
    options.preprocess.resize_width = 256;
    options.preprocess.crop_width = options.preprocess.crop_height = SIDE;
    double spent = 0;
    int64_t n = 0;
    while (spent < seconds) {
        QB_TRY(run_loader(cx, &options, &spent));
        n += qb_dataset_count(dataset);
    }
    *out = (double)n / spent;
    return QB_OK;
}

static qb_status measure(qb_ctx *cx, const char *folder, double seconds) {
    static const char *const name[] = {"cpu", "nvjpeg"};
    qb_dataset *dataset[2] = {NULL, NULL};
    double rate[4][ROUNDS] = {{0}};
    qb_status status = QB_OK;
    for (int d = 0; d < 2; d++)
        QB_GO(qb_dataset_open(cx, folder, &(qb_dataset_options){.decoder = name[d]}, &dataset[d]));
    for (int r = 0; r < ROUNDS; r++)
        for (int d = 0; d < 2; d++) {
            rate[d][r] = time_reading(dataset[d], qb_threads(cx) + d * QB_DECODER_CALLERS, seconds);
            QB_GO(time_loader(cx, dataset[d], seconds, &rate[2 + d][r]));
        }
    for (int k = 0; k < 4; k++) qb_sort_doubles(rate[k], ROUNDS);
    printf("{\"samples\": %lld, \"processors\": %d, \"rounds\": %d,\n"
           " \"decode\": {\"cpu\": %.0f, \"nvjpeg\": %.0f},\n"
           " \"loader\": {\"cpu\": %.0f, \"nvjpeg\": %.0f}}\n",
           (long long)qb_dataset_count(dataset[0]), qb_threads(cx), ROUNDS, rate[0][ROUNDS / 2],
           rate[1][ROUNDS / 2], rate[2][ROUNDS / 2], rate[3][ROUNDS / 2]);
out:
    for (int d = 0; d < 2; d++) qb_dataset_close(dataset[d]);
    return status;
}

int main(int argc, char **argv) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER [SECONDS]\n", argv[0]);
        return 2;
    }
    if (measure(&cx, argv[1], argc > 2 ? atof(argv[2]) : 1) == QB_OK) return 0;
    fprintf(stderr, "%s: %s\n", argv[0], cx.message);
    return 1;
}
