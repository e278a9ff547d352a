/* efficientdet: deltas of anchors and a score a class, https://arxiv.org/abs/1911.09070. Anchors
 * stand beside them as
 * https://github.com/zylo117/Yet-Another-EfficientDet-Pytorch has them (BBoxTransform), corners in
 * pixels, or are the model's nine a place (eval/anchored.h). y comes before x in corners and
 * deltas. */
#include <math.h>
#include <string.h>

#include "eval/anchored.h"

typedef struct parts {
    const qb_tensor *deltas, *anchors, *scores;
    int64_t n, each; /* boxes, and scores of each */
} parts;

static bool is_called(const qb_decode *in, const qb_tensor *output, const char *word) {
    const char *name = in->name[output - in->output];
    return name && strstr(name, word);
}

/* Three outputs 1 x N x ...; maps of features may stand beside them. What is not called by its name
 * comes in the usual order: deltas, scores, anchors. */
static bool find(const qb_decode *in, parts *out) {
    const qb_tensor *row[3];
    int32_t n = 0;
    *out = (parts){0};
    for (int32_t i = 0; i < in->n; i++) {
        if (!qb_is_batch_of(&in->output[i], 3)) continue;
        if (n == 3) return false;
        row[n++] = &in->output[i];
    }
    for (int32_t i = 0; i < n; i++) {
        const qb_tensor **slot = row[i]->desc.shape.dim[2] != 4 || is_called(in, row[i], "class")
                                     ? &out->scores
                                 : is_called(in, row[i], "anchor") ? &out->anchors
                                                                   : NULL;
        if (!slot) continue;
        if (*slot) return false;
        *slot = row[i];
    }
    const qb_tensor **const rest[] = {&out->deltas, &out->scores, &out->anchors};
    for (int32_t i = 0, k = 0; i < n; i++) {
        if (row[i] == out->scores || row[i] == out->anchors) continue;
        while (k < 3 && *rest[k]) k++;
        if (k < 3) *rest[k] = row[i];
    }
    if (!out->deltas || !out->anchors || !out->scores) return false;
    out->n = out->deltas->desc.shape.dim[1];
    out->each = out->scores->desc.shape.dim[2];
    return out->anchors->desc.shape.dim[1] == out->n && out->scores->desc.shape.dim[1] == out->n;
}

/* Without anchors the shapes are RetinaNet's, whose classes come first. */
static int32_t classes(const qb_decode *in) {
    parts p;
    if (find(in, &p)) return (int32_t)p.each;
    const bool told = qb_decoder_is_told(in, classes);
    const bool box_first =
        in->n == 2 && in->output[0].desc.shape.dim[2] == 4 && qb_boxes_at(in) == 0;
    return told || box_first ? qb_anchored_classes(in) : 0;
}

/* Three sides, 4 strides times 1, 2^(1/3), 2^(2/3), in three ratios each. */
static void anchor_of(const qb_cell *c, int64_t k, double out[4]) {
    static const double ratio[][2] = {{1, 1}, {1.4, 0.7}, {0.7, 1.4}};
    const double side = 4 * c->stride * exp2((double)(k / 3) / 3);
    out[0] = c->x * c->stride;
    out[1] = c->y * c->stride;
    out[2] = side * ratio[k % 3][0];
    out[3] = side * ratio[k % 3][1];
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    static const double variance[] = {1, 1};
    parts p;
    if (!find(in, &p)) return qb_anchored_decode(cx, in, &(qb_anchors){0.5, true, anchor_of});
    const float *a = p.anchors->data, *d = p.deltas->data, *score = p.scores->data;
    const bool logits = qb_needs_sigmoid(in, score, p.n, p.each, p.each, 1);
    for (int64_t i = 0; i < p.n; i++, a += 4, d += 4, score += p.each) {
        const double anchor[] = {((double)a[1] + a[3]) / 2, ((double)a[0] + a[2]) / 2,
                                 (double)a[3] - a[1], (double)a[2] - a[0]};
        const float delta[] = {d[1], d[0], d[3], d[2]};
        double box[4];
        qb_apply_deltas(anchor, delta, variance, box);
        QB_TRY(qb_decode_best(cx, in, box, &(qb_box_scores){score, 1, (int32_t)p.each, logits, 1}));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_efficientdet = {
    .name = "efficientdet",
    .text = "outputs 1 x N x 4 of deltas, 1 x N x classes, and 1 x N x 4 of anchors or none",
    .words = "efficientdet_d0",
    .images = &(const qb_preprocess){.resize = QB_RESIZE_LETTERBOX,
                                     .anchor = QB_ANCHOR_TOPLEFT,
                                     .pad = 114,
                                     QB_IMAGENET_RGB},
    .classes = classes,
    .decode = decode,
};
