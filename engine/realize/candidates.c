/* The layout candidates in which a problem is offered to the tactics. */
#include <string.h>

#include "engine/realize/lowering_internal.h"
#include "kernels/strided.h"

static bool is_spatial(const qb_shape *shape) { return shape->rank >= 3 && shape->rank <= 5; }

/* Of more than one pixel. */
static bool is_image(const qb_shape *shape) {
    return is_spatial(shape) && qb_shape_span(shape, 2, shape->rank) > 1;
}

/* Constants are row-major, and so are weights that are computed in their place; the image that they
 * slide over has a layout even where it is constant. */
static bool has_layout(const qb_lowering *b, const qb_group *group, int32_t i) {
    if (group->kind == QB_KIND_CONV || group->kind == QB_KIND_CONV_TRANSPOSE)
        return i == QB_IN_DATA || i == QB_IN_RESIDUAL;
    return !b->graph->values[group->in[i]].data;
}

static void add_candidate(qb_lowering *b, const qb_group *group, const qb_problem *base,
                          qb_layout layout, bool slices, const qb_desc *out_slice,
                          qb_candidates *f) {
    if (f->n == QB_MAX_CANDIDATES) return;
    qb_problem *p = &f->problem[f->n];
    qb_desc *in = f->in[f->n++];
    *p = *base;
    p->in = in;
    for (int32_t i = 0; i < base->n_in; i++) {
        in[i] = base->in[i];
        if (in[i].dtype == QB_DTYPE_NONE || !has_layout(b, group, i)) continue;
        if (in[i].shape.rank == base->out.shape.rank && is_spatial(&in[i].shape))
            in[i].layout = layout;
        int32_t stored = qb_lower_first(b, group->in[i], f->device);
        if (!slices || stored < 0) continue;
        const qb_desc *have = &b->engine->layouts[stored].desc;
        if (have->layout == layout) {
            in[i].channel_offset = have->channel_offset;
            in[i].channel_total = have->channel_total;
        }
    }
    if (is_spatial(&p->out.shape)) p->out.layout = layout;
    if (out_slice) p->out = *out_slice;
}

static bool reads_slice(const qb_lowering *b, const qb_group *group, bool device) {
    for (int32_t i = 0; i < group->n_in; i++) {
        int32_t stored = group->in[i] < 0 ? -1 : qb_lower_first(b, group->in[i], device);
        if (stored >= 0 && b->engine->layouts[stored].desc.channel_total > 0) return true;
    }
    return false;
}

/* The layout of the first computed input with as many dimensions as the result; ANY: none. */
static qb_layout given_layout(const qb_lowering *b, const qb_group *group, const qb_problem *p) {
    for (int32_t i = 0; i < group->n_in; i++) {
        const qb_value *v = group->in[i] < 0 ? NULL : &b->graph->values[group->in[i]];
        const int32_t stored = v ? b->value[group->in[i]].layout : -1;
        if (stored >= 0 && !v->data && v->shape.rank == p->out.shape.rank)
            return b->engine->layouts[stored].desc.layout;
    }
    return QB_LAYOUT_ANY;
}

/* Bytes that copies make for a group whose tensors are in this layout: of inputs that are not there
 * in it yet, and of a result that all its readers want otherwise. */
static size_t copied_bytes(const qb_lowering *b, const qb_group *group, const qb_problem *p,
                           qb_layout layout) {
    const qb_lowered_value *out = &b->value[group->out];
    const bool rows = layout == QB_LAYOUT_ROW, windows = layout == b->spatial;
    const bool for_windows = out->only_slices && out->n_groups > 0;
    size_t bytes =
        (out->only_rows && !rows) || (for_windows && !windows) ? qb_desc_bytes(&p->out) : 0;
    for (int32_t i = 0; i < group->n_in; i++) {
        if (group->in[i] < 0 || b->graph->values[group->in[i]].data ||
            p->in[i].shape.rank != p->out.shape.rank)
            continue;
        const qb_desc want = qb_lower_desc(b, group->in[i], layout);
        if (qb_lower_find(b, group->in[i], &want, false) < 0) bytes += qb_desc_bytes(&want);
    }
    return bytes;
}

/* The layout in which elementwise groups on the host need the fewest copies: `given` unless another
 * one is better. */
