/* COCO's evaluation against pycocotools' numbers, and weights of images against copies of them. */
#include "eval/coco.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qb_test.h"

static qb_ctx cx;

/* What was scored; release_scored() it. */
typedef struct scored {
    qb_coco truth;
    qb_coco_objects results;
    qb_coco_matches *matches;
    qb_coco_scores all, each[100];
} scored;

static void score(const char *truth, const char *results, bool masks, scored *s) {
    int64_t strays;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_coco_load(&cx, truth, &s->truth));
    assert_ok(&cx, qb_coco_results_load(&cx, results, &s->truth, &s->results, &strays));
    assert_true(s->truth.n_categories <= 100);
    assert_ok(&cx, qb_coco_match(&cx, &s->truth, &s->results, masks ? QB_COCO_MASKS : QB_COCO_BOXES,
                                 &s->matches));
    assert_ok(&cx, qb_coco_summarize(&cx, s->matches, NULL, QB_COCO_ALL, &s->all, s->each));
}

static void release_scored(scored *s) {
    qb_coco_matches_free(s->matches);
    qb_coco_objects_release(&s->results);
    qb_coco_release(&s->truth);
}

/* Each of the twelve that the reference has. */
static void compare(const qb_coco_scores *got, const json_t *expected, double tolerance,
                    const char *what) {
    for (int i = 0; i < QB_COCO_N; i++) {
        const json_t *value = json_object_get(expected, qb_coco_score_name(i));
        if (!value || fabs(got->value[i] - json_number_value(value)) <= tolerance) continue;
        fail_msg("%s: %s: expected %.17g, got %.17g", what, qb_coco_score_name(i),
                 json_number_value(value), got->value[i]);
    }
}

static void compare_all(const scored *s, const json_t *expected, double tolerance,
                        const char *what) {
    size_t i;
    json_t *row;
    compare(&s->all, json_object_get(expected, "stats"), tolerance, what);
    json_array_foreach(json_object_get(expected, "per_category"), i, row) {
        const int32_t c =
            qb_coco_category_of(&s->truth, json_integer_value(json_object_get(row, "category_id")));
        assert_true(c >= 0);
        compare(&s->each[c], row, tolerance, what);
    }
}

static void cases_have_the_reference_numbers(void **state) {
    (void)state;
    char root[QB_TEST_PATH];
    qb_test_need_shared(root, "tasks/coco-eval-cases");
    DIR *folder = opendir(root);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[3][QB_TEST_PATH + 300];
        static const char *const name[] = {"gt", "dt", "expected"};
        for (int i = 0; i < 3; i++)
            snprintf(path[i], sizeof path[i], "%s/%s/%s.json", root, entry->d_name, name[i]);
        json_t *expected = json_load_file(path[2], 0, NULL);
        if (!expected) continue;
        static scored s;
        const char *type = json_string_value(json_object_get(expected, "iouType"));
        score(path[0], path[1], strcmp(type, "segm") == 0, &s);
        compare_all(&s, expected, 1e-12, entry->d_name);
        release_scored(&s);
        json_decref(expected);
        n++;
    }
    closedir(folder);
    assert_true(n >= 14);
}

static void sample_has_the_reference_numbers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool masks;
    } file[] = {{"fastestdet_fp32_cv2", false},
                {"fastestdet_fp32_pillow", false},
                {"segm_synthetic", true},
                {"segm_synthetic", false}};
    char truth[QB_TEST_PATH], results[QB_TEST_PATH], path[QB_TEST_PATH], name[200];
    qb_test_need_shared(truth, "tasks/coco-sample/instances_val.json");
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        static scored s;
        snprintf(name, sizeof name, "tasks/coco-sample/reference/%s.json", file[i].name);
        qb_test_need_shared(results, name);
        snprintf(name, sizeof name, "tasks/coco-sample/reference/%s_expected.json", file[i].name);
        qb_test_need_shared(path, name);
        json_t *expected = json_load_file(path, 0, NULL);
        score(truth, results, file[i].masks, &s);
        if (i == 3)
            compare(&s.all, json_object_get(expected, "bbox"), 1e-12, "boxes of masks");
        else
            compare_all(&s, expected, 1e-12, file[i].name);
        release_scored(&s);
        json_decref(expected);
    }
}

/* ---- weights ---- */

static uint32_t seed;
static uint32_t draw(uint32_t below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

enum { IMAGES = 6, CATEGORIES = 3, OBJECTS = 40, FOUND = 90 };

static qb_coco_object random_object(int32_t images) {
    qb_coco_object o = {.image = (int32_t)draw((uint32_t)images),
                        .category = (int32_t)draw(CATEGORIES),
                        .score = draw(1 << 24) * 0x1p-24,
                        .box = {draw(60), draw(60), 10 + draw(80), 10 + draw(80)}};
    o.area = o.box[2] * o.box[3];
    return o;
}

/* Every object `weight` times, in images of their own. */
static size_t copies(const qb_coco_object *from, size_t n, const int32_t *weight,
                     qb_coco_object *to) {
    size_t made = 0;
    for (int32_t image = 0, next = 0; image < IMAGES; next += weight[image++])
        for (int32_t copy = 0; copy < weight[image]; copy++)
            for (size_t i = 0; i < n; i++)
                if (from[i].image == image) {
                    to[made] = from[i];
                    to[made++].image = next + copy;
                }
    return made;
}

static void a_weight_is_as_many_copies(void **state) {
    (void)state;
    qb_ctx_init(&cx);
    static qb_coco_object object[OBJECTS], found[FOUND], objects[4 * OBJECTS], founds[4 * FOUND];
    for (seed = 1; seed < 40; seed++) {
        const uint32_t kept = seed;
        for (int i = 0; i < OBJECTS; i++) object[i] = random_object(IMAGES);
        for (int i = 0; i < FOUND; i++) found[i] = random_object(IMAGES);
        int32_t weight[IMAGES];
        for (int i = 0; i < IMAGES; i++) weight[i] = (int32_t)draw(4);
        const size_t n = copies(object, OBJECTS, weight, objects);
        const size_t m = copies(found, FOUND, weight, founds);
        const qb_coco once = {.n_images = IMAGES,
                              .n_categories = CATEGORIES,
                              .objects = {.item = object, .n = OBJECTS}};
        const qb_coco often = {.n_images = 4 * IMAGES,
                               .n_categories = CATEGORIES,
                               .objects = {.item = objects, .n = n}};
        qb_coco_matches *a, *b;
        qb_coco_scores weighted, copied;
        assert_ok(&cx, qb_coco_match(&cx, &once, &(qb_coco_objects){.item = found, .n = FOUND},
                                     QB_COCO_BOXES, &a));
        assert_ok(&cx, qb_coco_match(&cx, &often, &(qb_coco_objects){.item = founds, .n = m},
                                     QB_COCO_BOXES, &b));
        assert_ok(&cx, qb_coco_summarize(&cx, a, weight, QB_COCO_ALL, &weighted, NULL));
        assert_ok(&cx, qb_coco_summarize(&cx, b, NULL, QB_COCO_ALL, &copied, NULL));
        for (int i = 0; i < QB_COCO_N; i++)
            assert_true(fabs(weighted.value[i] - copied.value[i]) < 1e-12);
        qb_coco_matches_free(a);
        qb_coco_matches_free(b);
        seed = kept;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_have_the_reference_numbers),
        cmocka_unit_test(sample_has_the_reference_numbers),
        cmocka_unit_test(a_weight_is_as_many_copies),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
