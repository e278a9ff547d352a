/* Long lists of scores and boxes: the sort that counts against the one that compares, and
 * NonMaxSuppression against its definition, box by box. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "build_graph.h"
#include "graph/ops/ops_internal.h"

enum { N = 3000 };

/* Few different numbers, so that many are equal, and what is special about floats. */
static float number(qb_rng *rng) {
    static const float special[] = {0.0f, -0.0f, NAN, -NAN, INFINITY, -INFINITY, 1e-45f, -1e-45f};
    const uint64_t draw = qb_rng_below(rng, 100);
    if (draw < 8) return special[draw];
    return (float)((int64_t)qb_rng_below(rng, 200) - 100) * 0.37f;
}

typedef struct list {
    const float *x;
    bool largest;
} list;

static bool before(const void *what, int64_t i, int64_t j) {
    const list *l = what;
    const int sign = qb_element_order(QB_DTYPE_F32, l->x, 2 * i, 2 * j);
    return l->largest ? sign > 0 : sign < 0;
}

static void counting_sorts_as_comparing(void **state) {
    (void)state;
    static float x[2 * N];
    static int64_t a[N], b[N], other[N];
    qb_rng rng;
    qb_rng_seed(&rng, 5);
    for (int round = 0; round < 8; round++) {
        const bool largest = round % 2;
        int64_t n = 0;
        for (int64_t i = 0; i < 2 * N; i++) x[i] = number(&rng);
        for (int64_t i = 0; i < N; i++) /* all, or some of them */
            if (round < 4 || qb_rng_below(&rng, 3) > 0) a[n++] = i;
        memcpy(b, a, sizeof a);
        qb_sort_by_floats(x, 2, largest, a, other, n);
        qb_sort_indices(&(list){x, largest}, before, b, other, n);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
    }
}

/* ---- NonMaxSuppression ---- */

enum { CLASSES = 2 };

/* Corners on a grid: ratios are met exactly, and boxes without area are among them. In the smallest
 * units areas are denormal numbers. */
static void draw_boxes(qb_rng *rng, float (*box)[4], float unit) {
    for (int i = 0; i < N; i++)
        for (int d = 0; d < 2; d++) {
            box[i][d] = unit * (float)qb_rng_below(rng, 60);
            box[i][2 + d] = box[i][d] + unit * ((float)qb_rng_below(rng, 12) - 1);
        }
}

static float overlap(const float *a, const float *b) {
    float size[2], area[2] = {1, 1};
    for (int d = 0; d < 2; d++) {
        size[d] = fminf(fmaxf(a[d], a[2 + d]), fmaxf(b[d], b[2 + d])) -
                  fmaxf(fminf(a[d], a[2 + d]), fminf(b[d], b[2 + d]));
        area[0] *= fabsf(a[2 + d] - a[d]);
        area[1] *= fabsf(b[2 + d] - b[d]);
    }
    const float shared = fmaxf(size[0], 0) * fmaxf(size[1], 0), both = area[0] + area[1] - shared;
    return both > 0 ? shared / both : -INFINITY;
}

static int64_t define(float (*box)[4], const float *score, float iou, int64_t class,
                      int64_t (*out)[3]) {
    static bool done[N];
    int64_t found = 0;
    memset(done, 0, sizeof done);
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i < N; i++)
            if (!done[i] && (best < 0 || score[i] > score[best])) best = i;
        if (best < 0) return found;
        done[best] = true;
        bool keep = true;
        for (int64_t k = 0; k < found && keep; k++)
            keep = !(overlap(box[best], box[out[k][2]]) > iou);
        if (!keep) continue;
        memcpy(out[found++], (int64_t[]){0, class, best}, sizeof *out);
    }
}

static void boxes_are_those_of_the_definition(void **state) {
    (void)state;
    static const float units[] = {1, 1e-21f, 3e4f}, ious[] = {0.5f, 0.25f, 1.0f / 3, 0, -0.25f};
    static float box[N][4], score[CLASSES][N];
    static int64_t expected[CLASSES * N][3], found[CLASSES * N][3];
    for (uint64_t t = 0; t < 15; t++) {
        qb_tensor in[4] = {0}, out;
        qb_rng rng;
        maker m;
        qb_rng_seed(&rng, t);
        maker_init(&m, 3);
        draw_boxes(&rng, box, units[t / 5]);
        for (int64_t i = 0; i < CLASSES * N; i++)
            score[i / N][i % N] = (float)qb_rng_below(&rng, 500);
        const int32_t x[] = {make_floats(&m, "boxes", DIMS(1, N, 4), box[0]),
                             make_floats(&m, "scores", DIMS(1, CLASSES, N), score[0]),
                             INTS(&m, "most", N), make_scalar(&m, "iou", ious[t % 5])};
        const int32_t y = make_node(&m, "NonMaxSuppression", "y", 4, x);
        const qb_node *node = node_writing(&m, "y");
        for (int i = 0; i < 4; i++) {
            const qb_value *v = value_of(&m, x[i]);
            in[i] = qb_tensor_of(v->dtype, v->shape, (void *)(uintptr_t)v->data);
        }
        out = qb_tensor_of(QB_DTYPE_S64, value_of(&m, y)->shape, found);
        assert_ok(&m.cx, node->op->eval(&m.cx, node, in, &out));
        int64_t n = 0;
        for (int64_t c = 0; c < CLASSES; c++)
            n += define(box, score[c], ious[t % 5], c, expected + n);
        assert_int_equal(out.desc.shape.dim[0], n);
        assert_memory_equal(found, expected, (size_t)n * sizeof *found);
        maker_release(&m);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(counting_sorts_as_comparing),
                                          cmocka_unit_test(boxes_are_those_of_the_definition)};
QB_TEST_MAIN(tests)
