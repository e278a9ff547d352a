#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "datasets/loader.h"
#include "fixture.h"

enum { SAMPLES = 23, SIDE = 12, ROW = 3 * SIDE * SIDE };

static char folder[QB_TEST_PATH];

/* SAMPLES images of different sizes; those in `bad` are damaged in different ways. */
static void make_set(const char *bad) {
    qb_test_temp_dir(folder);
    for (int i = 0; i < SAMPLES; i++) {
        char name[32], path[QB_TEST_PATH];
        snprintf(name, sizeof name, "s%02d.jpg", i);
        fixture_photo(folder, name, 16 + 7 * (i % 5), 14 + 11 * (i % 3), i);
        if (bad[i] == '.') continue;
        qb_test_join(path, folder, name);
        if (bad[i] == 'c') assert_int_equal(truncate(path, 200), 0);
        if (bad[i] == 'e') assert_int_equal(truncate(path, 0), 0);
        if (bad[i] == 't') fixture_text(folder, name, "text");
    }
}

#define NONE_BAD "......................."
#define SOME_BAD "c...t......ee.........c"
#define ALL_BAD "ccccccccccccccccccccccc"

static qb_dataset *open_set(void) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set;
    assert_ok(&cx, qb_dataset_open(&cx, folder, NULL, &set));
    return set;
}

static qb_loader_options options_for(const qb_dataset *set, int batch, int threads, int prefetch) {
    qb_loader_options o = {.dataset = set,
                           .height = SIDE,
                           .width = SIDE,
                           .batch = batch,
                           .threads = threads,
                           .prefetch = prefetch};
    qb_preprocess_for_shape(&o.preprocess, 3, SIDE, SIDE);
    o.preprocess.mean[0] = 3;
    return o;
}

/* All that a loader delivers, as one row of samples. */
typedef struct delivery {
    int n, batches;
    int64_t index[SAMPLES];
    float data[SAMPLES][ROW];
    int sizes[SAMPLES];
    int64_t skipped;
    qb_hash hash;
} delivery;

static void load_all(const qb_loader_options *o, delivery *d) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_loader *loader;
    memset(d, 0, sizeof *d);
    assert_ok(&cx, qb_loader_create(&cx, o, &loader));
    assert_true(qb_hash_is_zero(qb_loader_hash(loader)));
    for (;;) {
        qb_batch batch;
        assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
        if (batch.n == 0) break;
        for (int i = 0; i < batch.n; i++) {
            assert_true(d->n < SAMPLES);
            assert_int_equal(batch.label[i], -1);
            d->index[d->n] = batch.index[i];
            memcpy(d->data[d->n++], batch.data + (size_t)i * ROW, sizeof d->data[0]);
        }
        for (int i = batch.n * ROW; i < o->batch * ROW; i++)
            assert_float_equal(batch.data[i], 0, 0);
        d->sizes[d->batches++] = batch.n;
        qb_loader_give_back(loader, &batch);
        qb_loader_give_back(loader, &batch); /* accepts zeroed */
    }
    d->skipped = qb_loader_skipped(loader);
    d->hash = qb_loader_hash(loader);
    qb_loader_free(loader);
}

static void expect_equal(const delivery *a, const delivery *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->index, b->index, sizeof a->index);
    assert_memory_equal(a->data, b->data, sizeof a->data);
    assert_int_equal(a->skipped, b->skipped);
    assert_true(qb_hash_equal(a->hash, b->hash));
}

static void batches_are_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    make_set(SOME_BAD);
    qb_dataset *set = open_set();
    static delivery one, other;
    qb_loader_options o = options_for(set, 4, 1, 1);
    load_all(&o, &one);
    assert_int_equal(one.n, SAMPLES - 5);
    for (int threads = 1; threads <= 8; threads *= 2) {
        for (int prefetch = 1; prefetch <= 3; prefetch++) {
            o = options_for(set, 4, threads, prefetch);
            load_all(&o, &other);
            expect_equal(&one, &other);
            assert_memory_equal(one.sizes, other.sizes, sizeof one.sizes);
        }
    }
    qb_dataset_close(set);
}

