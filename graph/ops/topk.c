/* TopK, and operators whose output shape depends on values: NonZero, NonMaxSuppression. */
#include <math.h>

#include "base/vector_loop.h"
#include "ops_internal.h"

/* --- sorting --------------------------------------------------------------------------------- */

/* The order of elements first + i * step. */
typedef struct order {
    qb_dtype dtype;
    const void *data;
    int64_t first, step;
    bool largest;
} order;

/* Does element i come before element j? Equal ones keep their order. */
static bool before(const void *what, int64_t i, int64_t j) {
    const order *o = what;
    int sign = qb_element_order(o->dtype, o->data, o->first + i * o->step, o->first + j * o->step);
    return o->largest ? sign > 0 : sign < 0;
}

#define SHORT 256 /* lists that are merged faster than counted */

/* Places in increasing order come in the order of their elements. */
static void sort_places(const order *o, int64_t *index, int64_t *other, int64_t n) {
    if (o->dtype == QB_DTYPE_F32 && n >= SHORT && index[n - 1] <= UINT32_MAX)
        qb_sort_by_floats((const float *)o->data + o->first, o->step, o->largest, index, other, n);
    else
        qb_sort_indices(o, before, index, other, n);
}

/* --- TopK ------------------------------------------------------------------------------------ */

#define FEW 32 /* elements that are kept in order by moving them */

typedef struct topk_attrs {
    int64_t axis, largest, sorted, k;
} topk_attrs;
QB_ATTRS(topk_table, QB_A_INT(topk_attrs, axis, "axis", -1, 0, 0),
         QB_A_INT(topk_attrs, largest, "largest", 1, 0, 1),
         QB_A_INT(topk_attrs, sorted, "sorted", 1, 0, 1), QB_A_OLD_INT(topk_attrs, k, "k", 0));

static qb_status infer_topk(qb_ctx *cx, const qb_infer_args *args) {
    const topk_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = x->shape;
    int64_t k;
    int32_t n, axis;
    QB_TRY(qb_infer_ints(cx, args, 1, &k, 1, &n));
    if (out.rank >= 0) {
        QB_TRY(qb_axis_resolve(cx, attrs->axis, out.rank, &axis));
        if (n == 1 && (k < 0 || (out.dim[axis] >= 0 && k > out.dim[axis])))
            return qb_fail(cx, QB_STATUS_INVALID, "k: expected 0 to %lld, got %lld",
                           (long long)out.dim[axis], (long long)k);
        out.dim[axis] = n == 1 ? k : QB_DIM_UNKNOWN;
    }
    QB_TRY(qb_infer_set(cx, args, 1, QB_DTYPE_S64, &out));
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* k is at most the axis. */
static qb_status bound_topk(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    if (qb_infer_in(args, 1) && qb_infer_in(args, 1)->data) return QB_OK;
    QB_TRY(qb_infer_set(cx, args, 1, QB_DTYPE_S64, &x->shape));
    return qb_infer_set(cx, args, 0, x->dtype, &x->shape);
}

static qb_status upgrade_topk(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    topk_attrs *attrs = graph->nodes[node].attrs;
    if (version >= 10) return QB_OK;
    int32_t id;
    QB_TRY(qb_node_const_ints(cx, graph, node, "k", &attrs->k, 1, &id));
    attrs->k = 0;
    return qb_node_input_set(cx, graph, node, 1, id);
}

/* The k first of n floats in order, where k is far below n: most elements come behind those that
 * are there. NaN is larger than any number. */
static void select_floats(const float *x, int64_t step, int64_t n, int64_t k, bool largest,
                          int64_t *index) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i * step];
        int64_t to = kept < k ? kept : k;
        for (; to > 0; to--) {
            const float w = x[index[to - 1] * step];
            if (!(largest ? v > w || (v != v && w == w) : v < w || (w != w && v == v))) break;
            if (to < k) index[to] = index[to - 1];
        }
        if (to == k) continue;
        index[to] = i;
        kept += kept < k;
    }
}

