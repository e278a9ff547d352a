/* qb_check_engine: the kernel of each step on random data, and the reference beside it. */
#include "engine/tune/check_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "kernels/ref.h"

/* The inputs and results of one step: as its kernel has them, and row-major. */
typedef struct trial {
    qb_ctx *cx;
    const qb_engine *engine;
    const qb_step *step;
    qb_arena *arena;
    uint64_t random;
    qb_workers *workers;
    bool constant[QB_MAX_INPUTS];
    qb_problem row; /* the kernel's problem, row-major and in f32 instead of f16 and bf16 */
    qb_desc in[QB_MAX_INPUTS];
    const void *data[QB_MAX_INPUTS];
    void *result;
} trial;

/* A step with more bytes of data is not checked: several copies of them are made. A device's data
 * are converted by one thread, an element in some 40 ns, beside builds of few seconds. */
static const double most_bytes = 256e6, most_bytes_on_device = 8e6;

/* ---- data ------------------------------------------------------------------------------------ */

/* xorshift64*; data of a step depend on nothing but its number. */
static uint64_t draw(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Quantized values around the zero point, where sums do not leave the range of the result; floats
 * in [-2, 2); whole numbers below `most`. */
static void fill(trial *t, const qb_desc *desc, uint64_t most, void *data) {
    const int64_t n = qb_shape_count(&desc->shape);
    const int32_t zero = desc->q.n > 0 && desc->q.zero ? desc->q.zero[0] : 0;
    const bool is_signed = desc->dtype == QB_DTYPE_S8;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = draw(&t->random) >> 40;
        if (desc->dtype == QB_DTYPE_F32) {
            ((float *)data)[i] = (float)bits * 0x1p-22f - 2.0f;
        } else if (desc->q.n > 0 && qb_dtype_size(desc->dtype) == 1) {
            const int32_t code = zero + (int32_t)(bits % 81) - 40, low = is_signed ? -128 : 0;
            ((uint8_t *)data)[i] = (uint8_t)(code < low         ? low
                                             : code > low + 255 ? low + 255
                                                                : code);
        } else {
            qb_number_put(desc->dtype, data, i, (double)(bits % most));
        }
    }
}

static bool is_short_float(qb_dtype dtype) {
    return dtype == QB_DTYPE_F16 || dtype == QB_DTYPE_BF16;
}

static qb_desc row_of(const qb_desc *desc) {
    qb_desc row = *desc;
    row.layout = QB_LAYOUT_ROW;
    row.channel_offset = row.channel_total = 0;
    if (is_short_float(row.dtype)) row.dtype = QB_DTYPE_F32;
    return row;
}