/* Rounded once, from the same f32; also where each image keeps its size. */
static void half_inputs_get_what_f32_rounds_to(void **state) {
    (void)state;
    make_set(NONE_BAD);
    qb_dataset *set = open_set();
    qb_loader_options o = options_for(set, 5, 2, 2);
    qb_ctx cx;
    qb_loader *loader;
    static delivery all;
    load_all(&o, &all);
    o.dtype = QB_DTYPE_F16;
    qb_ctx_init(&cx);
    for (int open = 0; open < 2; open++) {
        qb_batch batch;
        int n = 0;
        o.any_size = open;
        if (open) o.height = o.width = 0;
        assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
        for (;;) {
            assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
            if (batch.n == 0) break;
            assert_null(batch.data);
            for (int i = 0; i < batch.n; i++, n++) {
                assert_int_equal(batch.input[i].desc.dtype, QB_DTYPE_F16);
                const uint16_t *half = batch.input[i].data;
                for (int k = 0; k < ROW; k++)
                    assert_int_equal(half[k], qb_f32_to_f16(all.data[n][k]));
            }
            qb_loader_give_back(loader, &batch);
        }
        assert_int_equal(n, SAMPLES);
        assert_true(qb_hash_equal(qb_loader_hash(loader), all.hash));
        qb_loader_free(loader);
    }
    o.dtype = QB_DTYPE_U8;
    qb_batch batch;
    assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
    assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
    assert_int_equal(batch.input[0].desc.dtype, QB_DTYPE_U8);
    for (int k = 0; k < ROW; k++) {
        const float wide = all.data[0][k] < 0 ? 0 : all.data[0][k] > 255 ? 255 : all.data[0][k];
        assert_float_equal(((const uint8_t *)batch.input[0].data)[k], wide, 0.5);
    }
    qb_loader_give_back(loader, &batch);
    qb_loader_free(loader);
    o.dtype = QB_DTYPE_U16;
    assert_fails(&cx, qb_loader_create(&cx, &o, &loader), QB_STATUS_INVALID);
    qb_dataset_close(set);
}

static void rows_are_what_preprocessing_gives(void **state) {
    (void)state;
    make_set(NONE_BAD);
    qb_dataset *set = open_set();
    qb_loader_options o = options_for(set, 5, 2, 2);
    static delivery all;
    load_all(&o, &all);
    assert_int_equal(all.n, SAMPLES);
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int i = 0; i < SAMPLES; i++) {
        qb_image image;
        float expected[ROW];
        assert_int_equal(all.index[i], i);
        assert_ok(&cx, qb_dataset_read(&cx, set, i, &image, NULL));
        assert_ok(&cx, qb_preprocess_image(&cx, &o.preprocess, &image, SIDE, SIDE, expected));
        assert_memory_equal(all.data[i], expected, sizeof expected);
        qb_image_release(&image);
    }
    qb_dataset_close(set);
}

static void skipped_samples_leave_no_holes_and_are_named(void **state) {
    (void)state;
    make_set(SOME_BAD);
    qb_dataset *set = open_set();
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    qb_log log;
    qb_log_init(&log, stream, QB_LEVEL_WARN, true);
    qb_ctx cx;
    qb_ctx_init(&cx);
    cx.log = &log;
    qb_loader_options o = options_for(set, 5, 3, 2);
    qb_loader *loader;
    assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
    static const int sizes[] = {5, 5, 5, 3, 0};
    for (int i = 0; i < 5; i++) {
        qb_batch batch;
        assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
        assert_int_equal(batch.n, sizes[i]);
        qb_loader_give_back(loader, &batch);
    }
    assert_int_equal(qb_loader_skipped(loader), 5);
    qb_loader_free(loader);
    fclose(stream);
    const char *at = text; /* in the order of the data set */
    static const char *const names[] = {"s00.jpg", "s04.jpg", "s11.jpg", "s12.jpg", "s22.jpg"};
    for (int i = 0; i < 5; i++) {
        at = strstr(at, names[i]);
        assert_non_null(at);
        at += strlen(names[i]) + 1;
    }
    assert_non_null(strstr(text, "skipped sample 's04.jpg': "));
    assert_non_null(strstr(text, "neither JPEG nor PNG"));
    free(text);
    qb_dataset_close(set);
}