static qb_status eval_topk(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const topk_attrs *attrs = node->attrs;
    const qb_shape *shape = &in[0].desc.shape;
    qb_dtype dtype = in[0].desc.dtype;
    size_t size = qb_dtype_size(dtype);
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, shape->rank, &axis));
    const bool wants_values = node->out[0] >= 0;
    const bool wants_indices = node->n_out > 1 && node->out[1] >= 0;
    const int64_t outer = qb_shape_span(shape, 0, axis), n = shape->dim[axis];
    const int64_t inner = qb_shape_span(shape, axis + 1, shape->rank);
    int64_t k = out[wants_values ? 0 : 1].desc.shape.dim[axis];
    if (k > n)
        return qb_fail(cx, QB_STATUS_INVALID, "k: expected at most %lld, got %lld", (long long)n,
                       (long long)k);
    QB_RELEASED(qb_temp_give_at) int64_t *index = qb_temp_take(cx, (size_t)n * 2, sizeof *index);
    if (!index) return cx->code;
    for (int64_t line = 0; line < outer * inner; line++) {
        order o = {dtype, in[0].data, line / inner * n * inner + line % inner, inner,
                   attrs->largest != 0};
        if (dtype == QB_DTYPE_F32 && k <= FEW) {
            select_floats((const float *)in[0].data + o.first, inner, n, k, o.largest, index);
        } else {
            for (int64_t i = 0; i < n; i++) index[i] = i;
            sort_places(&o, index, index + n, n);
        }
        for (int64_t i = 0; i < k; i++) {
            int64_t to = line / inner * k * inner + line % inner + i * inner;
            if (wants_values)
                memcpy((char *)out[0].data + (size_t)to * size,
                       (const char *)in[0].data + (size_t)(o.first + index[i] * inner) * size,
                       size);
            if (wants_indices) ((int64_t *)out[1].data)[to] = index[i];
        }
    }
    return QB_OK;
}

QB_OP_SIMPLE(topk, "TopK", 7, 1, 2, 2, sizeof(topk_attrs), topk_table, FLOAT, infer_topk, eval_topk,
             .upgrade = upgrade_topk, .bound = bound_topk, .types = QB_TYPES_NUMBERS,
             .traits = QB_TRAIT_AXIS | QB_TRAIT_ALL_OUTPUTS, .kernel = {QB_KIND_ARG});

/* --- NonZero --------------------------------------------------------------------------------- */

static int64_t count_nonzero(const qb_tensor *x) {
    int64_t n = qb_shape_count(&x->desc.shape), found = 0;
    for (int64_t i = 0; i < n; i++) found += qb_number_get(x->desc.dtype, x->data, i) != 0.0;
    return found;
}

static qb_status infer_nonzero(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = qb_shape_unknown(2);
    qb_tensor constant;
    if (x->shape.rank >= 0) out.dim[0] = x->shape.rank > 0 ? x->shape.rank : 1;
    if (qb_infer_const(args, 0, &constant)) out.dim[1] = count_nonzero(&constant);
    return qb_infer_set(cx, args, 0, QB_DTYPE_S64, &out);
}

static qb_status bound_nonzero(qb_ctx *cx, const qb_infer_args *args) {
    const qb_shape *x = &qb_infer_in(args, 0)->shape;
    const qb_shape out = qb_shape_of(2, x->rank > 0 ? (int64_t)x->rank : 1, qb_shape_count(x));
    return qb_infer_set(cx, args, 0, QB_DTYPE_S64, &out);
}

static qb_status eval_nonzero(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    (void)cx, (void)node;
    const qb_shape *shape = &in[0].desc.shape;
    int64_t n = qb_shape_count(shape), found = out[0].desc.shape.dim[1], at = 0;
    int64_t *to = out[0].data;
    for (int64_t i = 0; i < n && at < found; i++) {
        if (qb_number_get(in[0].desc.dtype, in[0].data, i) == 0.0) continue;
        int64_t rest = i;
        if (shape->rank == 0) to[at] = 0;
        for (int32_t d = shape->rank - 1; d >= 0; d--) {
            to[d * found + at] = rest % shape->dim[d];
            rest /= shape->dim[d];
        }
        at++;
    }
    return QB_OK;
}

