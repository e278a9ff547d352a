/* The GPU's JPEG engines against libjpeg: pixels, whatever else is decoded beside a file; errors;
 * files that are not for them. Skips without a device that has some. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/rng.h"
#include "datasets/decoder.h"
#include "qb_test.h"

/* Chroma between its samples is rounded elsewhere than libjpeg does: a pixel here and there is one
 * off, after the change to RGB perhaps two. */
#define MOST_OFF 2
#define MEAN_OFF 0.05
#define THREADS 32
#define FILES_MAX 500

static qb_decoder *need_decoder(qb_ctx *cx) {
    const qb_jpeg_batch_api *api;
    qb_decoder *decoder;
    assert_ok(cx, qb_decoder_find(cx, "nvjpeg", &api));
    if (qb_decoder_open(cx, api, 0, &decoder) == QB_OK) return decoder;
    assert_int_equal(cx->code, QB_STATUS_UNSUPPORTED);
    qb_test_skip("%s", cx->message);
    return NULL;
}

typedef struct form {
    int width, height, channels, across, down, quality, restart;
    bool progressive;
} form;

/* Smooth colours with noise on them. */
static void encode(qb_rng *rng, const form *f, unsigned char **data, unsigned long *size) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    jpeg.err = jpeg_std_error(&error);
    jpeg_create_compress(&jpeg);
    *data = NULL;
    *size = 0;
    jpeg_mem_dest(&jpeg, data, size);
    jpeg.image_width = (JDIMENSION)f->width;
    jpeg.image_height = (JDIMENSION)f->height;
    jpeg.input_components = f->channels;
    jpeg.in_color_space = f->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, f->quality, TRUE);
    jpeg.comp_info[0].h_samp_factor = f->across;
    jpeg.comp_info[0].v_samp_factor = f->down;
    jpeg.restart_interval = (unsigned)f->restart;
    if (f->progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    unsigned char *row = malloc((size_t)(f->width * f->channels));
    for (int y = 0; y < f->height; y++) {
        for (int x = 0; x < f->width; x++)
            for (int c = 0; c < f->channels; c++)
                row[x * f->channels + c] = (unsigned char)((x * (3 + c) + y * (5 - c)) / 4 % 220 +
                                                           (int)qb_rng_below(rng, 30));
        JSAMPROW rows[] = {row};
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(row);
}

static void compare(const char *what, const qb_image *got, const qb_image *expected, int most,
                    double mean) {
    assert_int_equal(got->width, expected->width);
    assert_int_equal(got->height, expected->height);
    assert_int_equal(got->channels, expected->channels);
    const size_t n = (size_t)got->width * (size_t)got->height * (size_t)got->channels;
    int worst = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const int off = abs((int)got->pixel[i] - (int)expected->pixel[i]);
        if (off > worst) worst = off;
        sum += off;
    }
    if (worst > most || sum / (double)n > mean)
        fail_msg("%s: off by at most %d, by %.4f on average", what, worst, sum / (double)n);
}

static void check(qb_ctx *cx, qb_decoder *decoder, const char *what, const uint8_t *data,
                  size_t size, int most, double mean) {
    qb_image got, expected;
    assert_ok(cx, qb_image_decode(cx, what, data, size, &expected));
    assert_ok(cx, qb_decoder_decode(cx, decoder, what, data, size, &got));
    compare(what, &got, &expected, most, mean);
    qb_image_release(&got);
    qb_image_release(&expected);
}

static void pixels_are_libjpegs_almost(void **state) {
    (void)state;
    static const int sides[][2] = {{224, 224}, {223, 227}, {500, 333}, {64, 48}, {17, 3}, {1, 1}};
    static const int chroma[][2] = {{1, 1}, {2, 2}, {2, 1}, {1, 2}};
    static const int qualities[] = {50, 90, 100};
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_rng rng;
    qb_rng_seed(&rng, 7);
    qb_decoder *decoder = need_decoder(&cx);
    for (int s = 0; s < 6; s++)
        for (int c = 0; c < 4; c++)
            for (int q = 0; q < 3; q++)
                for (int restart = 0; restart < 8; restart += 7) {
                    const form f = {sides[s][0],  sides[s][1],  3,       chroma[c][0],
                                    chroma[c][1], qualities[q], restart, false};
                    char what[64];
                    unsigned char *data;
                    unsigned long size;
                    qb_jpeg_job job;
                    snprintf(what, sizeof what, "%dx%d, luma %dx%d, quality %d, restart %d",
                             f.width, f.height, f.across, f.down, f.quality, f.restart);
                    encode(&rng, &f, &data, &size);
                    assert_true(qb_jpeg_plain(data, size, &job));
                    /* Full chroma leaves nothing to interpolate. */
                    check(&cx, decoder, what, data, size, c == 0 ? 0 : MOST_OFF,
                          c == 0 ? 0 : MEAN_OFF);
                    free(data);
                }
    qb_decoder_close(decoder);
}

