/* COCO's files: what is read, what is refused, and masks as pycocotools makes them. */
#include "datasets/coco.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "qb_test.h"

#define HEAD                                                                                       \
    "{\"images\":[{\"id\":7,\"width\":8,\"height\":6,\"file_name\":\"a.jpg\"},"                    \
    "{\"id\":-3,\"width\":4,\"height\":4}],"                                                       \
    "\"categories\":[{\"id\":90,\"name\":\"cup\"},{\"id\":1,\"name\":\"dog\"}],\"annotations\":["

static qb_ctx cx;

static qb_status parse(const char *text, qb_coco *out) {
    qb_ctx_init(&cx);
    return qb_coco_parse(&cx, "gt.json", text, strlen(text), out);
}

static void truth_is_sorted_by_id(void **state) {
    (void)state;
    qb_coco coco;
    assert_ok(&cx, parse(HEAD "{\"id\":0,\"image_id\":7,\"category_id\":90,\"bbox\":[1,2,3,4],"
                              "\"area\":5,\"iscrowd\":1},"
                              "{\"image_id\":7,\"category_id\":1,\"bbox\":[1,2,3,4]},"
                              "{\"image_id\":8,\"category_id\":1,\"bbox\":[1,2,3,4]}]}",
                         &coco));
    assert_int_equal(coco.n_images, 2);
    assert_int_equal(coco.image[0].id, -3);
    assert_string_equal(coco.image[0].file_name, "");
    assert_string_equal(coco.image[1].file_name, "a.jpg");
    assert_string_equal(coco.category[0].name, "dog");
    const qb_coco_object *o = coco.objects.item;
    assert_int_equal(coco.objects.n, 3);
    assert_true(o[0].image == 1 && o[0].category == 1 && o[0].area == 5 && o[0].crowd);
    assert_true(o[1].image == 1 && o[1].category == 0 && o[1].area == 12 && !o[1].crowd);
    assert_int_equal(o[2].image, -1);
    assert_int_equal(coco.strays, 1);
    qb_coco_release(&coco);
}

static void wrong_truth_is_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"[]", "expected an object"},
        {"{}", "no 'images'"},
        {"{\"images\":[]}", "no 'categories'"},
        {"{\"images\":[{\"width\":1}],\"categories\":[]}", "an image without id"},
        {"{\"images\":[{\"id\":1},{\"id\":1}],\"categories\":[]}", "id 1 is there twice"},
        {"{\"images\":[{\"id\":\"1\"}],\"categories\":[]}", "expected a whole number"},
        {"{\"images\":[],\"images\":[],\"categories\":[]}", "'images' is there twice"},
        {"{\"images\":[{\"id\":1,\"width\":8,\"width\":9}],\"categories\":[]}",
         "'width' is there twice"},
        {"{\"images\":[],\"categories\":[{\"id\":1,\"id\":2}]}", "'id' is there twice"},
        {HEAD "{\"category_id\":1,\"bbox\":[1,2,3,4]}]}", "without image_id"},
        {HEAD "{\"image_id\":7,\"bbox\":[1,2,3,4]}]}", "without category_id"},
        {HEAD "{\"image_id\":7,\"category_id\":1}]}", "without bbox"},
        {HEAD "{\"image_id\":7,\"category_id\":1,\"bbox\":[1,2,3]}]}", "four numbers"},
        {HEAD "{\"image_id\":7,\"category_id\":1,\"bbox\":[1,2,3,NaN]}]}", "expected a number"},
        {HEAD "]} x", "nothing after"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qb_coco coco = {0};
        assert_fails(&cx, parse(bad[i][0], &coco), QB_STATUS_FORMAT);
        assert_message(&cx, bad[i][1]);
    }
}