QB_OP_SIMPLE(nonzero, "NonZero", 9, 1, 1, 1, 0, NULL, FLOAT, infer_nonzero, eval_nonzero,
             .bound = bound_nonzero);

/* --- NonMaxSuppression ----------------------------------------------------------------------- */

typedef struct nms_attrs {
    int64_t center_point_box;
} nms_attrs;
QB_ATTRS(nms_table, QB_A_INT(nms_attrs, center_point_box, "center_point_box", 0, 0, 1));

typedef struct nms {
    const float *boxes, *scores;
    int64_t batch, classes, n, most; /* boxes a class at most */
    float iou, score;
    bool has_score, center;
} nms;

/* low and high corner of a box */
static void corners(const nms *s, const float *box, float low[2], float high[2]) {
    for (int32_t d = 0; d < 2; d++) {
        float a = s->center ? box[d] - box[2 + d] / 2.0f : box[d];
        float b = s->center ? box[d] + box[2 + d] / 2.0f : box[2 + d];
        low[d] = a < b ? a : b;
        high[d] = a < b ? b : a;
    }
}

/* Boxes side by side, so that one is held against many at once. */
typedef struct box_lines {
    float *low[2], *high[2], *area;
    int64_t n;
} box_lines;

static void append_box(box_lines *lines, const float low[2], const float high[2], float area) {
    for (int32_t d = 0; d < 2; d++) {
        lines->low[d][lines->n] = low[d];
        lines->high[d][lines->n] = high[d];
    }
    lines->area[lines->n++] = area;
}

#define BOXES_AT_ONCE 512

/* What of the box lies in box k. */
static inline float shared_area(const box_lines *b, int64_t k, const float low[2],
                                const float high[2]) {
    const float top = b->low[0][k], left = b->low[1][k];
    const float bottom = b->high[0][k], right = b->high[1][k];
    const float height = (high[0] < bottom ? high[0] : bottom) - (low[0] > top ? low[0] : top);
    const float width = (high[1] < right ? high[1] : right) - (low[1] > left ? low[1] : left);
    return (height > 0.0f ? height : 0.0f) * (width > 0.0f ? width : 0.0f);
}

/* Does the box overlap one of boxes from..end? */
QB_LOOP(overlap,
        (const box_lines *b, int64_t from, int64_t end, const float *low, const float *high,
         float area, float iou, int *some),
        (b, from, end, low, high, area, iou, some)) {
    int any = 0;
    for (int64_t k = from; k < end; k++) {
        const float shared = shared_area(b, k, low, high), both = area + b->area[k] - shared;
        any |= (both > 0.0f) & (shared / both > iou);
    }
    *some = any;
}

/* May it? Without a division, and with so much to spare that rounding is in it; below SMALLEST it
 * need not be. */
#define SPARE (1.0f - 0x1p-20f)
#define SMALLEST 0x1p-60f
QB_LOOP(may_overlap,
        (const box_lines *b, int64_t from, int64_t end, const float *low, const float *high,
         float area, float iou, int *some),
        (b, from, end, low, high, area, iou, some)) {
    const float bound = iou * SPARE;
    int any = 0;
    for (int64_t k = from; k < end; k++) {
        const float shared = shared_area(b, k, low, high), both = area + b->area[k] - shared;
        any |= (both < SMALLEST) | (shared > bound * both);
    }
    *some = any;
}

/* Keeps the box unless it overlaps one that is kept. */
static bool keep_box(const nms *s, const float *box, box_lines *kept) {
    float low[2], high[2];
    corners(s, box, low, high);
    const float area = (high[0] - low[0]) * (high[1] - low[1]);
    for (int64_t k = 0; k < kept->n; k += BOXES_AT_ONCE) {
        const int64_t end = k + BOXES_AT_ONCE < kept->n ? k + BOXES_AT_ONCE : kept->n;
        int some = 1;
        if (s->iou > SMALLEST) may_overlap(kept, k, end, low, high, area, s->iou, &some);
        if (some) overlap(kept, k, end, low, high, area, s->iou, &some);
        if (some) return false;
    }
    append_box(kept, low, high, area);
    return true;
}

