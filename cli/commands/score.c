/* qbench score: anybody's detections against COCO's ground truth. */
#include <stdlib.h>

#include "cli/out/json.h"
#include "eval/coco.h"

typedef struct options {
    qb_common common;
    const char *annotations, *results;
    bool masks, keypoints, per_category;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_TEXT(options, "annotations", annotations, "FILE.json", "ground truth in COCO's format"),
    QB_TEXT(options, "results", results, "FILE.json", "detections in COCO's results format"),
    QB_FLAG(options, "masks", masks, "by the IoU of masks instead of boxes"),
    QB_FLAG(options, "keypoints", keypoints, "by the similarity of key points (OKS)"),
    QB_FLAG(options, "per-category", per_category, "print the scores of each category, too"),
    {0},
};

/* What was read and what came out. */
typedef struct work {
    qb_coco truth;
    qb_coco_objects results;
    qb_coco_matches *matches;
    qb_coco_scores all, *each;
    int64_t strays;
} work;

static qb_coco_kind kind_of(const options *o) {
    return o->keypoints ? QB_COCO_KEYPOINTS : o->masks ? QB_COCO_MASKS : QB_COCO_BOXES;
}

static const char *kind_word(const options *o) {
    static const char *const word[] = {"boxes", "masks", "keypoints"};
    return word[kind_of(o)];
}

static void add_scores(json_t *to, const qb_coco_scores *scores) {
    for (int s = 0; s < QB_COCO_N; s++)
        json_object_set_new(to, qb_coco_score_name(s), json_real(scores->value[s]));
}

/* With 17 digits: whoever compares with another evaluator wants the same number. */
static qb_status write_json(qb_ctx *cx, const options *o, const work *w) {
    if (!o->common.json) return QB_OK;
    json_auto_t *root =
        json_pack("{s:s, s:s, s:o, s:o, s:I, s:i, s:I}", "schema", "qbench.score/1", "iou",
                  kind_word(o), "annotations", qb_json_text(o->annotations), "results",
                  qb_json_text(o->results), "detections", (json_int_t)w->results.n, "images",
                  w->truth.n_images, "objects", (json_int_t)w->truth.objects.n);
    json_t *list = json_array();
    if (root) add_scores(root, &w->all);
    for (int32_t c = 0; c < w->truth.n_categories; c++) {
        const qb_coco_category *category = &w->truth.category[c];
        json_t *row = json_pack("{s:I, s:o}", "category_id", (json_int_t)category->id, "name",
                                qb_json_text(category->name));
        if (row) add_scores(row, &w->each[c]);
        json_array_append_new(list, row);
    }
    json_object_set_new(root, "per_category", list);
    const bool whole = root && json_array_size(list) == (size_t)w->truth.n_categories;
    return whole ? qb_json_out_digits(cx, &o->common, json_incref(root), 17)
                 : qb_fail(cx, QB_STATUS_NOMEM, "score: no memory for the result");
}

static void print_row(const char *name, const qb_coco_scores *scores) {
    printf("%-16.16s", name);
    for (int s = 0; s < QB_COCO_N; s++)
        if (scores->value[s] < 0)
            printf("%7s", "-");
        else
            printf("%7.2f", 100 * scores->value[s]);
    printf("\n");
}

static void print(const options *o, const work *w) {
    printf("%-16s", "% of 100");
    for (int s = 0; s < QB_COCO_N; s++) printf("%7s", qb_coco_score_name(s));
    printf("\n");
    print_row("all", &w->all);
    for (int32_t c = 0; o->per_category && c < w->truth.n_categories; c++)
        print_row(w->truth.category[c].name, &w->each[c]);
    printf("%d images, %zu objects, %zu detections; by %s\n", (int)w->truth.n_images,
           w->truth.objects.n, w->results.n, kind_word(o));
}

static qb_status score(qb_ctx *cx, const options *o, work *w) {
    QB_TRY(qb_coco_load(cx, o->annotations, &w->truth));
    if (w->truth.strays > 0)
        qb_warn(cx, "%s: %lld annotations of no image or category in it do not count",
                o->annotations, (long long)w->truth.strays);
    if (w->truth.zero_id)
        qb_warn(cx,
                "%s: an annotation's id is 0: pycocotools takes its match for none, so its numbers "
                "are lower than these",
                o->annotations);
    QB_TRY(qb_coco_results_load(cx, o->results, &w->truth, &w->results, &w->strays));
    if (w->strays > 0)
        qb_warn(cx, "%s: %lld detections of categories that %s does not have do not count",
                o->results, (long long)w->strays, o->annotations);
    QB_TRY(qb_coco_match(cx, &w->truth, &w->results, kind_of(o), &w->matches));
    QB_TRY_NEW(cx, w->each = qb_alloc(cx, (size_t)w->truth.n_categories, sizeof *w->each));
    return qb_coco_summarize(cx, w->matches, NULL, QB_COCO_ALL, &w->all, w->each);
}

static void work_release(work *w) {
    qb_free(w->each);
    qb_coco_matches_free(w->matches);
    qb_coco_objects_release(&w->results);
    qb_coco_release(&w->truth);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    (void)arguments;
    if (!o->annotations || !o->results)
        return qb_fail(cx, QB_STATUS_USAGE, "score: expected --annotations and --results");
    if (o->masks && o->keypoints)
        return qb_fail(cx, QB_STATUS_USAGE, "score: --masks or --keypoints, not both");
    QB_RELEASED(work_release) work w = {0};
    QB_TRY(score(cx, o, &w));
    if (!qb_json_on_stdout(&o->common)) print(o, &w);
    return write_json(cx, o, &w);
}

const qb_command qb_command_score = {
    .name = "score",
    .usage = "--annotations FILE.json --results FILE.json [options]",
    .summary = "score anybody's detections as COCO does: AP, AP50, ..., AR100",
    .notes = "The numbers are pycocotools' (2.0.11); -1 in the JSON, - in the table: nothing\n"
             "to average over. A result is {\"image_id\": 7, \"category_id\": 1, \"bbox\": [x, y,\n"
             "width, height], \"score\": 0.9}, with --masks {..., \"segmentation\": {\"size\":\n"
             "[height, width], \"counts\": run lengths, compressed or not}}, with --keypoints\n"
             "{..., \"keypoints\": [x, y, score, ...]}, of which AR100 is that of 20 detections\n"
             "an image.",
    .example = "qbench score --annotations instances_val.json --results detections.json\n"
               "qbench score --annotations val.json --results masks.json --masks --json -",
    .options = table,
    .options_size = sizeof(options),
    .run = run,
};
