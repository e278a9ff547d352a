#include "quant/recover/patches.h"

#include <string.h>

qb_status qb_patches_of(qb_ctx *cx, const qb_graph *graph, const qb_layer *l, qb_patches *out) {
    const qb_node *node = &graph->nodes[l->node];
    const qb_shape *x = &graph->values[node->in[0]].shape, *y = &graph->values[node->out[0]].shape;
    qb_patches p = {.groups = l->groups, .n_in = l->n_in, .taps = l->taps};
    if (l->kind == QB_KIND_MATMUL) {
        p.product = true;
        p.positions = qb_shape_count(x) / l->n_in;
        p.items = 1;
        *out = p;
        return QB_OK;
    }
    if (l->kind != QB_KIND_CONV || x->rank > 5)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s has no patches", node->op->name);
    QB_TRY(qb_op_window(cx, node, x, &graph->values[node->in[1]].shape, &p.window));
    /* Dimensions in front of the window's own have one position. */
    const int32_t n = p.window.n, lead = 3 - n;
    qb_window w = {.n = 3};
    for (int32_t d = 0; d < 3; d++) {
        const bool own = d >= lead;
        p.in[d] = own ? x->dim[2 + d - lead] : 1;
        p.out[d] = own ? y->dim[2 + d - lead] : 1;
        w.kernel[d] = own ? p.window.kernel[d - lead] : 1;
        w.stride[d] = own ? p.window.stride[d - lead] : 1;
        w.dilation[d] = own ? p.window.dilation[d - lead] : 1;
        w.pad_begin[d] = own ? p.window.pad_begin[d - lead] : 0;
    }
    p.window = w;
    p.items = x->dim[0];
    p.positions = p.items * p.out[0] * p.out[1] * p.out[2];
    *out = p;
    return QB_OK;
}

void qb_patch(const qb_patches *p, const float *x, int64_t group, int64_t at, float *row) {
    if (p->product) {
        memcpy(row, x + at * p->n_in, (size_t)p->n_in * sizeof *row);
        return;
    }
    const qb_window *w = &p->window;
    const int64_t plane = p->out[0] * p->out[1] * p->out[2], size = p->in[0] * p->in[1] * p->in[2];
    const int64_t item = at / plane, where = at % plane;
    const int64_t o[3] = {where / (p->out[1] * p->out[2]), where / p->out[2] % p->out[1],
                          where % p->out[2]};
    const float *channel = x + (item * p->groups + group) * p->n_in * size;
    int64_t first[3];
    for (int d = 0; d < 3; d++) first[d] = o[d] * w->stride[d] - w->pad_begin[d];
    for (int64_t c = 0; c < p->n_in; c++, channel += size)
        for (int64_t a = 0; a < w->kernel[0]; a++)
            for (int64_t b = 0; b < w->kernel[1]; b++)
                for (int64_t e = 0; e < w->kernel[2]; e++) {
                    const int64_t i = first[0] + a * w->dilation[0],
                                  j = first[1] + b * w->dilation[1],
                                  k = first[2] + e * w->dilation[2];
                    const bool inside =
                        i >= 0 && i < p->in[0] && j >= 0 && j < p->in[1] && k >= 0 && k < p->in[2];
                    *row++ = inside ? channel[(i * p->in[1] + j) * p->in[2] + k] : 0;
                }
}