/* Batch, class and number of each box that was chosen. */
typedef struct selection {
    int64_t (*box)[3];
    size_t n, capacity;
} selection;

/* Best first, every box that overlaps none chosen before; `index` has room for 2 n, `kept` for n.
 */
static qb_status select_boxes(qb_ctx *cx, const nms *s, int64_t *index, box_lines *kept,
                              selection *out) {
    for (int64_t line = 0; line < s->batch * s->classes; line++) {
        order o = {QB_DTYPE_F32, s->scores, line * s->n, 1, true};
        const float *boxes = s->boxes + line / s->classes * s->n * 4;
        int64_t candidates = 0;
        kept->n = 0;
        for (int64_t i = 0; i < s->n; i++)
            if (!s->has_score || s->scores[o.first + i] > s->score) index[candidates++] = i;
        sort_places(&o, index, index + s->n, candidates);
        for (int64_t i = 0; i < candidates && kept->n < s->most; i++) {
            if (!keep_box(s, boxes + index[i] * 4, kept)) continue;
            QB_TRY(qb_grow(cx, &out->box, &out->capacity, out->n + 1, sizeof *out->box));
            int64_t *box = out->box[out->n++];
            box[0] = line / s->classes;
            box[1] = line % s->classes;
            box[2] = index[i];
        }
    }
    return QB_OK;
}

/* `given[i]` says whether in[i] is there. */
static qb_status nms_of(qb_ctx *cx, const nms_attrs *attrs, const qb_tensor *in, const bool *given,
                        nms *s) {
    const qb_shape *boxes = &in[0].desc.shape, *scores = &in[1].desc.shape;
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dim[2] != 4 ||
        boxes->dim[0] != scores->dim[0] || boxes->dim[1] != scores->dim[2])
        return qb_fail(cx, QB_STATUS_INVALID,
                       "boxes and scores: expected [batch, n, 4] and [batch, classes, n]");
    for (int32_t i = 0; i < 5; i++) {
        qb_dtype wanted = i == 2 ? QB_DTYPE_S64 : QB_DTYPE_F32;
        if (!given[i]) continue;
        if (in[i].desc.dtype != wanted)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d: expected type %s, got %s", i,
                           qb_dtype_text(wanted), qb_dtype_text(in[i].desc.dtype));
        if (i >= 2 && qb_shape_count(&in[i].desc.shape) != 1)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d: expected one number, got %lld", i,
                           (long long)qb_shape_count(&in[i].desc.shape));
    }
    *s = (nms){.boxes = in[0].data,
               .scores = in[1].data,
               .batch = boxes->dim[0],
               .classes = scores->dim[1],
               .n = boxes->dim[1],
               .most = given[2] ? *(const int64_t *)in[2].data : 0,
               .iou = given[3] ? *(const float *)in[3].data : 0.0f,
               .score = given[4] ? *(const float *)in[4].data : 0.0f,
               .has_score = given[4],
               .center = attrs->center_point_box != 0};
    return QB_OK;
}

/* The caller frees out->box, also on failure. */
static qb_status run_nms(qb_ctx *cx, const nms_attrs *attrs, const qb_tensor *in, const bool *given,
                         selection *out) {
    nms s;
    QB_TRY(nms_of(cx, attrs, in, given, &s));
    QB_RELEASED(qb_temp_give_at) int64_t *index = qb_temp_take(cx, (size_t)s.n * 2, sizeof *index);
    QB_RELEASED(qb_temp_give_at)
    float *lines = index ? qb_temp_take(cx, (size_t)s.n * 5, sizeof *lines) : NULL;
    if (!lines) return cx->code;
    box_lines kept = {{lines, lines + s.n}, {lines + 2 * s.n, lines + 3 * s.n}, lines + 4 * s.n, 0};
    return select_boxes(cx, &s, index, &kept, out);
}