static void copy(const qb_desc *from, const void *data, const qb_desc *to, void *out) {
    const qb_problem p = {.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
    qb_ref_copy(&p, &data, out);
}

static void *new_buffer(const trial *t, const qb_desc *desc) {
    return qb_arena_alloc(t->cx, t->arena, qb_desc_bytes(desc) + QB_BUFFER_SLACK, 1);
}

/* Whole numbers that an input takes: small ones, and indices that the data have. */
static uint64_t most_of(const qb_problem *p, int32_t i) {
    int64_t most = 4;
    for (int32_t k = 0; i == 1 && k < p->places.depth; k++)
        if (p->places.size[k] < most) most = p->places.size[k];
    return most < 1 ? 1 : (uint64_t)most;
}

/* The input before input i that is the same value, and has the same data in a run; -1. */
static int32_t same_before(const trial *t, int32_t i) {
    const qb_step *s = t->step;
    const qb_value_layout *layouts = t->engine->layouts;
    for (int32_t k = 0; k < i && s->in[i] >= 0; k++)
        if (s->in[k] >= 0 && layouts[s->in[k]].value == layouts[s->in[i]].value && t->data[k] &&
            t->in[k].dtype == t->in[i].dtype && qb_shape_equal(&t->in[k].shape, &t->in[i].shape))
            return k;
    return -1;
}

/* Row-major data for the reference; *there is where the kernel finds them in its own form. */
static qb_status lower_input(trial *t, int32_t i, const void **there) {
    const qb_kernel *k = t->step->kernel;
    const qb_desc *own = &k->problem.in[i];
    t->in[i] = row_of(own);
    *there = NULL;
    if (own->dtype == QB_DTYPE_NONE) return QB_OK;
    if (t->constant[i]) {
        t->data[i] = t->step->constants[i];
    } else if (same_before(t, i) >= 0) {
        t->data[i] = t->data[same_before(t, i)];
    } else {
        void *data = QB_NEW(t->cx, new_buffer(t, &t->in[i]));
        fill(t, &t->in[i], most_of(&k->problem, i), data);
        t->data[i] = data;
    }
    if (k->packed_inputs >> i & 1) return QB_OK;
    void *buffer = QB_NEW(t->cx, new_buffer(t, own));
    copy(&t->in[i], t->data[i], own, buffer);
    if (is_short_float(own->dtype)) /* what is rounded is rounded for both */
        copy(own, buffer, &t->in[i], (void *)(uintptr_t)t->data[i]);
    *there = buffer;
    return QB_OK;
}

static const void *packed_of(const trial *t) {
    if (t->step->shared) return t->step->shared;
    return (const char *)t->engine->packed.data + t->step->packed_offset;
}

/* ---- running --------------------------------------------------------------------------------- */

/* On the host. */
static qb_status launch(trial *t, const void *const *in, void *out) {
    const qb_kernel *k = t->step->kernel;
    void *workspace = QB_NEW(t->cx, qb_arena_alloc(t->cx, t->arena, k->workspace_bytes, 1));
    const qb_launch launch = {.in = in,
                              .out = out,
                              .packed = packed_of(t),
                              .workspace = k->workspace_bytes ? workspace : NULL,
                              .workers = t->workers};
    return k->launch(t->cx, k, &launch);
}

static qb_status run_kernel(trial *t) {
    const qb_kernel *k = t->step->kernel;
    const qb_problem *p = &k->problem;
    const void *in[QB_MAX_INPUTS] = {0};
    t->row = *p;
    t->row.in = t->in;
    t->row.out = row_of(&p->out);
    for (int32_t i = 0; i < p->n_in; i++) QB_TRY(lower_input(t, i, &in[i]));
    void *out = QB_NEW(t->cx, new_buffer(t, &p->out));
    QB_TRY_NEW(t->cx, t->result = new_buffer(t, &t->row.out));
    for (int32_t i = 0; i < p->n_in && k->in_place_required; i++)
        if (k->in_place_inputs >> i & 1) out = (void *)(uintptr_t)in[i];
    QB_TRY(t->step->on_device ? qb_check_launch(t->cx, t->engine, t->step, in, out)
                              : launch(t, in, out));
    copy(&p->out, out, &t->row.out, t->result);
    return QB_OK;
}

/* Functions that kernels compute to a few units in the last place. */
static bool has_exponential(qb_act_kind act) {
    return act == QB_ACT_SIGMOID || act == QB_ACT_TANH || act == QB_ACT_SILU ||
           act == QB_ACT_GELU || act == QB_ACT_GELU_TANH || act == QB_ACT_ELU;
}

/* By how much integer results may be off. */
static double code_bound(const trial *t) {
    const qb_problem *p = &t->row;
    const bool exact = t->step->kernel->tactic->exactness == QB_EXACT &&
                       !has_exponential(p->act.kind) &&
                       (p->in[0].q.n > 0 || p->kind == QB_KIND_COPY);
    return exact || p->out.q.n == 0 ? 0 : 1;
}

/* Bits behind the point that the step keeps of floats. */
static int bits_of(const qb_kernel *k) {
    int bits = k->problem.tf32 ? 10 : 24;
    for (int32_t i = 0; i <= k->problem.n_in; i++) {
        const qb_dtype dtype = i < k->problem.n_in ? k->problem.in[i].dtype : k->problem.out.dtype;
        if (dtype == QB_DTYPE_BF16) return 8;
        if (dtype == QB_DTYPE_F16) bits = 10;
    }
    return bits;
}

/* The first result that is too far off, -1. */
static int64_t first_wrong(const trial *t, const qb_check_sample *s, const void *expected,
                           const double *bound, double *got, double *wanted) {
    const qb_dtype type = s->problem.out.dtype;
    const int64_t n = qb_shape_count(&s->problem.out.shape);
    for (int64_t i = 0; i < n; i++) {
        *got = qb_number_get(type, t->result, s->first + i / s->run * s->of + i % s->run);
        *wanted = qb_number_get(type, expected, i);
        const bool both_nan = isnan(*got) && isnan(*wanted);
        if (*got == *wanted || both_nan ||
            fabs(*got - *wanted) <= (bound ? bound[i] : code_bound(t)))
            continue;
        return i;
    }
    return -1;
}

/* *text (the arena's) says what is wrong; NULL: nothing. */
static qb_status compare(trial *t, const qb_check_sample *s, const void *expected,
                         const char **text) {
    const int64_t n = qb_shape_count(&s->problem.out.shape);
    const bool floats = s->problem.out.dtype == QB_DTYPE_F32;
    double *bound = NULL, got, wanted;
    *text = NULL;
    if (floats) {
        QB_TRY_NEW(t->cx, bound = qb_arena_alloc(t->cx, t->arena, (size_t)n, sizeof *bound));
        QB_TRY(qb_check_bounds(t->cx, s, expected, bits_of(t->step->kernel), bound));
    }
    const int64_t i = first_wrong(t, s, expected, bound, &got, &wanted);
    if (i < 0) return QB_OK;
    *text = qb_arena_format(t->cx, t->arena, "tactic %s is wrong here: %g instead of %g",
                            t->step->tactic, got, wanted);
    return *text ? QB_OK : t->cx->code;
}

static qb_status check_step(trial *t, const qb_group *group, uint64_t seed, const char **text) {
    qb_check_sample sample = {0};
    bool taken = false;
    qb_status status = QB_OK;
    *text = NULL;
    QB_GO(run_kernel(t));
    QB_GO(qb_check_sample_of(t->cx, &t->row, t->data, seed, &sample, &taken));
    if (!taken) goto out;
    void *expected = new_buffer(t, &sample.problem.out);
    if (!expected) QB_GO(t->cx->code);
    QB_GO(qb_check_reference(t->cx, &sample, expected));
    QB_GO(compare(t, &sample, expected, text));
    const bool same = group && group->kind == t->row.kind && /* else it is one of others' groups */
                      group->rounding.dtype == t->row.rounding.dtype;
    if (!*text && same && !t->step->on_device)
        QB_GO(qb_check_fusion(t->cx, t->engine->graph, group, &sample, expected));
out:
    qb_free(sample.own);
    return status;
}

/* ---- the engine ------------------------------------------------------------------------------ */

typedef struct check {
    qb_ctx *cx;
    const qb_engine *engine;
    qb_timings *denied;
    qb_wrong_steps *wrong;
    qb_workers *workers;
    qb_groups groups;
    int32_t *group_of; /* [n_values] that makes the value, -1 */
    int32_t n;
} check;

void qb_wrong_steps_free(qb_wrong_steps *wrong) {
    for (size_t i = 0; i < wrong->n; i++) QB_FREE_ALL(wrong->item[i].value, wrong->item[i].text);
    qb_free(wrong->item);
    *wrong = (qb_wrong_steps){0};
}

static int32_t value_of(const qb_engine *e, const qb_step *step) {
    return step->n_out > 0 && step->out[0] >= 0 ? e->layouts[step->out[0]].value : -1;
}

static qb_status deny(check *c, const trial *t, const char *text) {
    const qb_step *step = t->step;
    const int32_t value = value_of(c->engine, step);
    qb_timing none = {.seconds = -1};
    QB_FREED char *key = NULL;
    QB_TRY(qb_problem_key(c->cx, &step->kernel->problem, t->constant, &key));
    qb_timing before;
    if (qb_timings_find(c->denied, step->tactic, key, &before))
        return qb_fail(c->cx, QB_STATUS_INTERNAL, "step '%s': %s, and is chosen again", step->name,
                       text);
    QB_TRY(qb_timings_add(c->cx, c->denied, step->tactic, key, &none));
    QB_TRY(qb_grow(c->cx, &c->wrong->item, &c->wrong->capacity, c->wrong->n + 1,
                   sizeof *c->wrong->item));
    qb_wrong_step *added = &c->wrong->item[c->wrong->n++];
    added->value = qb_strdup(c->cx, value >= 0 ? c->engine->graph->values[value].name : step->name);
    added->text = qb_strdup(c->cx, text);
    if (!added->value || !added->text) return c->cx->code;
    qb_warn(c->cx, "step '%s': %s: it is left out", step->name, text);
    c->n++;
    return QB_OK;
}

static double bytes_of(const qb_kernel *k) {
    double bytes = (double)qb_desc_bytes(&k->problem.out);
    for (int32_t i = 0; i < k->problem.n_in; i++)
        if (qb_problem_has(&k->problem, i)) bytes += (double)qb_desc_bytes(&k->problem.in[i]);
    return bytes;
}

static bool is_checked(const qb_step *step) {
    return step->kernel && step->n_out == 1 &&
           bytes_of(step->kernel) <= (step->on_device ? most_bytes_on_device : most_bytes) &&
           strcmp(step->kernel->tactic->backend, "ref") != 0 &&
           step->kernel->problem.n_in <= QB_MAX_INPUTS;
}

static qb_status check_one(check *c, int32_t index) {
    const qb_step *step = &c->engine->steps[index];
    const int32_t value = value_of(c->engine, step);
    const int32_t group = value >= 0 && step->node_index >= 0 ? c->group_of[value] : -1;
    const uint64_t seed = (uint64_t)index * 2654435761u + 1;
    const char *text = NULL;
    trial t = {
        .cx = c->cx, .engine = c->engine, .step = step, .random = seed, .workers = c->workers};
    for (int32_t i = 0; i < step->kernel->problem.n_in; i++)
        t.constant[i] = step->constants && step->constants[i];
    QB_TRY(qb_arena_create(c->cx, &t.arena));
    qb_status status = check_step(&t, group >= 0 ? &c->groups.group[group] : NULL, seed, &text);
    if (status != QB_OK) qb_wrap(c->cx, "checking step '%s'", step->name);
    if (status == QB_OK && text) status = deny(c, &t, text);
    qb_arena_free(t.arena);
    return status;
}

/* ---- which steps ----------------------------------------------------------------------------- */

/* Kernels of one signature are one piece of code, at other sizes. */
typedef struct candidate {
    const qb_kernel *kernel;
    int32_t step;
    qb_hash signature;
    double
        cost; /* nanoseconds, as a rule and not measured: the same steps are checked everywhere */
    bool chosen, checked;
} candidate;

static qb_hash signature_of(const qb_kernel *k) {
    const qb_problem *p = &k->problem;
    const bool residual = p->kind == QB_KIND_CONV || p->kind == QB_KIND_MATMUL;
    const int64_t facts[] = {(int64_t)(intptr_t)k->tactic,
                             p->act.kind,
                             p->act_first,
                             p->rounding.dtype,
                             p->n_in > 0 ? (int64_t)p->in[0].dtype : 0,
                             p->n_in > 0 ? p->in[0].q.n > 0 : 0,
                             p->out.dtype,
                             p->out.q.n > 0,
                             residual && qb_problem_has(p, QB_IN_BIAS),
                             residual && qb_problem_has(p, QB_IN_RESIDUAL)};
    return qb_hash_bytes(facts, sizeof facts);
}

/* Drawing, turning and comparing data takes most of the time. */
static double cost_of(const qb_kernel *k) {
    const qb_problem *p = &k->problem;
    double elements = (double)qb_shape_count(&p->out.shape);
    for (int32_t i = 0; i < p->n_in; i++)
        if (qb_problem_has(p, i) && !(k->packed_inputs >> i & 1))
            elements += (double)qb_shape_count(&p->in[i].shape);
    return 3e5 + 15 * elements + 0.05 * qb_problem_flops(p);
}

static int by_kernel(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->kernel != y->kernel) return x->kernel < y->kernel ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static int by_cost(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static int by_signature(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    const int order = memcmp(&x->signature, &y->signature, sizeof x->signature);
    return order ? order : by_cost(a, b);
}

static int by_step(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

/* One for each kernel; steps share them. */
static size_t list_kernels(const qb_engine *e, candidate *list) {
    size_t n = 0, kept = 0;
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_kernel *k = e->steps[s].kernel;
        if (is_checked(&e->steps[s])) list[n++] = (candidate){.kernel = k, .step = s};
    }
    if (n > 0) qsort(list, n, sizeof *list, by_kernel);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && list[i].kernel == list[i - 1].kernel) continue;
        list[kept] = list[i];
        list[kept].signature = signature_of(list[i].kernel);
        list[kept].cost = cost_of(list[i].kernel);
        kept++;
    }
    return kept;
}

