/* From fusion groups to steps. */
#include <string.h>

#include "base/strbuf.h"
#include "device_internal.h"

qb_step *qb_build_step(qb_builder *b, qb_step_kind kind, int32_t n_in, int32_t n_out) {
    qb_engine *e = b->engine;
    int32_t *ids = qb_arena_alloc(b->cx, e->arena, (size_t)(n_in + n_out), sizeof *ids);
    if (!ids ||
        qb_grow(b->cx, &e->steps, &b->cap_steps, (size_t)e->n_steps + 1, sizeof *e->steps) != QB_OK)
        return NULL;
    for (int32_t i = 0; i < n_in + n_out; i++) ids[i] = -1;
    qb_step *step = &e->steps[e->n_steps++];
    *step = (qb_step){.kind = kind,
                      .node_index = -1,
                      .n_in = n_in,
                      .n_out = n_out,
                      .in = ids,
                      .out = ids + n_in,
                      .observed = -1,
                      .name = "",
                      .op = "",
                      .tactic = ""};
    return step;
}

/* "Conv+Add+Relu" */
static const char *group_op(qb_builder *b, const qb_group *group) {
    qb_strbuf text = {0};
    for (int32_t i = 0; i < group->n_nodes; i++) {
        if (i > 0) qb_strbuf_add(&text, "+");
        qb_strbuf_add(&text, b->graph->nodes[group->node[i]].op->name);
    }
    const char *kept =
        text.failed ? NULL : qb_arena_strdup(b->cx, b->engine->arena, text.data ? text.data : "");
    qb_strbuf_release(&text);
    return kept;
}

qb_status qb_build_describe(qb_builder *b, const qb_group *group, qb_step *step) {
    const qb_node *anchor = &b->graph->nodes[group->node[0]];
    const char *name =
        anchor->name && *anchor->name ? anchor->name : b->graph->values[group->out].name;
    const char *op = group_op(b, group);
    if (!op) return b->cx->code;
    step->name = name;
    step->op = op;
    step->node_index = group->node[0];
    step->choice.why_not = b->why_not;
    return QB_OK;
}

double qb_step_bytes(const qb_engine *engine, const qb_step *step) {
    const qb_image *images = engine->images;
    double bytes = step->kernel ? (double)step->kernel->packed_bytes : 0.0;
    for (int32_t i = 0; i < step->n_in; i++)
        if (step->in[i] >= 0) bytes += (double)qb_desc_bytes(&images[step->in[i]].desc);
    for (int32_t i = 0; i < step->n_out; i++)
        if (step->out[i] >= 0) bytes += (double)qb_desc_bytes(&images[step->out[i]].desc);
    return bytes;
}

static bool is_quantized(const qb_builder *b, int32_t value) {
    return value >= 0 && b->graph->values[value].q.n > 0;
}

/* ---- operators that run through eval --------------------------------------------------------- */

qb_desc qb_build_real_desc(const qb_builder *b, int32_t value) {
    qb_desc desc = qb_build_desc(b, value, QB_LAYOUT_ROW);
    if (desc.q.n > 0) {
        desc.dtype = QB_DTYPE_F32;
        desc.q = (qb_qparams){.axis = -1};
    }
    return desc;
}

qb_status qb_build_quantized(qb_builder *b, int32_t value, int32_t private) {
    qb_desc desc = qb_build_desc(b, value, QB_LAYOUT_ROW);
    int32_t to = qb_build_fresh(b, value, &desc, qb_image_on_device(b->engine, private));
    if (to < 0) return b->cx->code;
    QB_TRY(qb_build_copy(b, private, to));
    b->engine->steps[b->engine->n_steps - 1].observed = b->engine->n_observed;
    return qb_build_observed(b, value);
}

/* Images of the node's outputs in real values, for the last step, and copies to codes behind it. */
static qb_status real_outputs(qb_builder *b, const qb_node *node, bool device) {
    const int32_t index = b->engine->n_steps - 1;
    qb_step *step = &b->engine->steps[index];
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        qb_desc desc = qb_build_real_desc(b, node->out[i]);
        bool private = is_quantized(b, node->out[i]);
        int32_t image = qb_build_fresh(b, private ? -1 : node->out[i], &desc, device);
        if (image < 0) return b->cx->code;
        step->out[i] = image;
        if (private) continue;
        if (step->observed < 0) step->observed = b->engine->n_observed;
        QB_TRY(qb_build_observed(b, node->out[i]));
    }
    step->bytes = qb_step_bytes(b->engine, step);
    for (int32_t i = 0; i < node->n_out; i++)
        if (is_quantized(b, node->out[i]))
            QB_TRY(qb_build_quantized(b, node->out[i], b->engine->steps[index].out[i]));
    return QB_OK;
}