/* Matching them would take minutes. */
static void too_many_objects_of_an_image_are_refused(void **state) {
    (void)state;
    static const char one[] = "{\"image_id\":7,\"category_id\":90,\"bbox\":[1,2,3,4]},";
    for (int more = 0; more < 2; more++) {
        const size_t n = (size_t)QB_COCO_IMAGE_OBJECTS_MAX + (size_t)more;
        char *text = malloc(sizeof HEAD + n * sizeof one + 2), *at;
        qb_coco coco;
        assert_non_null(text);
        at = stpcpy(text, HEAD);
        for (size_t i = 0; i < n; i++) at = stpcpy(at, one);
        strcpy(at - 1, "]}"); /* the last comma goes */
        assert_int_equal(parse(text, &coco), more ? QB_STATUS_UNSUPPORTED : QB_OK);
        if (more)
            assert_message(&cx, "gt.json: image 7 has more than 16384 annotations");
        else
            qb_coco_release(&coco);
        free(text);
    }
}

static void results_need_known_images_and_scores(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"{}", "expected a list"},
        {"[{\"image_id\":7,\"category_id\":1,\"bbox\":[1,2,3,4]}]", "without score"},
        {"[{\"image_id\":7,\"category_id\":1,\"bbox\":[1,2,3,4],\"score\":1,\"score\":0}]",
         "'score' is there twice"},
        {"[{\"image_id\":7,\"category_id\":1,\"bbox\":[1,2,3,4],\"score\":1,\"bbox\":[]}]",
         "'bbox' is there twice"},
        {"[{\"image_id\":7,\"category_id\":1,\"score\":1}]",
         "without bbox, segmentation and keypoints"},
        {"[{\"image_id\":1,\"category_id\":1,\"score\":1,\"bbox\":[1,2,3,4]}]",
         "image_id 1 is not"},
        {"[{\"image_id\":7,\"category_id\":1,\"score\":1,\"segmentation\":{\"size\":[6,8],"
         "\"counts\":[40]}}]",
         "runs of 40 pixels, the image has 48"},
        {"[{\"image_id\":7,\"category_id\":1,\"score\":1,\"segmentation\":{\"size\":[8,6],"
         "\"counts\":[48]}}]",
         "a mask of 6 x 8 pixels, its image has 8 x 6"},
    };
    qb_coco coco;
    qb_coco_objects results = {0};
    int64_t strays = 0;
    assert_ok(&cx, parse(HEAD "]}", &coco));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(&cx,
                     qb_coco_results_parse(&cx, "dt.json", bad[i][0], strlen(bad[i][0]), &coco,
                                           &results, &strays),
                     QB_STATUS_FORMAT);
        assert_message(&cx, bad[i][1]);
    }
    const char *good = "[{\"image_id\":7,\"category_id\":5,\"bbox\":[0,0,2,2],\"score\":0.5},"
                       "{\"image_id\":7,\"category_id\":1,\"score\":0.25,\"segmentation\":"
                       "{\"counts\":[7,3,3,1,34],\"size\":[6,8]}}]";
    assert_ok(&cx,
              qb_coco_results_parse(&cx, "dt.json", good, strlen(good), &coco, &results, &strays));
    assert_int_equal(strays, 1);
    assert_int_equal(results.item[0].category, -1);
    const double box[] = {1, 1, 2, 3}; /* pixels 7..9 and 13, column by column of 6 */
    for (int i = 0; i < 4; i++) assert_true(results.item[1].box[i] == box[i]);
    assert_true(results.item[1].area == 4);
    qb_coco_objects_release(&results);
    qb_coco_release(&coco);
}