/* The cheapest of each signature, and of the others what the budget allows; then in order, so that
 * messages are. */
static void choose(candidate *list, size_t n, double budget) {
    if (n == 0) return;
    qsort(list, n, sizeof *list, by_signature);
    for (size_t i = 0; i < n; i++)
        list[i].chosen =
            i == 0 || memcmp(&list[i].signature, &list[i - 1].signature, sizeof(qb_hash)) != 0;
    for (size_t i = 0; i < n; i++)
        if (list[i].chosen) budget -= list[i].cost;
    qsort(list, n, sizeof *list, by_cost);
    for (size_t i = 0; i < n; i++) {
        if (list[i].chosen || list[i].cost > budget) continue;
        list[i].chosen = true;
        budget -= list[i].cost;
    }
    qsort(list, n, sizeof *list, by_step);
}

/* `tactic` NULL: those that were chosen; else all of that tactic. */
static qb_status check_list(check *c, candidate *list, size_t n, const char *tactic) {
    for (size_t i = 0; i < n; i++) {
        const char *own = c->engine->steps[list[i].step].tactic;
        if (list[i].checked || (tactic ? strcmp(own, tactic) != 0 : !list[i].chosen)) continue;
        QB_TRY(qb_check_cancel(c->cx));
        list[i].checked = true;
        const int32_t before = c->n;
        QB_TRY(check_one(c, list[i].step));
        if (c->n > before && !tactic) QB_TRY(check_list(c, list, n, own));
    }
    return QB_OK;
}