static void strict_gives_the_batches_before_and_then_the_error(void **state) {
    (void)state;
    make_set(".........t...t.........");
    qb_dataset *set = open_set();
    for (int threads = 1; threads <= 4; threads++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_loader_options o = options_for(set, 4, threads, 2);
        o.strict = true;
        qb_loader *loader;
        assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
        qb_batch batch;
        for (int i = 0; i < 2; i++) {
            assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
            assert_int_equal(batch.n, 4);
            assert_int_equal(batch.index[3], 4 * i + 3);
            qb_loader_give_back(loader, &batch);
        }
        for (int i = 0; i < 2; i++) { /* and it stays that way */
            assert_fails(&cx, qb_loader_next(&cx, loader, &batch), QB_STATUS_FORMAT);
            assert_message(&cx, "sample 's09.jpg': ");
            assert_int_equal(batch.n, 0);
        }
        qb_loader_free(loader);
    }
    qb_dataset_close(set);
}

static void no_usable_sample_is_an_error(void **state) {
    (void)state;
    make_set(ALL_BAD);
    qb_dataset *set = open_set();
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_loader_options o = options_for(set, 4, 2, 2);
    qb_loader *loader;
    qb_batch batch;
    assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
    assert_fails(&cx, qb_loader_next(&cx, loader, &batch), QB_STATUS_FORMAT);
    assert_message(&cx, "no usable sample: all 23");
    assert_int_equal(qb_loader_skipped(loader), SAMPLES);
    qb_loader_free(loader);
    qb_dataset_close(set);
}

static void wrong_size_is_an_error_not_a_skipped_sample(void **state) {
    (void)state;
    make_set(NONE_BAD);
    qb_dataset *set = open_set();
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_loader_options o = options_for(set, 4, 2, 2);
    o.preprocess.resize = QB_RESIZE_NONE;
    qb_loader *loader;
    qb_batch batch;
    assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
    assert_fails(&cx, qb_loader_next(&cx, loader, &batch), QB_STATUS_INVALID);
    assert_message(&cx, "sample 's00.jpg': an image of 16x14 pixels");
    assert_int_equal(qb_loader_skipped(loader), 0);
    qb_loader_free(loader);
    qb_dataset_close(set);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    make_set(NONE_BAD);
    qb_dataset *set = open_set();
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_loader *loader = NULL;
    for (int k = 0; k < 4; k++) {
        qb_loader_options o = options_for(set, k != 0, k != 1, k != 2);
        if (k == 3) o.preprocess.std[0] = 0;
        assert_fails(&cx, qb_loader_create(&cx, &o, &loader), QB_STATUS_INVALID);
    }
    qb_loader_options o = options_for(set, 1, 1, 1);
    o.width = 1 << 30;
    assert_fails(&cx, qb_loader_create(&cx, &o, &loader), QB_STATUS_UNSUPPORTED);
    assert_null(loader);
    qb_loader_free(NULL);
    qb_dataset_close(set);
}

static void hash_depends_on_content_alone(void **state) {
    (void)state;
    make_set(NONE_BAD);
    qb_dataset *set = open_set();
    static delivery first, second;
    qb_loader_options o = options_for(set, 4, 2, 1);
    load_all(&o, &first);
    o = options_for(set, 23, 1, 1);
    load_all(&o, &second);
    assert_true(qb_hash_equal(first.hash, second.hash));
    qb_dataset_close(set);

    /* the same files under other names, in another order */
    char text[QB_TEST_PATH] = "";
    for (int i = SAMPLES; i-- > 0;) {
        char line[32];
        snprintf(line, sizeof line, "s%02d.jpg 7\n", i);
        strcat(text, line);
    }
    fixture_text(folder, "back.txt", text);
    strcat(text, "s03.jpg 7\ns03.jpg 7\n");
    fixture_text(folder, "more.txt", text);
    static const char *const lists[] = {"back.txt", "more.txt"};
    for (int k = 0; k < 2; k++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        char path[QB_TEST_PATH];
        qb_test_join(path, folder, lists[k]);
        assert_ok(&cx, qb_dataset_open(&cx, path, NULL, &set));
        o = options_for(set, 25, 2, 1);
        qb_loader *loader;
        qb_batch batch;
        assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
        assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
        assert_int_equal(batch.n, k ? 25 : 23);
        assert_int_equal(batch.label[0], 7);
        assert_int_equal(qb_hash_equal(qb_loader_hash(loader), first.hash), k == 0);
        qb_loader_free(loader); /* with the batch still held */
        qb_dataset_close(set);
    }
}

