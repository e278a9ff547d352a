/* Which files a device's decoder may get, and callers who share its batches. The device here is the
 * processor with inverted pixels, so that it shows who decoded a file. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>

#include "datasets/decoder.h"
#include "datasets/loader.h"
#include "fixture.h"
#include "pillow_decode.h"

enum { CALLERS = 24, ROUNDS = 12 };

/* ---- which files ---- */

static bool is_plain(const uint8_t *data, size_t size) {
    qb_jpeg_job job;
    return qb_jpeg_plain(data, size, &job);
}

static void only_plain_files_are_for_a_device(void **state) {
    (void)state;
    qb_jpeg_job job;
    assert_true(qb_jpeg_plain(jpeg_420, sizeof jpeg_420, &job));
    assert_int_equal(job.width, 18);
    assert_int_equal(job.height, 10);
    assert_false(is_plain(jpeg_progressive, sizeof jpeg_progressive));
    assert_false(is_plain(jpeg_cmyk, sizeof jpeg_cmyk));
    uint8_t pixel[16 * 8] = {0};
    fixture_bytes grey = fixture_jpeg(pixel, 16, 8, 1, 90, FIXTURE_PLAIN);
    assert_false(is_plain(grey.data, grey.size));
    free(grey.data);
}

static void no_beginning_of_a_file_is_whole(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof jpeg_420; n++) {
        uint8_t *part = malloc(n + 1); /* of its own size: reading past its end is noticed */
        memcpy(part, jpeg_420, n);
        assert_false(is_plain(part, n));
        free(part);
    }
}

/* 40 x 24 pixels without chroma's half resolution: 15 MCUs, a restart marker after each two. */
static fixture_bytes with_restarts(void) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    unsigned char *data = NULL;
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&error);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &data, &size);
    jpeg.image_width = 40;
    jpeg.image_height = 24;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
    jpeg.restart_interval = 2;
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < 24; y++) {
        unsigned char pixel[40 * 3];
        for (int i = 0; i < 40 * 3; i++) pixel[i] = (unsigned char)(3 * i + 7 * y);
        JSAMPROW row[] = {pixel};
        jpeg_write_scanlines(&jpeg, row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return (fixture_bytes){data, size};
}

static void restart_markers_stand_where_they_belong(void **state) {
    (void)state;
    fixture_bytes file = with_restarts();
    assert_true(is_plain(file.data, file.size));
    int markers = 0;
    for (size_t i = 0; i + 1 < file.size; i++) {
        if (file.data[i] != 0xff || file.data[i + 1] < 0xd0 || file.data[i + 1] > 0xd7) continue;
        markers++;
        file.data[i + 1] ^= 1;
        assert_false(is_plain(file.data, file.size));
        file.data[i + 1] = 0;
        assert_false(is_plain(file.data, file.size));
        file.data[i + 1] = (uint8_t)(0xd0 + (markers - 1) % 8);
    }
    assert_int_equal(markers, 7);
    free(file.data);
}

/* ---- a device ---- */

static atomic_int open_lanes, largest_batch;
static bool broken;

typedef struct fake_lane {
    qb_image image[QB_JPEG_BATCH];
} fake_lane;

static void fake_empty(fake_lane *l) {
    for (int i = 0; i < QB_JPEG_BATCH; i++) qb_image_release(&l->image[i]);
}

static qb_status fake_open(qb_ctx *cx, int32_t device, void **out) {
    if (device == 9) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no device 9");
    *out = qb_alloc(cx, 1, sizeof(fake_lane));
    if (!*out) return cx->code;
    open_lanes++;
    return QB_OK;
}

static void fake_close(void *own) {
    if (!own) return;
    fake_empty(own);
    qb_free(own);
    open_lanes--;
}

/* Files of an odd width are refused. */
static qb_status fake_decode(qb_ctx *cx, void *own, qb_jpeg_job *job, int32_t n) {
    fake_lane *l = own;
    if (broken) return qb_fail(cx, QB_STATUS_INTERNAL, "the device is gone");
    assert_in_range(n, 1, QB_JPEG_BATCH);
    if (n > largest_batch) largest_batch = n;
    usleep(2000);
    fake_empty(l);
    for (int32_t i = 0; i < n; i++) {
        if (job[i].width % 2) continue;
        QB_TRY(qb_image_decode(cx, "fake", job[i].data, job[i].size, &l->image[i]));
        assert_int_equal(l->image[i].width, job[i].width);
        const size_t bytes = (size_t)job[i].width * (size_t)job[i].height * 3;
        for (size_t k = 0; k < bytes; k++) l->image[i].pixel[k] ^= 0xff;
        job[i].pixel = l->image[i].pixel;
    }
    return QB_OK;
}

static const qb_jpeg_batch_api fake = {
    .name = "fake", .open = fake_open, .close = fake_close, .decode = fake_decode};

static fixture_bytes photo(int number) {
    const int width = 20 + number % 7, height = 9 + number % 5;
    uint8_t pixel[26 * 13 * 3];
    for (int i = 0; i < width * height * 3; i++)
        pixel[i] = (uint8_t)(i * (number + 3) / 5 + 11 * number);
    return fixture_jpeg(pixel, width, height, 3, 92, FIXTURE_PLAIN);
}

/* One file through the decoder and through the processor. */
static void check_one(qb_decoder *decoder, int number) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_image image, expected;
    fixture_bytes file = photo(number);
    assert_ok(&cx, qb_image_decode(&cx, "x", file.data, file.size, &expected));
    assert_ok(&cx, qb_decoder_decode(&cx, decoder, "x", file.data, file.size, &image));
    assert_int_equal(image.width, expected.width);
    assert_int_equal(image.height, expected.height);
    assert_int_equal(image.channels, 3);
    const uint8_t flip = image.width % 2 ? 0 : 0xff;
    for (int i = 0; i < image.width * image.height * 3; i++)
        assert_int_equal(image.pixel[i], expected.pixel[i] ^ flip);
    qb_image_release(&image);
    qb_image_release(&expected);
    free(file.data);
}