static qb_status check_all(check *c) {
    QB_FREED candidate *list = qb_alloc(c->cx, (size_t)c->engine->n_steps, sizeof *list);
    if (!list) return c->cx->code;
    const size_t n = list_kernels(c->engine, list);
    /* less than a tenth of what a build takes: packing, and making kernels */
    choose(list, n, 0.06 * (5 * (double)qb_engine_weights(c->engine) + 5e5 * c->engine->n_steps));
    return check_list(c, list, n, NULL);
}

static bool any_sum(const void *user, const qb_problem *problem) {
    (void)user, (void)problem;
    return true;
}

static qb_status find_groups(check *c) {
    const qb_graph *graph = c->engine->graph;
    QB_TRY(qb_fuse(c->cx, graph, &c->groups));
    QB_TRY(qb_fuse_rounded_sums(c->cx, graph, any_sum, NULL, &c->groups));
    QB_TRY_NEW(c->cx, c->group_of = qb_alloc(c->cx, (size_t)graph->n_values, sizeof *c->group_of));
    for (int32_t v = 0; v < graph->n_values; v++) c->group_of[v] = -1;
    for (int32_t g = 0; g < c->groups.n; g++)
        if (c->groups.group[g].out >= 0) c->group_of[c->groups.group[g].out] = g;
    return QB_OK;
}

qb_status qb_check_engine(qb_ctx *cx, const qb_engine *engine, qb_timings *denied,
                          qb_wrong_steps *wrong, int32_t *n) {
    check c = {.cx = cx, .engine = engine, .denied = denied, .wrong = wrong};
    const double start = qb_now();
    qb_status status = QB_OK;
    QB_GO(find_groups(&c));
    QB_GO(qb_workers_create(cx, qb_engine_threads(engine), &c.workers));
    QB_GO(check_all(&c));
    qb_debug(cx, "steps checked against the reference in %.1f ms", (qb_now() - start) * 1e3);
    *n = c.n;
out:
    qb_workers_free(c.workers);
    qb_groups_release(&c.groups);
    qb_free(c.group_of);
    return status;
}
