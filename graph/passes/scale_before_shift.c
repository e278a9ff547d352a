/* Mul or Div by a constant a channel behind a product and its constant term, as the scales of
 * layers in CaiT, DeiT III and ConvNeXt are, moves before the term, to the product that it can be
 * folded into: (x W + b) s = (x W) s + b s. */
#include <math.h>

#include "graph/passes_internal.h"

typedef struct pattern {
    int32_t add, side, product; /* the Add, its operand that is the product's result */
    int64_t channels;
} pattern;

/* The Add of a constant a channel to a product with the channels last, which operand `side` of the
 * node is, and which nobody else reads. */
static bool match_shift(const qb_rewrite *rw, int32_t index, int32_t side, pattern *p) {
    const qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[side];
    p->add = qb_rewrite_from(rw, x, "Add");
    if (p->add < 0 || !qb_value_is_plain(graph, x) ||
        qb_uses_sole_user(graph, &rw->uses, x) != index)
        return false;
    for (p->side = 0; p->side < 2; p->side++) {
        const int32_t y = graph->nodes[p->add].in[p->side];
        const qb_shape *shape = &graph->values[y].shape;
        int32_t axis = 0;
        p->product = qb_rewrite_from(rw, y, NULL);
        if (p->product < 0 || !qb_value_is_plain(graph, y) ||
            qb_uses_sole_user(graph, &rw->uses, y) != p->add)
            continue;
        p->channels = qb_affine_channels(rw, p->product, &axis);
        if (p->channels > 0 && axis == shape->rank - 1 &&
            shape->rank == graph->values[x].shape.rank && shape->dim[axis] == p->channels)
            return true;
    }
    return false;
}

/* The new terms; false: a constant is not one a channel, or a term not finite. */
static bool terms_of(const qb_rewrite *rw, int32_t index, int32_t side, const pattern *p,
                     double *scale, double *shift, float *terms) {
    const qb_graph *graph = rw->graph;
    const qb_node *mul = &graph->nodes[index], *add = &graph->nodes[p->add];
    const int32_t axis = graph->values[mul->in[side]].shape.rank - 1;
    if (qb_affine_numbers(graph, mul, side, axis, p->channels, scale) != QB_AFFINE_SCALE ||
        qb_affine_numbers(graph, add, p->side, axis, p->channels, shift) != QB_AFFINE_SHIFT)
        return false;
    for (int64_t c = 0; c < p->channels; c++) {
        terms[c] = (float)(shift[c] * scale[c]);
        if (!isfinite(terms[c])) return false;
    }
    return true;
}

static qb_status swap(qb_rewrite *rw, int32_t index, int32_t side, const pattern *p,
                      const float *terms) {
    qb_graph *graph = rw->graph;
    const int32_t out = graph->nodes[index].out[0], y = graph->nodes[p->add].in[p->side];
    const qb_shape shape = graph->values[y].shape, vector = {.rank = 1, .dim = {p->channels}};
    int32_t scaled, shift;
    QB_TRY(qb_rewrite_value(rw, out, "_scaled", &shape, &scaled));
    QB_TRY(qb_rewrite_floats(rw, out, "_shift", &vector, terms, &shift));
    graph->values[scaled].dtype = QB_DTYPE_F32;
    graph->nodes[index].in[side] = y;
    graph->nodes[index].out[0] = scaled;
    graph->nodes[p->add].in[p->side] = scaled;
    graph->nodes[p->add].in[1 - p->side] = shift;
    graph->nodes[p->add].out[0] = out;
    qb_rewrite_touch(rw, index);
    qb_rewrite_touch(rw, p->add);
    rw->unsorted = true;
    return qb_rewrite_changed(rw);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (qb_affine_of(node) != QB_AFFINE_SCALE || !qb_value_is_plain(graph, node->out[0]))
        return QB_OK;
    for (int32_t side = 0; side < 2; side++) {
        pattern p;
        if (!match_shift(rw, index, side, &p)) continue;
        const size_t n = (size_t)p.channels;
        double *numbers = QB_NEW(rw->cx, qb_alloc(rw->cx, 3 * n, sizeof *numbers));
        float *terms = (float *)(void *)(numbers + 2 * n);
        const bool fits = terms_of(rw, index, side, &p, numbers, numbers + n, terms);
        const qb_status status = fits ? swap(rw, index, side, &p, terms) : QB_OK;
        qb_free(numbers);
        if (fits) return status;
    }
    return QB_OK;
}

const qb_pass qb_pass_scale_before_shift = {
    "scale-before-shift", "moves Mul, Div by a constant a channel before a product's constant term",
    .match = match};