qb_status qb_build_node(qb_builder *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    int32_t *in = qb_arena_alloc(b->cx, b->engine->arena, (size_t)node->n_in, sizeof *in);
    if (!in) return b->cx->code;
    for (int32_t i = 0; i < node->n_in; i++) {
        in[i] = -1;
        if (node->in[i] < 0) continue;
        qb_desc want = qb_build_real_desc(b, node->in[i]);
        in[i] = qb_build_require(b, node->in[i], &want, false);
        if (in[i] < 0) return b->cx->code;
    }
    qb_step *step = qb_build_step(b, QB_STEP_NODE, 0, node->n_out);
    if (!step) return b->cx->code;
    step->node = node;
    step->in = in;
    step->n_in = node->n_in;
    step->tactic = "node";
    step->dtype = QB_DTYPE_F32;
    QB_TRY(qb_build_describe(b, group, step));
    return real_outputs(b, node, false);
}

/* ---- steps that run through a tactic --------------------------------------------------------- */

static bool is_spatial(const qb_shape *shape) { return shape->rank >= 3 && shape->rank <= 5; }

static bool is_window_kind(qb_kind kind) {
    return kind == QB_KIND_CONV || kind == QB_KIND_CONV_TRANSPOSE || kind == QB_KIND_POOL ||
           kind == QB_KIND_CONV_POOL;
}

static void add_form(qb_builder *b, const qb_group *group, const qb_problem *base, qb_layout layout,
                     bool slices, const qb_desc *out_slice, qb_forms *f) {
    if (f->n == QB_MAX_FORMS) return;
    qb_problem *p = &f->problem[f->n];
    qb_desc *in = f->in[f->n++];
    *p = *base;
    p->in = in;
    for (int32_t i = 0; i < base->n_in; i++) {
        in[i] = base->in[i];
        if (in[i].dtype == QB_DTYPE_NONE || b->graph->values[group->in[i]].data) continue;
        if (in[i].shape.rank == base->out.shape.rank && is_spatial(&in[i].shape))
            in[i].layout = layout;
        int32_t image = qb_build_first(b, group->in[i], f->device);
        if (!slices || image < 0) continue;
        const qb_desc *have = &b->engine->images[image].desc;
        if (have->layout == layout) {
            in[i].channel_offset = have->channel_offset;
            in[i].channel_total = have->channel_total;
        }
    }
    if (is_spatial(&p->out.shape)) p->out.layout = layout;
    if (out_slice) p->out = *out_slice;
}

static bool reads_slice(const qb_builder *b, const qb_group *group, bool device) {
    for (int32_t i = 0; i < group->n_in; i++) {
        int32_t image = group->in[i] < 0 ? -1 : qb_build_first(b, group->in[i], device);
        if (image >= 0 && b->engine->images[image].desc.channel_total > 0) return true;
    }
    return false;
}

/* Layouts to offer, best first: sliding windows like channels last (or what the library picks);
 * everything else follows its input. */
static int32_t layouts_of(const qb_builder *b, const qb_group *group, const qb_problem *p,
                          qb_layout *layouts) {
    int32_t n = 0;
    bool rows = p->kind == QB_KIND_MATMUL || p->kind == QB_KIND_LAYER_NORM ||
                p->kind == QB_KIND_TRANSPOSE || p->kind == QB_KIND_GATHER ||
                p->kind == QB_KIND_ATTENTION || p->kind == QB_KIND_MATMUL_INTEGER ||
                p->kind == QB_KIND_MATMUL_SCALED || p->kind == QB_KIND_DYNAMIC_QUANTIZE;
    if (!is_spatial(&p->out.shape) || rows) {
        layouts[n++] = QB_LAYOUT_ROW;
        return n;
    }
    if (is_window_kind(p->kind)) {
        layouts[n++] = b->spatial;
        layouts[n++] = QB_LAYOUT_ANY;
    } else if (group->in[0] >= 0 && b->image_of[group->in[0]] >= 0) {
        layouts[n++] = b->engine->images[b->image_of[group->in[0]]].desc.layout;
    }
    const qb_layout rest[] = {QB_LAYOUT_NHWC, QB_LAYOUT_ROW};
    for (int32_t i = 0; i < 2; i++) {
        bool listed = false;
        for (int32_t k = 0; k < n; k++) listed = listed || layouts[k] == rest[i];
        if (!listed) layouts[n++] = rest[i];
    }
    return n;
}