static void other_files_are_the_processors(void **state) {
    (void)state;
    static const form forms[] = {{64, 48, 1, 1, 1, 90, 0, false},
                                 {64, 48, 3, 2, 2, 90, 0, true},
                                 {64, 48, 3, 4, 1, 90, 0, false}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_rng rng;
    qb_rng_seed(&rng, 8);
    qb_decoder *decoder = need_decoder(&cx);
    for (int i = 0; i < 3; i++) {
        unsigned char *data;
        unsigned long size;
        qb_image image;
        encode(&rng, &forms[i], &data, &size);
        check(&cx, decoder, "other", data, size, 0, 0);
        assert_fails(&cx, qb_decoder_decode(&cx, decoder, "cut.jpg", data, size / 2, &image),
                     QB_STATUS_FORMAT);
        assert_message(&cx, "cut.jpg: JPEG");
        qb_ctx_clear(&cx);
        free(data);
    }
    qb_decoder_close(decoder);
}

/* ---- many at once ---- */

typedef struct files {
    qb_ctx cx;
    qb_decoder *decoder;
    unsigned char **data;
    unsigned long *size;
    qb_image *image;
    int n, first, step;
} files;

static void *decode_some(void *argument) {
    files *f = argument;
    for (int i = f->first; i < f->n; i += f->step)
        assert_ok(&f->cx,
                  qb_decoder_decode(&f->cx, f->decoder, "x", f->data[i], f->size[i], &f->image[i]));
    return NULL;
}

static void decode_all(const files *all, int threads, qb_image *image) {
    pthread_t thread[THREADS];
    static files part[THREADS];
    for (int i = 0; i < threads; i++) {
        part[i] = *all;
        part[i].image = image;
        part[i].first = i;
        part[i].step = threads;
        qb_ctx_init(&part[i].cx);
        assert_int_equal(pthread_create(&thread[i], NULL, decode_some, &part[i]), 0);
    }
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

/* Files whose quantized values are damaged lie among the others; what becomes of these is compared.
 */
static void neighbours_are_of_no_consequence(void **state) {
    (void)state;
    enum { N = 300 };
    static unsigned char *data[N];
    static unsigned long size[N];
    static qb_image alone[N], together[N];
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_rng rng;
    qb_rng_seed(&rng, 9);
    files all = {.decoder = need_decoder(&cx), .data = data, .size = size, .n = N};
    for (int i = 0; i < N; i++) {
        const form f = {40 + (int)qb_rng_below(&rng, 400),
                        40 + (int)qb_rng_below(&rng, 400),
                        3,
                        1 + (int)qb_rng_below(&rng, 2),
                        1 + (int)qb_rng_below(&rng, 2),
                        60 + (int)qb_rng_below(&rng, 40),
                        0,
                        false};
        encode(&rng, &f, &data[i], &size[i]);
    }
    decode_all(&all, 1, alone);
    decode_all(&all, THREADS, together);
    for (int i = 0; i < N; i++) {
        compare("among others", &together[i], &alone[i], 0, 0);
        qb_image_release(&together[i]);
        qb_image_release(&alone[i]);
        free(data[i]);
    }
    qb_decoder_close(all.decoder);
}

/* A byte of the quantized values is another one. What libjpeg decodes with a warning, the engines
 * may take: how often is printed. Whole files must still come out right afterwards. */
static void damaged_codes_do_no_harm(void **state) {
    (void)state;
    enum { ROUNDS = 200 };
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_rng rng;
    qb_rng_seed(&rng, 10);
    qb_decoder *decoder = need_decoder(&cx);
    int refused = 0, missed = 0, harmless = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const form f = {160, 120, 3, 2, 2, 85, 0, false};
        unsigned char *data;
        unsigned long size;
        qb_image image, expected;
        encode(&rng, &f, &data, &size);
        check(&cx, decoder, "whole", data, size, MOST_OFF, MEAN_OFF);
        unsigned long at = size / 3 + qb_rng_below(&rng, size / 2);
        data[at] = (unsigned char)(data[at] ^ (1u << qb_rng_below(&rng, 8)));
        const bool bad = qb_image_decode(&cx, "x", data, size, &expected) != QB_OK;
        qb_ctx_clear(&cx);
        const bool taken = qb_decoder_decode(&cx, decoder, "x", data, size, &image) == QB_OK;
        if (!taken) assert_int_equal(cx.code, QB_STATUS_FORMAT);
        qb_ctx_clear(&cx);
        if (!bad && !taken) fail_msg("the engines refuse what libjpeg takes");
        refused += bad && !taken;
        missed += bad && taken;
        harmless += !bad && taken;
        if (taken) qb_image_release(&image);
        if (!bad) qb_image_release(&expected);
        free(data);
    }
    printf("damaged codes: %d refused by both, %d taken although libjpeg refuses, %d by both\n",
           refused, missed, harmless);
    qb_decoder_close(decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_libjpegs_almost),
        cmocka_unit_test(other_files_are_the_processors),
        cmocka_unit_test(neighbours_are_of_no_consequence),
        cmocka_unit_test(damaged_codes_do_no_harm),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