static void unions_and_overlaps_count_pixels(void **state) {
    (void)state;
    qb_ctx_init(&cx);
    const uint32_t a_runs[] = {0, 5, 10, 5, 4}, b_runs[] = {3, 4, 10, 0, 7};
    qb_rle a, b, both[2], all;
    uint8_t pixel[24] = {0};
    assert_ok(&cx, qb_rle_of_runs(&cx, a_runs, 5, 6, 4, &a));
    assert_ok(&cx, qb_rle_of_runs(&cx, b_runs, 5, 6, 4, &b));
    assert_int_equal(qb_rle_area(&a), 10);
    assert_int_equal(qb_rle_overlap(&a, &b), 2);
    both[0] = a;
    both[1] = b;
    assert_ok(&cx, qb_rle_union(&cx, both, 2, 6, 4, &all));
    assert_int_equal(qb_rle_area(&all), 12);
    assert_int_equal(all.n, 5);
    qb_rle_paint(&all, 9, pixel);
    int64_t painted = 0;
    for (int i = 0; i < 24; i++) painted += pixel[i] == 9;
    assert_int_equal(painted, 12);
    assert_true(pixel[0] == 9 && pixel[5 * 4] == 9 && pixel[1] == 9 && pixel[4 + 1] == 0);
    qb_rle_release(&a);
    qb_rle_release(&b);
    qb_rle_release(&all);
}

/* Every polygon and crowd of the sample, run for run. */
static void masks_are_those_of_pycocotools(void **state) {
    (void)state;
    char path[QB_TEST_PATH], masks[QB_TEST_PATH];
    qb_test_need_shared(path, "tasks/coco-sample/instances_val.json");
    qb_test_need_shared(masks, "tasks/coco-sample/reference/val_masks_rle.json");
    qb_ctx_init(&cx);
    qb_coco coco;
    assert_ok(&cx, qb_coco_load(&cx, path, &coco));
    json_t *list = json_load_file(masks, 0, NULL);
    assert_int_equal(json_array_size(list), coco.objects.n);
    for (size_t i = 0; i < coco.objects.n; i++) {
        const json_t *row = json_array_get(list, i), *box = json_object_get(row, "bbox");
        const json_t *text = json_object_get(row, "counts");
        const qb_coco_image *image = &coco.image[coco.objects.item[i].image];
        qb_rle mask, expected;
        double got[4];
        assert_ok(&cx, qb_coco_mask(&cx, &coco, &coco.objects, &coco.objects.item[i], &mask));
        assert_ok(&cx, qb_rle_of_text(&cx, json_string_value(text), json_string_length(text),
                                      image->height, image->width, &expected));
        assert_int_equal(mask.n, expected.n);
        assert_memory_equal(mask.run, expected.run, mask.n * sizeof *mask.run);
        assert_int_equal(qb_rle_area(&mask), json_integer_value(json_object_get(row, "pixels")));
        qb_rle_box(&mask, got);
        for (size_t k = 0; k < 4; k++)
            assert_true(got[k] == json_number_value(json_array_get(box, k)));
        qb_rle_release(&mask);
        qb_rle_release(&expected);
    }
    json_decref(list);
    qb_coco_release(&coco);
}

static qb_status read_all(qb_ctx *sweep, void *user) {
    (void)user;
    static const char text[] = HEAD "{\"image_id\":7,\"category_id\":90,\"bbox\":[1,2,3,4],"
                                    "\"segmentation\":[[1,1,5,1,5,4],[0,0,2,0,2,2]]}]}";
    qb_coco coco;
    qb_rle mask;
    QB_TRY(qb_coco_parse(sweep, "gt.json", text, sizeof text - 1, &coco));
    const qb_status status =
        qb_coco_mask(sweep, &coco, &coco.objects, &coco.objects.item[0], &mask);
    if (status == QB_OK) qb_rle_release(&mask);
    qb_coco_release(&coco);
    return status;
}

static void no_memory_is_reported(void **state) {
    (void)state;
    assert_true(qb_test_alloc_sweep(read_all, NULL) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truth_is_sorted_by_id),
        cmocka_unit_test(wrong_truth_is_refused),
        cmocka_unit_test(too_many_objects_of_an_image_are_refused),
        cmocka_unit_test(results_need_known_images_and_scores),
        cmocka_unit_test(unions_and_overlaps_count_pixels),
        cmocka_unit_test(masks_are_those_of_pycocotools),
        cmocka_unit_test(no_memory_is_reported),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