/* Pixels that are a multiple of half a page apart fall into one or two sets of the first level
 * cache and push each other out of it: such outputs get a little room between their pixels, as
 * channel slices of a slightly wider tensor that has no other channels. */
#define ALIASING_BYTES 2048
#define ROOM_BYTES 64

bool qb_build_is_sum(const qb_builder *b, const qb_group *group) {
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

static bool wants_room(const qb_builder *b, const qb_group *group, qb_desc *out) {
    const qb_shape *shape = &b->graph->values[group->out].shape;
    const bool writes_slices = is_window_kind(group->kind) || qb_build_is_sum(b, group);
    if (strcmp(b->backends[0], "cpu") != 0 || !writes_slices || !is_spatial(shape)) return false;
    *out = qb_build_desc(b, group->out, QB_LAYOUT_NHWC);
    int64_t size = (int64_t)qb_dtype_size(out->dtype), bytes = shape->dim[1] * size, pixels = 1;
    for (int32_t d = 2; d < shape->rank; d++) pixels *= shape->dim[d];
    out->channel_total = shape->dim[1] + ROOM_BYTES / size;
    return bytes % ALIASING_BYTES == 0 && pixels > 1 && b->only_windows[group->out];
}

/* A device may take an image as it comes in where its normalization is the first thing to do. */
static void add_image_form(qb_builder *b, const qb_group *group, const qb_problem *base,
                           qb_forms *f) {
    if (!f->device || !qb_group_prepares_image(b->graph, group) || f->n == QB_MAX_FORMS) return;
    add_form(b, group, base, QB_LAYOUT_NHWC, false, NULL, f);
    f->in[f->n - 1][QB_IN_DATA] = qb_build_desc(b, group->in[QB_IN_DATA], QB_LAYOUT_ROW);
}

void qb_build_forms(qb_builder *b, const qb_group *group, const qb_problem *p,
                    const qb_desc *out_slice, qb_forms *f) {
    qb_layout layouts[4];
    int32_t n = layouts_of(b, group, p, layouts);
    bool slices = reads_slice(b, group, f->device);
    qb_desc roomy;
    if (!out_slice && !f->device && p->out.dtype != QB_DTYPE_BF16 && wants_room(b, group, &roomy))
        out_slice = &roomy;
    f->n = 0;
    if (out_slice) {
        if (slices) add_form(b, group, p, out_slice->layout, true, out_slice, f);
        add_form(b, group, p, out_slice->layout, false, out_slice, f);
    }
    for (int32_t i = 0; i < n; i++) {
        if (slices) add_form(b, group, p, layouts[i], true, NULL, f);
        add_form(b, group, p, layouts[i], false, NULL, f);
    }
    add_image_form(b, group, p, f);
}

/* May `image` be overwritten by the group at work? Only when nobody else will look at the memory.
 */
static bool is_last_use(const qb_builder *b, int32_t value, int32_t image) {
    const qb_engine *e = b->engine;
    if (b->last_group[value] > b->group) return false;
    int32_t buffer = e->images[image].buffer;
    if (e->buffers[buffer].lasting ||
        (e->buffers[buffer].kind != QB_BUFFER_ARENA && e->buffers[buffer].kind != QB_BUFFER_DEVICE))
        return false;
    for (int32_t i = 0; i < e->n_images; i++) { /* those that were overwritten before are gone */
        int32_t other = e->images[i].value;
        if (i != image && e->images[i].buffer == buffer &&
            (other < 0 || b->last_group[other] >= b->group))
            return false;
    }
    return true;
}

/* An output image in the memory of an input, where the kernel allows it; -1: none. */
static qb_status in_place(qb_builder *b, const qb_group *group, const qb_kernel *kernel,
                          int32_t *in, int32_t *image) {
    *image = -1;
    const qb_desc *out = &kernel->problem.out;
    bool device = kernel->tactic->device_memory;
    for (int32_t i = 0; i < group->n_in && *image < 0; i++) {
        if (!(kernel->in_place_inputs >> i & 1) || in[i] < 0) continue;
        bool free_to_use = is_last_use(b, group->in[i], in[i]) &&
                           qb_desc_bytes(&kernel->problem.in[i]) == qb_desc_bytes(out);
        for (int32_t k = 0; k < group->n_in; k++)
            free_to_use = free_to_use && (k == i || in[k] != in[i]);
        if (!free_to_use && !kernel->in_place_required) continue;
        if (!free_to_use) { /* a copy that may be overwritten */
            int32_t copy = qb_build_fresh(b, -1, &kernel->problem.in[i], device);
            if (copy < 0) return b->cx->code;
            QB_TRY(qb_build_copy(b, in[i], copy));
            in[i] = copy;
        }
        *image = qb_build_image(b, group->out, out, b->engine->images[in[i]].buffer);
        if (*image < 0) return b->cx->code;
    }
    return QB_OK;
}

static qb_status output_image(qb_builder *b, const qb_group *group, const qb_kernel *kernel,
                              int32_t *in, int32_t *image) {
    const qb_desc *out = &kernel->problem.out;
    if (b->slice_of[group->out] >= 0) {
        int32_t whole = qb_build_whole(b, b->slice_of[group->out]);
        if (whole < 0) return b->cx->code;
        *image = qb_build_image(b, group->out, out, b->engine->images[whole].buffer);
        return *image < 0 ? b->cx->code : QB_OK;
    }
    QB_TRY(in_place(b, group, kernel, in, image));
    if (*image < 0) *image = qb_build_fresh(b, group->out, out, kernel->tactic->device_memory);
    return *image < 0 ? b->cx->code : QB_OK;
}

static qb_dtype computes_in(const qb_problem *p) {
    qb_dtype real = p->in[0].dtype == QB_DTYPE_BF16                                  ? QB_DTYPE_BF16
                    : p->in[0].dtype == QB_DTYPE_F16 || p->out.dtype == QB_DTYPE_F16 ? QB_DTYPE_F16
                                                                                     : QB_DTYPE_F32;
    bool in = p->in[0].q.n > 0, out = p->out.q.n > 0;
    bool has_weight = p->kind == QB_KIND_CONV || p->kind == QB_KIND_CONV_POOL ||
                      p->kind == QB_KIND_CONV_TRANSPOSE || p->kind == QB_KIND_MATMUL;
    if (p->kind == QB_KIND_MATMUL_INTEGER || p->kind == QB_KIND_MATMUL_SCALED) return QB_DTYPE_S8;
    if (has_weight) return in && p->in[QB_IN_WEIGHT].q.n > 0 ? QB_DTYPE_S8 : real;
    return in && out ? QB_DTYPE_S8 : real;
}

qb_status qb_build_add_kernel(qb_builder *b, const qb_group *group, qb_kernel **kernel) {
    const qb_problem *p = &(*kernel)->problem;
    size_t n_in = (size_t)group->n_in;
    int32_t *in = qb_arena_alloc(b->cx, b->engine->arena, n_in, sizeof *in);
    const void **constants = qb_arena_alloc(b->cx, b->engine->arena, n_in, sizeof *constants);
    if (!in || !constants) return b->cx->code;
    for (int32_t i = 0; i < group->n_in; i++) {
        in[i] = -1;
        if (group->in[i] >= 0) constants[i] = b->graph->values[group->in[i]].data;
        if (group->in[i] < 0 || ((*kernel)->packed_inputs >> i & 1)) continue;
        in[i] = qb_build_require(b, group->in[i], &p->in[i], (*kernel)->tactic->device_memory);
        if (in[i] < 0) return b->cx->code;
    }
    const int32_t n_out = qb_kind_outputs(p->kind);
    int32_t out = -1;
    if (n_out == 1) QB_TRY(output_image(b, group, *kernel, in, &out));
    qb_step *step = qb_build_step(b, QB_STEP_KERNEL, 0, n_out);
    if (!step) return b->cx->code;
    step->kernel = *kernel;
    step->on_device = (*kernel)->tactic->device_memory;
    step->workspace_bytes = (*kernel)->workspace_bytes;
    *kernel = NULL;
    step->in = in;
    step->n_in = group->n_in;
    step->constants = constants;
    step->tactic = step->kernel->tactic->name;
    step->dtype = computes_in(p);
    step->flops = qb_problem_flops(p);
    QB_TRY(qb_build_describe(b, group, step));
    if (n_out > 1) return real_outputs(b, &b->graph->nodes[group->node[0]], step->on_device);
    step->out[0] = out;
    step->bytes = qb_step_bytes(b->engine, step);
    step->observed = b->engine->n_observed;
    return qb_build_observed(b, group->out);
}

/* The kernel for the problem; UNSUPPORTED when no tactic takes it. */
static qb_status kernel_on_host(qb_builder *b, const qb_group *group, const qb_problem *p,
                                qb_kernel **out) {
    qb_forms f = {0};
    bool constant[QB_MAX_INPUTS] = {false};
    qb_desc slice;
    for (int32_t i = 0; i < group->n_in; i++)
        constant[i] = group->in[i] >= 0 && b->graph->values[group->in[i]].data;
    bool sliced = b->slice_of[group->out] >= 0;
    if (sliced) QB_TRY(qb_build_slice_desc(b, group->out, &slice));
    qb_build_forms(b, group, p, sliced ? &slice : NULL, &f);
    return qb_build_kernel(b, f.problem, f.n, constant, out);
}

/* In bf16 where that is asked for and a tactic does it; *out stays NULL where not. */
static qb_status bf16_on_host(qb_builder *b, const qb_group *group, const qb_problem *p,
                              qb_kernel **out) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem posed;
    *out = NULL;
    if (!qb_bf16_pose(b, group, p, in, &posed)) return QB_OK;
    b->trying = true;
    qb_status status = kernel_on_host(b, group, &posed, out);
    b->trying = false;
    if (status != QB_STATUS_UNSUPPORTED) return status;
    qb_ctx_clear(b->cx);
    return QB_OK;
}