static qb_layout cheapest(const qb_lowering *b, const qb_group *group, const qb_problem *p,
                          qb_layout given) {
    static const qb_layout others[] = {QB_LAYOUT_ROW, QB_LAYOUT_NHWC};
    if (b->engine->device || (p->kind != QB_KIND_BINARY && p->kind != QB_KIND_CHAIN)) return given;
    size_t least = copied_bytes(b, group, p, given);
    for (int32_t i = 0; i < 2; i++) {
        const size_t bytes = copied_bytes(b, group, p, others[i]);
        if (bytes < least) least = bytes, given = others[i];
    }
    return given;
}

/* Layouts to offer, best first: sliding windows like channels last (or what the library picks);
 * everything else follows its inputs. */
static int32_t layouts_of(const qb_lowering *b, const qb_group *group, const qb_problem *p,
                          qb_layout *layouts) {
    int32_t n = 0;
    const qb_layout given = given_layout(b, group, p);
    if (!is_spatial(&p->out.shape) || qb_kind_is_row_major(p->kind)) {
        layouts[n++] = QB_LAYOUT_ROW;
        return n;
    }
    const bool rows = p->kind == QB_KIND_POOL && b->engine->device &&
                      given == QB_LAYOUT_ROW; /* of what is no image */
    if (qb_kind_has_window(p->kind) && !rows) {
        layouts[n++] = b->spatial;
        layouts[n++] = QB_LAYOUT_ANY;
    } else if (given != QB_LAYOUT_ANY) {
        layouts[n++] = cheapest(b, group, p, given);
    }
    if (n == 0 || layouts[0] != QB_LAYOUT_NHWC) layouts[n++] = QB_LAYOUT_NHWC;
    if (layouts[0] != QB_LAYOUT_ROW) layouts[n++] = QB_LAYOUT_ROW;
    return n;
}

bool qb_lower_is_sum(const qb_lowering *b, const qb_group *group) {
    const qb_act_kind act = group->act.kind;
    if (group->kind != QB_KIND_BINARY || group->n_in != 2 ||
        strcmp(b->graph->nodes[group->node[0]].op->name, "Add") != 0 ||
        (act != QB_ACT_NONE && act != QB_ACT_RELU && act != QB_ACT_CLIP))
        return false;
    const qb_value *out = &b->graph->values[group->out];
    if (!is_spatial(&out->shape)) return false;
    for (int32_t i = 0; i < 3; i++) {
        const qb_value *value = i < 2 ? &b->graph->values[group->in[i]] : out;
        if (value->dtype != QB_DTYPE_F32 || value->q.n > 0 || value->data ||
            !qb_shape_equal(&value->shape, &out->shape))
            return false;
    }
    return true;
}

/* Pixels that are a multiple of half a page apart fall into one or two sets of the first level
 * cache and push each other out of it: such outputs get a little padding between their pixels, as
 * channel slices of a slightly wider tensor that has no other channels. */
#define ALIASING_BYTES 2048
#define PADDING_BYTES 64

static bool host_wants_padding(const qb_lowering *b, const qb_group *group, const qb_problem *p,
                               qb_desc *out) {
    const bool writes_slices = qb_kind_has_window(group->kind) || qb_lower_is_sum(b, group);
    if (strcmp(b->backends.name[0], "cpu") != 0 || !writes_slices || p->out.dtype == QB_DTYPE_BF16)
        return false;
    *out = qb_lower_desc(b, group->out, QB_LAYOUT_NHWC);
    const int64_t size = (int64_t)qb_dtype_size(out->dtype), channels = out->shape.dim[1];
    out->channel_total = channels + PADDING_BYTES / size;
    return channels * size % ALIASING_BYTES == 0 && b->value[group->out].only_slices;
}

/* Tensor Core kernels copy and store 16 bytes at a time: pixels on no such boundary take the slow
 * ones, or a copy. Pixels of half a boundary and less would be mostly padding. */
#define BOUNDARY_BYTES 16

int64_t qb_lower_padded_channels(const qb_lowering *b, int32_t value, const qb_desc *desc) {
    const qb_lowered_value *v = &b->value[value];
    const int64_t size = (int64_t)qb_dtype_size(desc->dtype), unit = BOUNDARY_BYTES / size;
    if (!is_image(&desc->shape) || !v->only_slices || !v->in_window || size > 2) return 0;
    const int64_t channels = desc->shape.dim[1];
    return 2 * channels > unit && channels % unit != 0 ? (channels + unit - 1) / unit * unit : 0;
}

