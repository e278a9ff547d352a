/* Are fused steps what their nodes are? The anchor's sums by the reference, then the nodes behind
 * it one by one by their definitions, on the sample that the step itself was held against. */
#include <math.h>
#include <string.h>

#include "engine/tune/check_internal.h"
#include "kernels/ref.h"

/* A value of the graph on the sample, in floats. */
typedef struct known {
    int32_t value;
    qb_tensor tensor;
} known;

typedef struct nodes {
    qb_ctx *cx;
    const qb_graph *graph;
    const qb_group *group;
    const qb_check_sample *sample;
    qb_arena *arena;
    known known[QB_GROUP_NODES + QB_MAX_INPUTS];
    int32_t n;
} nodes;

static float *enter(nodes *f, int32_t value, const qb_shape *shape) {
    float *data = qb_arena_alloc(f->cx, f->arena, (size_t)qb_shape_count(shape), sizeof *data);
    if (data) f->known[f->n++] = (known){value, qb_tensor_of(QB_DTYPE_F32, *shape, data)};
    return data;
}

/* The dequantized values of an input of the sample. */
static qb_status enter_input(nodes *f, int32_t value, int32_t input) {
    const qb_desc *desc = &f->sample->in[input];
    const qb_problem copy = {.kind = QB_KIND_COPY,
                             .n_in = 1,
                             .in = desc,
                             .out = {.dtype = QB_DTYPE_F32, .shape = desc->shape, .q.axis = -1}};
    float *data = QB_NEW(f->cx, enter(f, value, &desc->shape));
    qb_ref_copy(&copy, &f->sample->data[input], data);
    return QB_OK;
}

/* What the first node, a convolution or a product, makes of its own inputs. */
static qb_status enter_anchor(nodes *f) {
    const qb_node *node = &f->graph->nodes[f->group->node[0]];
    qb_check_sample plain = *f->sample;
    plain.problem.in = plain.in;
    plain.problem.act = (qb_act){0};
    plain.problem.act_first = false;
    plain.problem.out.dtype = QB_DTYPE_F32;
    plain.problem.out.q = (qb_qparams){.axis = -1};
    plain.in[QB_IN_RESIDUAL].dtype = QB_DTYPE_NONE;
    if (node->n_in < 3 || node->in[2] < 0) plain.in[QB_IN_BIAS].dtype = QB_DTYPE_NONE;
    float *f32 = enter(f, node->out[0], &plain.problem.out.shape);
    return f32 ? qb_check_reference(f->cx, &plain, f32) : f->cx->code;
}

/* False: the value is not known on the sample. */
static bool operand(const nodes *f, int32_t value, qb_tensor *out) {
    *out = (qb_tensor){0};
    if (value < 0) return true;
    for (int32_t i = 0; i < f->n; i++) {
        if (f->known[i].value != value) continue;
        *out = f->known[i].tensor;
        return true;
    }
    const qb_value *v = &f->graph->values[value];
    if (!v->data || v->q.n > 0) return false;
    *out = qb_tensor_of(v->dtype, v->shape, (void *)(uintptr_t)v->data);
    return true;
}

/* *done is false where an input is not known. */
static qb_status enter_node(nodes *f, int32_t index, bool *done) {
    const qb_node *node = &f->graph->nodes[index];
    qb_tensor in[QB_MAX_INPUTS];
    *done = node->op->eval && node->n_in <= QB_MAX_INPUTS && node->n_out == 1;
    for (int32_t i = 0; *done && i < node->n_in; i++) *done = operand(f, node->in[i], &in[i]);
    if (!*done) return QB_OK;
    if (!enter(f, node->out[0], &f->sample->problem.out.shape)) return f->cx->code;
    return node->op->eval(f->cx, node, in, &f->known[f->n - 1].tensor);
}

/* The value that node `i` made, inside the step: rounded, where it is one of quantized values. */
static void round_inner(const nodes *f, int32_t i) {
    const known *made = &f->known[f->n - 1];
    if (i + 1 < f->group->n_nodes && f->graph->values[made->value].q.n > 0)
        qb_ref_round(&f->group->rounding, qb_shape_count(&made->tensor.desc.shape),
                     made->tensor.data);
}

static qb_status evaluate(nodes *f, bool *done) {
    const qb_group *g = f->group;
    const bool anchor = g->kind == QB_KIND_CONV || g->kind == QB_KIND_MATMUL;
    *done = true;
    for (int32_t i = anchor ? QB_IN_RESIDUAL : 0; i < g->n_in; i++)
        if (g->in[i] >= 0) QB_TRY(enter_input(f, g->in[i], i));
    for (int32_t i = 0; i < g->n_nodes && *done; i++) {
        QB_TRY(i == 0 && anchor ? enter_anchor(f) : enter_node(f, g->node[i], done));
        if (*done) round_inner(f, i);
    }
    return QB_OK;
}

/* Between the reference of the step and its nodes nothing but single roundings may differ. */
static qb_status compare(const nodes *f, const float *f32, const void *expected) {
    const qb_desc *out = &f->sample->problem.out;
    const int64_t n = qb_shape_count(&out->shape);
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)f32[i]));
    for (int64_t i = 0; i < n; i++) {
        const bool quantized = out->q.n == 1;
        const double got = qb_number_get(out->dtype, expected, i),
                     most = quantized ? 1 : 1e-4 * largest;
        const double wanted = quantized
                                  ? qb_quantize_value(f32[i], out->q.scale[0],
                                                      out->q.zero ? out->q.zero[0] : 0, out->dtype)
                                  : (double)f32[i];
        if (fabs(got - wanted) <= most + 1e-6 || (!isfinite(got) && !isfinite(wanted))) continue;
        return qb_fail(f->cx, QB_STATUS_INTERNAL,
                       "the step is wrong: its nodes, fused, give %g for result %lld, one by one "
                       "%g; please report this",
                       got, (long long)i, wanted);
    }
    return QB_OK;
}

static bool is_compared(const qb_group *group, const qb_check_sample *sample) {
    const bool anchor = group->kind == QB_KIND_CONV || group->kind == QB_KIND_MATMUL;
    const bool elementwise = group->kind == QB_KIND_BINARY || group->kind == QB_KIND_UNARY;
    const qb_desc *out = &sample->problem.out;
    return group->n_nodes > 1 && (anchor || (elementwise && sample->whole)) &&
           (out->q.n == 1 || out->dtype == QB_DTYPE_F32);
}

qb_status qb_check_fusion(qb_ctx *cx, const qb_graph *graph, const qb_group *group,
                          const qb_check_sample *sample, const void *expected) {
    nodes f = {.cx = cx, .graph = graph, .group = group, .sample = sample};
    bool done;
    if (!is_compared(group, sample)) return QB_OK;
    QB_TRY(qb_arena_create(cx, &f.arena));
    qb_status status = evaluate(&f, &done);
    if (status == QB_OK && done) status = compare(&f, f.known[f.n - 1].tensor.data, expected);
    qb_arena_free(f.arena);
    return status;
}
