/* COCO's ground truth, results, masks and evaluation, on any text: ground truth, a zero byte, and
 * results. */
#include <stdlib.h>
#include <string.h>

#include "eval/coco.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIXELS_MAX = 1 << 16 };

static void look_at_masks(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *objects) {
    for (size_t i = 0; i < objects->n; i++) {
        const qb_coco_object *o = &objects->item[i];
        if (o->image < 0) continue;
        const qb_coco_image *image = &truth->image[o->image];
        if ((int64_t)image->width * image->height > PIXELS_MAX) continue; /* slow, not new */
        qb_rle mask = {0};
        double box[4];
        if (qb_coco_mask(cx, truth, objects, o, &mask) == QB_OK) {
            uint8_t *pixel = calloc((size_t)image->width, (size_t)image->height);
            if (!pixel) abort();
            qb_rle_paint(&mask, 1, pixel);
            int64_t painted = 0;
            for (int64_t k = 0; k < (int64_t)image->width * image->height; k++) painted += pixel[k];
            if (painted != qb_rle_area(&mask)) abort();
            if (qb_rle_overlap(&mask, &mask) != painted) abort();
            qb_rle_box(&mask, box);
            if (box[0] + box[2] > image->width || box[1] + box[3] > image->height) abort();
            free(pixel);
        } else if (cx->message[0] == '\0' || mask.run) {
            abort();
        }
        qb_rle_release(&mask);
    }
}

static void score(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *results,
                  qb_coco_kind kind) {
    qb_coco_matches *matches = NULL;
    qb_coco_scores all;
    if (qb_coco_match(cx, truth, results, kind, &matches) == QB_OK) {
        if (qb_coco_summarize(cx, matches, NULL, QB_COCO_ALL, &all, NULL) != QB_OK) abort();
        for (int i = 0; i < QB_COCO_N; i++)
            if (all.value[i] != -1 && !(all.value[i] >= 0 && all.value[i] <= 1)) abort();
    } else if (kind == QB_COCO_BOXES || matches) {
        abort(); /* of boxes nothing can go wrong */
    }
    qb_coco_matches_free(matches);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = memchr(data, '\0', size);
    const size_t n = zero ? (size_t)(zero - data) : size;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_coco truth = {0};
    qb_coco_objects results = {0};
    int64_t strays;
    if (qb_coco_parse(&cx, "gt.json", (const char *)data, n, &truth) == QB_OK) {
        look_at_masks(&cx, &truth, &truth.objects);
        bool small = true;
        for (int32_t i = 0; i < truth.n_images; i++)
            small = small && (int64_t)truth.image[i].width * truth.image[i].height <= PIXELS_MAX;
        if (zero && qb_coco_results_parse(&cx, "dt.json", (const char *)zero + 1, size - n - 1,
                                          &truth, &results, &strays) == QB_OK) {
            look_at_masks(&cx, &truth, &results);
            score(&cx, &truth, &results, QB_COCO_BOXES);
            score(&cx, &truth, &results, QB_COCO_KEYPOINTS);
            if (small) score(&cx, &truth, &results, QB_COCO_MASKS);
        }
    } else if (cx.code == QB_OK || cx.message[0] == '\0' || truth.image) {
        abort(); /* a failure says why and gives nothing */
    }
    qb_coco_objects_release(&results);
    qb_coco_release(&truth);
    return 0;
}