typedef struct caller {
    pthread_t thread;
    qb_decoder *decoder;
    int number;
} caller;

static void *call(void *argument) {
    const caller *c = argument;
    for (int i = 0; i < ROUNDS; i++) check_one(c->decoder, c->number * ROUNDS + i);
    return NULL;
}

static void callers_share_batches_and_get_their_own(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_decoder *decoder;
    caller callers[CALLERS];
    largest_batch = 0;
    assert_ok(&cx, qb_decoder_open(&cx, &fake, 0, &decoder));
    assert_string_equal(qb_decoder_name(decoder), "fake");
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.decoder = decoder, .number = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) pthread_join(callers[i].thread, NULL);
    assert_true(largest_batch > 1);
    qb_decoder_close(decoder);
    assert_int_equal(open_lanes, 0);
}

static void what_it_does_not_take_the_processor_decodes(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_decoder *decoder;
    qb_image image;
    assert_ok(&cx, qb_decoder_open(&cx, &fake, 0, &decoder));
    assert_ok(&cx, qb_decoder_decode(&cx, decoder, "x", jpeg_progressive, sizeof jpeg_progressive,
                                     &image));
    assert_memory_equal(image.pixel, jpeg_progressive_pixels, sizeof jpeg_progressive_pixels);
    qb_image_release(&image);
    assert_fails(&cx, qb_decoder_decode(&cx, decoder, "cut.jpg", jpeg_420, 300, &image),
                 QB_STATUS_FORMAT);
    assert_message(&cx, "cut.jpg: JPEG");
    qb_decoder_close(decoder);
}

static void a_device_that_fails_is_an_error(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_decoder *decoder;
    qb_image image;
    assert_fails(&cx, qb_decoder_open(&cx, &fake, 9, &decoder), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "decoder fake: no device 9");
    qb_ctx_clear(&cx);
    assert_ok(&cx, qb_decoder_open(&cx, &fake, 0, &decoder));
    broken = true;
    assert_fails(&cx, qb_decoder_decode(&cx, decoder, "a.jpg", jpeg_420, sizeof jpeg_420, &image),
                 QB_STATUS_INTERNAL);
    assert_message(&cx, "a.jpg: decoder fake: the device is gone");
    broken = false;
    qb_decoder_close(decoder);
    assert_int_equal(open_lanes, 0);
}

/* ---- by name ---- */

static void decoders_have_names(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const qb_jpeg_batch_api *api;
    assert_ok(&cx, qb_decoder_find(&cx, "cpu", &api));
    assert_null(api);
    assert_fails(&cx, qb_decoder_find(&cx, "nvjpg", &api), QB_STATUS_USAGE);
    assert_message(&cx, "decoder 'nvjpg': expected cpu or nvjpeg");
}

/* With the GPU's decoder the text of the preparation says so; without one the data set does not
 * open. */
static void a_data_set_says_who_decodes_it(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], text[512];
    qb_dataset *set = NULL;
    qb_test_temp_dir(folder);
    fixture_photo(folder, "a.jpg", 20, 20, 1);
    qb_loader_options loader = {.height = 20, .width = 20};
    qb_preprocess_default(&loader.preprocess);
    assert_ok(&cx, qb_dataset_open(&cx, folder, &(qb_dataset_options){.decoder = "cpu"}, &set));
    assert_string_equal(qb_dataset_decoder(set), "cpu");
    loader.dataset = set;
    assert_null(strstr(qb_loader_text(&loader, text, sizeof text), "decoder"));
    qb_dataset_close(set);
    if (qb_dataset_open(&cx, folder, &(qb_dataset_options){.decoder = "nvjpeg"}, &set) == QB_OK) {
        loader.dataset = set;
        assert_non_null(strstr(qb_loader_text(&loader, text, sizeof text), ", decoder nvjpeg"));
        qb_dataset_close(set);
    } else {
        assert_int_equal(cx.code, QB_STATUS_UNSUPPORTED);
        assert_message(&cx, "decoder nvjpeg: ");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_files_are_for_a_device),
        cmocka_unit_test(no_beginning_of_a_file_is_whole),
        cmocka_unit_test(restart_markers_stand_where_they_belong),
        cmocka_unit_test(callers_share_batches_and_get_their_own),
        cmocka_unit_test(what_it_does_not_take_the_processor_decodes),
        cmocka_unit_test(a_device_that_fails_is_an_error),
        cmocka_unit_test(decoders_have_names),
        cmocka_unit_test(a_data_set_says_who_decodes_it),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