static qb_status build_on_host(qb_builder *b, const qb_group *group, const qb_problem *p) {
    qb_kernel *kernel = NULL;
    QB_TRY(bf16_on_host(b, group, p, &kernel));
    if (!kernel) QB_TRY(kernel_on_host(b, group, p, &kernel));
    if (kernel->problem.out.channel_total == 0) b->slice_of[group->out] = -1;
    qb_status status = qb_build_add_kernel(b, group, &kernel);
    qb_kernel_free(kernel);
    return status;
}

static qb_status build_kernel_step(qb_builder *b, const qb_group *group, const qb_problem *p) {
    bool done = false;
    if (group->n_in > 4)
        return qb_fail(b->cx, QB_STATUS_INTERNAL, "%s: expected at most 4 inputs, got %d",
                       qb_kind_text(p->kind), (int)group->n_in);
    if (b->engine->device) QB_TRY(qb_device_step(b, group, p, &done));
    return done ? QB_OK : build_on_host(b, group, p);
}

/* A node that a tactic runs as well as its operator's eval, if there is such a tactic. */
static qb_status build_node_on_host(qb_builder *b, const qb_group *group, bool *done) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    bool constant[QB_MAX_INPUTS] = {false};
    qb_kernel *kernel = NULL;
    *done = false;
    if (!qb_node_problem(b->graph, &b->graph->nodes[group->node[0]], in, &problem)) return QB_OK;
    qb_group posed = *group;
    posed.n_in = problem.n_in;
    for (int32_t i = 0; i < posed.n_in; i++)
        constant[i] = posed.in[i] >= 0 && b->graph->values[posed.in[i]].data;
    qb_status status = qb_build_kernel(b, &problem, 1, constant, &kernel);
    if (status == QB_STATUS_UNSUPPORTED) {
        qb_ctx_clear(b->cx);
        return QB_OK;
    }
    if (status == QB_OK) status = qb_build_add_kernel(b, &posed, &kernel);
    qb_kernel_free(kernel);
    *done = true;
    return status;
}

qb_status qb_build_group(qb_builder *b, const qb_group *group) {
    bool done = false;
    b->why_not = NULL;
    if (b->graph->nodes[group->node[0]].op->of_plugin) return qb_build_plugin(b, group);
    if (group->kind == QB_KIND_NODE) {
        QB_TRY(qb_build_alias(b, group, &done));
        if (done) return QB_OK;
        if (b->engine->device) QB_TRY(qb_device_node(b, group, &done));
        if (!done) QB_TRY(build_node_on_host(b, group, &done));
        return done ? QB_OK : qb_build_node(b, group);
    }
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    QB_TRY(qb_group_problem(b->cx, b->graph, group, in, &problem));
    if (group->kind == QB_KIND_CONCAT) return qb_build_concat(b, group, &problem);
    return build_kernel_step(b, group, &problem);
}
