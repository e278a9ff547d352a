/* retinaface: faces from priors of two sizes a place, https://github.com/biubug6/Pytorch_Retinaface
 * (PriorBox, decode): outputs of deltas (4), background and face (2) and landmarks (10) a prior. */
#include "eval/detection.h"

enum { SIZES = 2 };

typedef struct parts {
    const qb_tensor *delta, *score;
    int64_t n;
} parts;

static bool find(const qb_decode *in, parts *out) {
    *out = (parts){0};
    for (int32_t i = 0; i < in->n; i++) {
        const int64_t last = in->output[i].desc.shape.dim[2];
        if (!qb_is_batch_of(&in->output[i], 3)) return false;
        if (last == 4) out->delta = &in->output[i];
        if (last == 2) out->score = &in->output[i];
    }
    if (!out->delta || !out->score || in->n != 3) return false;
    out->n = out->delta->desc.shape.dim[1];
    return out->score->desc.shape.dim[1] == out->n;
}

static int32_t classes(const qb_decode *in) {
    parts p;
    return find(in, &p);
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    static const double usual[] = {2, 4, 8, 16, 32, 64}; /* of the least stride, 8 */
    const qb_detect_settings *s = in->settings;
    parts p;
    qb_grid grid;
    find(in, &p);
    if (p.n % SIZES != 0 || !qb_grid_find(in, p.n / SIZES, 0.5, &grid))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "decoder retinaface: %lld boxes are not two at each place of the strides of "
                       "an input of %d x %d: name detection.strides",
                       (long long)p.n, in->width, in->height);
    const float *delta = p.delta->data, *score = p.score->data;
    const bool told = s->n_min_sizes == SIZES * grid.n;
    const bool logits = qb_needs_sigmoid(in, score, p.n, 2, 2, 1);
    for (int64_t i = 0; i < p.n; i++) {
        const qb_cell c = qb_grid_cell(&grid, i / SIZES);
        const int64_t k = SIZES * c.level + i % SIZES;
        const double side = told                                          ? s->min_size[k]
                            : k < (int64_t)(sizeof usual / sizeof *usual) ? usual[k] * 8
                                                                          : 4 * c.stride;
        const double anchor[] = {c.x * c.stride, c.y * c.stride, side, side};
        double box[4];
        qb_apply_deltas(anchor, delta + 4 * i, s->variance, box);
        const double face =
            logits ? qb_sigmoid((double)score[2 * i + 1] - score[2 * i]) : score[2 * i + 1];
        QB_TRY(qb_decode_box(cx, in, box, face, 0));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_retinaface = {
    .name = "retinaface",
    .text = "outputs 1 x N x 4, 1 x N x 2 and 1 x N x 10",
    .words = "slim rfb",
    /* its training's mean, no scale */
    .images = &(const qb_preprocess){.resize = QB_RESIZE_LETTERBOX,
                                     .pad = 114,
                                     .color = QB_COLOR_BGR,
                                     .mean = {104, 117, 123},
                                     .std = {1, 1, 1}},
    .classes = classes,
    .decode = decode,
};