/* Pairs of boxes to compare, of those above the score; 2^31 take a second or so. */
static double pairs_of(const nms_attrs *attrs, const qb_tensor *in, const bool *given) {
    nms s;
    qb_ctx quiet;
    qb_ctx_init(&quiet);
    double pairs = 0;
    if (nms_of(&quiet, attrs, in, given, &s) != QB_OK) return 0; /* which the run will tell */
    for (int64_t line = 0; line < s.batch * s.classes; line++) {
        int64_t candidates = 0;
        for (int64_t i = 0; i < s.n; i++)
            candidates += !s.has_score || s.scores[line * s.n + i] > s.score;
        pairs += (double)candidates * fmin((double)candidates, fmax((double)s.most, 0.0));
    }
    return pairs;
}

/* max_output_boxes_per_class, or all boxes, of each class. */
static qb_status bound_nms(qb_ctx *cx, const qb_infer_args *args) {
    const qb_shape *scores = &qb_infer_in(args, 1)->shape;
    qb_tensor most;
    int64_t each = scores->dim[2];
    if (qb_infer_in(args, 2) && qb_infer_const(args, 2, &most) && most.desc.dtype == QB_DTYPE_S64 &&
        qb_shape_count(&most.desc.shape) == 1) {
        const int64_t told = *(const int64_t *)most.data;
        each = told < 0 ? 0 : told < each ? told : each;
    }
    const qb_shape out = qb_shape_of(2, scores->dim[0] * scores->dim[1] * each, (int64_t)3);
    return qb_infer_set(cx, args, 0, QB_DTYPE_S64, &out);
}

/* Counting takes as long as choosing: the boxes are kept for whoever evaluates the node. */
static qb_status count_boxes(qb_ctx *cx, const qb_infer_args *args, const qb_tensor *in,
                             const bool *given, int64_t *count) {
    selection found = {0};
    qb_status status = run_nms(cx, qb_infer_at(args)->attrs, in, given, &found);
    *count = (int64_t)found.n;
    if (status == QB_OK && args->result) {
        const size_t bytes = found.n * sizeof *found.box;
        *args->result = qb_arena_alloc(cx, args->graph->arena, bytes + 1, 1);
        if (*args->result && bytes > 0) memcpy(*args->result, found.box, bytes);
        if (!*args->result) status = cx->code;
    }
    qb_free(found.box);
    return status;
}

static qb_status infer_nms(qb_ctx *cx, const qb_infer_args *args) {
    qb_shape out = {.rank = 2, .dim = {QB_DIM_UNKNOWN, 3}};
    qb_tensor in[5] = {0};
    bool given[5], known = true;
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 3));
    QB_TRY(qb_infer_rank(cx, args, 1, 3, 3));
    for (int32_t i = 0; i < 5; i++) {
        given[i] = qb_infer_in(args, i) != NULL;
        if (given[i]) known = qb_infer_const(args, i, &in[i]) && known;
    }
    if (known) known = pairs_of(qb_infer_at(args)->attrs, in, given) <= 0x1p31;
    if (known) QB_TRY(count_boxes(cx, args, in, given, &out.dim[0]));
    return qb_infer_set(cx, args, 0, QB_DTYPE_S64, &out);
}

static qb_status eval_nms(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    selection found = {0};
    bool given[5];
    for (int32_t i = 0; i < 5; i++) given[i] = qb_eval_has(node, in, i);
    const qb_status status = run_nms(cx, node->attrs, in, given, &found);
    if (status == QB_OK && found.n > 0) memcpy(out[0].data, found.box, found.n * sizeof *found.box);
    qb_free(found.box);
    return status;
}

QB_OP_SIMPLE(non_max_suppression, "NonMaxSuppression", 10, 2, 5, 1, sizeof(nms_attrs), nms_table,
             FLOAT, infer_nms, eval_nms, .bound = bound_nms, .types = "f32",
             .traits = QB_TRAIT_WINDOW);