static bool device_wants_padding(const qb_lowering *b, const qb_group *group, const qb_problem *p,
                                 qb_desc *out) {
    const bool moves = p->kind == QB_KIND_STRIDED_COPY || p->kind == QB_KIND_BINARY;
    if (!qb_kind_has_window(p->kind) && !moves) return false;
    *out = p->out;
    out->layout = QB_LAYOUT_NHWC;
    out->channel_total = qb_lower_padded_channels(b, group->out, &p->out);
    out->padded = true;
    return out->channel_total > 0;
}

/* Is the result better off as a slice of a tensor with a few channels more, which are nobody's? */
static bool wants_padding(const qb_lowering *b, const qb_group *group, const qb_problem *p,
                          bool device, qb_desc *out) {
    return device ? device_wants_padding(b, group, p, out)
                  : is_image(&p->out.shape) && host_wants_padding(b, group, p, out);
}

/* A device may take an image as it comes in where its normalization is the first thing to do. */
static void add_picture_candidate(qb_lowering *b, const qb_group *group, const qb_problem *base,
                                  qb_candidates *f) {
    if (!f->device || !qb_group_prepares_image(b->graph, group) || f->n == QB_MAX_CANDIDATES)
        return;
    add_candidate(b, group, base, QB_LAYOUT_NHWC, false, NULL, f);
    f->in[f->n - 1][QB_IN_DATA] = qb_lower_desc(b, group->in[QB_IN_DATA], QB_LAYOUT_ROW);
}

/* What moves elements that lie in rows writes an image that only sliding windows read as they read
 * it, without a copy of its own. */
static void add_image_candidate(qb_lowering *b, const qb_group *group, const qb_problem *base,
                                const qb_desc *padded, qb_candidates *f) {
    const qb_lowered_value *out = &b->value[group->out];
    if (base->kind != QB_KIND_STRIDED_COPY || !is_image(&base->out.shape) || !out->only_slices ||
        !out->in_window)
        return;
    add_candidate(b, group, base, QB_LAYOUT_ROW, false, NULL, f);
    qb_problem *p = &f->problem[f->n - 1];
    p->out.layout = QB_LAYOUT_NHWC;
    if (padded) p->out = *padded;
}

/* What moves or reduces elements reads them as they lie. */
static void add_strided_candidates(qb_lowering *b, const qb_group *group, const qb_problem *base,
                                   const qb_desc *padded, qb_candidates *f) {
    const bool moves = base->kind == QB_KIND_STRIDED_COPY, reduces = base->kind == QB_KIND_REDUCE;
    const int32_t stored = moves || reduces ? qb_lower_first(b, group->in[0], f->device) : -1;
    const qb_desc *have = stored < 0 ? NULL : &b->engine->layouts[stored].desc;
    for (int last = 1; have && have->layout == QB_LAYOUT_NHWC && last >= 0; last--) {
        add_candidate(b, group, base, QB_LAYOUT_ROW, false, NULL, f);
        qb_problem *p = &f->problem[f->n - 1];
        qb_desc *in = f->in[f->n - 1];
        in->layout = QB_LAYOUT_NHWC;
        in->channel_offset = have->channel_offset;
        in->channel_total = have->channel_total;
        if (last) p->out.layout = QB_LAYOUT_NHWC;
        if (last && padded) p->out = *padded;
        if (last && (!is_spatial(&p->out.shape) || b->value[group->out].only_rows ||
                     (moves ? !qb_strided_keeps_pixels(&p->strided, in, &p->out)
                            : in->shape.rank != p->out.shape.rank)))
            f->n--;
    }
}

void qb_lower_candidates(qb_lowering *b, const qb_group *group, const qb_problem *p,
                         const qb_desc *out_slice, qb_candidates *f) {
    qb_layout layouts[4];
    int32_t n = layouts_of(b, group, p, layouts);
    bool slices = reads_slice(b, group, f->device);
    qb_desc padded;
    const bool pads = !out_slice && wants_padding(b, group, p, f->device, &padded);
    if (pads) out_slice = &padded;
    f->n = 0;
    add_strided_candidates(b, group, p, pads ? &padded : NULL, f);
    add_image_candidate(b, group, p, pads ? &padded : NULL, f);
    if (out_slice) {
        if (slices) add_candidate(b, group, p, out_slice->layout, true, out_slice, f);
        add_candidate(b, group, p, out_slice->layout, false, out_slice, f);
    }
    for (int32_t i = 0; i < n; i++) {
        if (slices) add_candidate(b, group, p, layouts[i], true, NULL, f);
        add_candidate(b, group, p, layouts[i], false, NULL, f);
    }
    add_picture_candidate(b, group, p, f);
}