static void stops_in_the_middle(void **state) {
    (void)state;
    make_set(SOME_BAD);
    qb_dataset *set = open_set();
    for (int batches = 0; batches < 4; batches++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_loader_options o = options_for(set, 2, 4, 3);
        qb_loader *loader;
        assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
        for (int i = 0; i < batches; i++) {
            qb_batch batch;
            assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
            if (i % 2) qb_loader_give_back(loader, &batch);
        }
        qb_loader_free(loader);
    }
    qb_dataset_close(set);
}

static void cancellation_is_noticed_while_waiting(void **state) {
    (void)state;
    make_set(NONE_BAD);
    qb_dataset *set = open_set();
    volatile sig_atomic_t cancel = 0;
    qb_ctx cx;
    qb_ctx_init(&cx);
    cx.cancel = &cancel;
    qb_loader_options o = options_for(set, 2, 1, 1);
    qb_loader *loader;
    qb_batch held[2], batch;
    assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
    for (int i = 0; i < 2; i++) assert_ok(&cx, qb_loader_next(&cx, loader, &held[i]));
    cancel = 1; /* there is no free batch: without it this would wait for ever */
    assert_fails(&cx, qb_loader_next(&cx, loader, &batch), QB_STATUS_CANCELLED);
    qb_loader_free(loader);
    qb_dataset_close(set);
}

typedef struct consumer {
    qb_loader *loader;
    pthread_t thread;
    int n;
    bool seen[SAMPLES];
    bool ordered;
} consumer;

static void *consume(void *argument) {
    consumer *c = argument;
    qb_ctx cx;
    qb_ctx_init(&cx);
    int64_t last = -1;
    c->ordered = true;
    for (;;) {
        qb_batch batch;
        if (qb_loader_next(&cx, c->loader, &batch) != QB_OK || batch.n == 0) return NULL;
        for (int i = 0; i < batch.n; i++) {
            c->ordered = c->ordered && batch.index[i] > last;
            last = batch.index[i];
            c->seen[last] = true;
            c->n++;
        }
        qb_loader_give_back(c->loader, &batch);
    }
}

static void several_consumers_share_the_batches(void **state) {
    (void)state;
    make_set(SOME_BAD);
    qb_dataset *set = open_set();
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_loader_options o = options_for(set, 2, 2, 2);
    qb_loader *loader;
    assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
    consumer c[3] = {{.loader = loader}, {.loader = loader}, {.loader = loader}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&c[i].thread, NULL, consume, &c[i]), 0);
    int n = 0;
    for (int i = 0; i < 3; i++) {
        pthread_join(c[i].thread, NULL);
        assert_true(c[i].ordered);
        n += c[i].n;
    }
    assert_int_equal(n, SAMPLES - 5);
    const char *bad = SOME_BAD;
    for (int k = 0; k < SAMPLES; k++)
        assert_int_equal(c[0].seen[k] + c[1].seen[k] + c[2].seen[k], bad[k] == '.');
    qb_loader_free(loader);
    qb_dataset_close(set);
}

static qb_status create_once(qb_ctx *cx, void *user) {
    qb_loader_options o = options_for(user, 2, 2, 1);
    qb_loader *loader = NULL;
    qb_status status = qb_loader_create(cx, &o, &loader);
    qb_loader_free(loader);
    return status;
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    make_set(NONE_BAD);
    qb_dataset *set = open_set();
    assert_true(qb_test_alloc_sweep(create_once, set) >= 10);
    qb_dataset_close(set);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(batches_are_the_same_for_any_number_of_threads),
    cmocka_unit_test(rows_are_what_preprocessing_gives),
    cmocka_unit_test(half_inputs_get_what_f32_rounds_to),
    cmocka_unit_test(skipped_samples_leave_no_holes_and_are_named),
    cmocka_unit_test(strict_gives_the_batches_before_and_then_the_error),
    cmocka_unit_test(no_usable_sample_is_an_error),
    cmocka_unit_test(wrong_size_is_an_error_not_a_skipped_sample),
    cmocka_unit_test(bad_options_are_refused),
    cmocka_unit_test(hash_depends_on_content_alone),
    cmocka_unit_test(stops_in_the_middle),
    cmocka_unit_test(cancellation_is_noticed_while_waiting),
    cmocka_unit_test(several_consumers_share_the_batches),
    cmocka_unit_test(every_failed_allocation_is_reported),
};
QB_TEST_MAIN(tests)
