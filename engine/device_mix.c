/* The precision of each step of an INT8 engine on a device: codes, or f16 where that is faster with
 * the conversions around it.
 *
 * Every group is timed both ways. A group's precision is also that of its result, and a value whose
 * producer and consumers differ is converted once. The sum of all that is made small by changing
 * one group at a time for as long as it falls, from all codes and from all f16; the better end
 * counts. So the plan is never slower, by its measured times, than all codes or all f16; what the
 * sum leaves out (conversions of floats that float steps make) is looked at as a whole afterwards,
 * by qb_device_race. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "device_internal.h"
#include "graph/dequantize.h"
#include "plans_internal.h"

#define ROUNDS_MAX 20
#define WORTH_IT 0.99 /* f16 must bring the sum below this share of what it was */

typedef struct mixer {
    qb_builder *b;
    int32_t n;            /* groups */
    double *codes, *half; /* [n] seconds; the same where there is no choice */
    int32_t **half_in;    /* [n] inputs in f16: weights and biases as floats; NULL: no choice */
    double *conversion;   /* [n_values] seconds, 0 for what is never converted */
    int32_t *producer;    /* [n_values] group or -1 */
    bool *is_half;        /* [n] */
} mixer;

static bool is_codes(const qb_builder *b, int32_t value) {
    return value >= 0 && b->graph->values[value].q.n == 1 && !b->graph->values[value].data;
}

/* The same whose data belongs to all plans. */
static int32_t as_shared_floats(qb_builder *b, int32_t value) {
    const qb_value *v = &b->graph->values[value];
    const size_t bytes = (size_t)qb_shape_count(&v->shape) * sizeof(float);
    const float *real = qb_plans_reals(b->cx, b->plans, v);
    if (!real) return -1;
    const qb_shape shape = v->shape;
    int32_t id = qb_graph_add_value(b->cx, b->graph, v->name, QB_DTYPE_F32, &shape);
    if (id < 0) return -1;
    b->graph->values[id].data = real;
    b->graph->values[id].bytes = bytes;
    return id;
}

/* A constant's real values as a new constant. */
static int32_t as_floats(qb_builder *b, int32_t value) {
    const qb_value *v = &b->graph->values[value];
    if (b->plans && qb_plans_own(b->plans, v)) return as_shared_floats(b, value);
    float *real = qb_alloc(b->cx, (size_t)qb_shape_count(&v->shape), sizeof *real);
    if (!real) return -1;
    qb_value_reals(v, real);
    qb_shape shape = v->shape;
    int32_t id = qb_graph_add_constant(b->cx, b->graph, v->name, QB_DTYPE_F32, &shape, real);
    qb_free(real);
    return id;
}

/* The group's inputs with every quantized constant as floats. */
static int32_t *float_inputs(qb_builder *b, const qb_group *group) {
    int32_t *in = qb_arena_alloc(b->cx, b->groups.arena, (size_t)group->n_in, sizeof *in);
    for (int32_t i = 0; in && i < group->n_in; i++) {
        in[i] = group->in[i];
        const qb_value *v = in[i] < 0 ? NULL : &b->graph->values[in[i]];
        if (!v || !v->data || v->q.n == 0) continue;
        in[i] = as_floats(b, in[i]);
        if (in[i] < 0) return NULL;
    }
    return in;
}

bool qb_device_is_half(const qb_builder *b, int32_t value) {
    return b->is_half && b->is_half[value];
}

qb_status qb_device_time(qb_builder *b, const qb_group *group, bool half, double *seconds) {
    qb_desc in[2][QB_MAX_INPUTS];
    bool constant[QB_MAX_INPUTS];
    qb_problem forms[2];
    qb_kernel *kernel;
    qb_choice choice = {0};
    QB_TRY(qb_group_problem(b->cx, b->graph, group, in[0], &forms[0]));
    qb_device_problem(b, group, half, in[0], &forms[0], constant);
    forms[1] = forms[0];
    forms[1].in = in[1];
    memcpy(in[1], in[0], sizeof in[1]);
    int32_t rank = forms[0].out.shape.rank;
    bool spatial = rank >= 3 && rank <= 5 && group->kind != QB_KIND_MATMUL;
    for (int32_t i = 0; spatial && i < group->n_in; i++)
        if (!constant[i] && in[0][i].shape.rank == rank) in[0][i].layout = QB_LAYOUT_NHWC;
    if (spatial) forms[0].out.layout = QB_LAYOUT_NHWC;
    QB_TRY(qb_device_kernel(b, forms, spatial ? 2 : 1, constant, group->in, &kernel, &choice));
    *seconds = kernel ? choice.seconds : (double)INFINITY;
    qb_kernel_free(kernel);
    return QB_OK;
}

/* Floats that all plans share stay where a group takes them; where none does, they have no data any
 * more. */
static void settle_floats(const mixer *m, int32_t g) {
    qb_builder *b = m->b;
    const qb_group *group = &b->groups.group[g];
    for (int32_t i = 0; b->plans && i < group->n_in; i++) {
        if (m->half_in[g][i] == group->in[i] ||
            !qb_plans_own(b->plans, &b->graph->values[group->in[i]]))
            continue;
        qb_value *real = &b->graph->values[m->half_in[g][i]];
        if (m->is_half[g])
            qb_plans_keep_reals(b->plans, real->data);
        else
            real->data = NULL;
    }
}

/* Groups of codes in and out have a choice. A concatenation takes no time in either. */
static qb_status time_both(mixer *m, int32_t g) {
    qb_builder *b = m->b;
    const qb_group *group = &b->groups.group[g];
    if (group->kind == QB_KIND_NODE || !is_codes(b, group->out) || !is_codes(b, group->in[0]))
        return QB_OK;
    m->half_in[g] = float_inputs(b, group);
    if (!m->half_in[g]) return b->cx->code;
    if (group->kind == QB_KIND_CONCAT) return QB_OK;
    qb_group floats = *group;
    floats.in = m->half_in[g];
    QB_TRY(qb_device_time(b, group, false, &m->codes[g]));
    QB_TRY(qb_device_time(b, &floats, true, &m->half[g]));
    if (isinf(m->codes[g]) || isinf(m->half[g])) { /* the host runs one: no choice */
        settle_floats(m, g);
        m->half_in[g] = NULL;
        m->codes[g] = m->half[g] = 0;
    }
    return QB_OK;
}

static qb_status time_conversion(mixer *m, int32_t value) {
    qb_builder *b = m->b;
    if (!is_codes(b, value) || m->conversion[value] > 0) return QB_OK;
    qb_desc codes = qb_build_desc(b, value, QB_LAYOUT_ROW), half = codes;
    half.dtype = QB_DTYPE_F16;
    half.q = (qb_qparams){.axis = -1};
    qb_problem copy = {.kind = QB_KIND_COPY, .n_in = 1, .in = &codes, .out = half};
    bool constant = false;
    qb_kernel *kernel;
    qb_choice choice = {0};
    QB_TRY(qb_device_kernel(b, &copy, 1, &constant, NULL, &kernel, &choice));
    qb_kernel_free(kernel);
    m->conversion[value] = kernel ? choice.seconds : 1.0;
    return QB_OK;
}

/* What converting a value costs: nothing while all who touch it agree. */
static double conversion_cost(const mixer *m, int32_t value) {
    bool codes = false, half = false;
    if (value < 0 || m->conversion[value] <= 0) return 0;
    int32_t p = m->producer[value];
    if (p >= 0) *(m->is_half[p] ? &half : &codes) = true;
    for (int32_t g = 0; g < m->n; g++) {
        const qb_group *group = &m->b->groups.group[g];
        for (int32_t i = 0; i < group->n_in; i++)
            if (group->in[i] == value) *(m->is_half[g] ? &half : &codes) = true;
    }
    return codes && half ? m->conversion[value] : 0;
}

static double total(const mixer *m) {
    double sum = 0;
    for (int32_t g = 0; g < m->n; g++) sum += m->is_half[g] ? m->half[g] : m->codes[g];
    for (int32_t v = 0; v < m->b->graph->n_values; v++)
        if (m->conversion[v] > 0) sum += conversion_cost(m, v);
    return sum;
}

/* What depends on the precision of one group. */
static double around(const mixer *m, int32_t g) {
    const qb_group *group = &m->b->groups.group[g];
    double sum = m->is_half[g] ? m->half[g] : m->codes[g];
    for (int32_t i = 0; i < group->n_in; i++) sum += conversion_cost(m, group->in[i]);
    return sum + conversion_cost(m, group->out);
}

static void descend(mixer *m) {
    bool changed = true;
    for (int round = 0; changed && round < ROUNDS_MAX; round++) {
        changed = false;
        for (int32_t g = 0; g < m->n; g++) {
            if (!m->half_in[g]) continue;
            double before = around(m, g);
            m->is_half[g] = !m->is_half[g];
            bool better = around(m, g) < before * (1 - 1e-9);
            if (!better) m->is_half[g] = !m->is_half[g];
            changed = changed || better;
        }
    }
}

static qb_status search(mixer *m) {
    double all_codes = total(m), from_codes, from_half;
    bool *kept = qb_alloc(m->b->cx, (size_t)m->n, sizeof *kept);
    if (!kept) return m->b->cx->code;
    descend(m);
    from_codes = total(m);
    memcpy(kept, m->is_half, (size_t)m->n * sizeof *kept);
    for (int32_t g = 0; g < m->n; g++) m->is_half[g] = m->half_in[g] != NULL;
    descend(m);
    from_half = total(m);
    if (from_codes <= from_half) memcpy(m->is_half, kept, (size_t)m->n * sizeof *kept);
    if (fmin(from_codes, from_half) > WORTH_IT * all_codes)
        memset(m->is_half, 0, (size_t)m->n * sizeof *kept);
    qb_debug(m->b->cx, "precision: all codes %.1f us, mixed %.1f us", all_codes * 1e6,
             fmin(from_codes, from_half) * 1e6);
    qb_free(kept);
    return QB_OK;
}

/* What the group would cost more in codes, as a note. A concatenation takes no time in either. */
static qb_status note_reason(mixer *m, int32_t g) {
    qb_builder *b = m->b;
    const int32_t out = b->groups.group[g].out;
    const double gain = m->half[g] - m->codes[g]; /* of codes, by itself */
    const double here = around(m, g) - m->half[g];
    m->is_half[g] = false;
    const double reformat = around(m, g) - m->codes[g] - here;
    m->is_half[g] = true;
    char text[128];
    if (gain > 0)
        snprintf(text, sizeof text, "reformat %.1f us > gain %.1f us", reformat * 1e6, gain * 1e6);
    else
        snprintf(text, sizeof text, "f16 %.1f us, int8 %.1f us, to codes and back %.1f us",
                 m->half[g] * 1e6, m->codes[g] * 1e6, reformat * 1e6);
    b->half_note[out] = qb_arena_strdup(b->cx, b->engine->arena, text);
    return b->half_note[out] ? QB_OK : b->cx->code;
}

/* The groups that are to run in f16 get their float inputs, and a note. */
static qb_status apply(mixer *m) {
    qb_builder *b = m->b;
    for (int32_t g = 0; g < m->n; g++)
        if (m->is_half[g]) QB_TRY(note_reason(m, g));
    for (int32_t g = 0; g < m->n; g++) {
        if (m->half_in[g]) settle_floats(m, g);
        if (!m->is_half[g]) continue;
        qb_group *group = &b->groups.group[g];
        group->in = m->half_in[g];
        b->is_half[group->out] = true;
    }
    return QB_OK;
}

static qb_status mix(mixer *m) {
    qb_builder *b = m->b;
    for (int32_t g = 0; g < m->n; g++) QB_TRY(time_both(m, g));
    size_t n = (size_t)b->graph->n_values;
    m->conversion = qb_alloc(b->cx, n, sizeof *m->conversion);
    m->producer = qb_alloc(b->cx, n, sizeof *m->producer);
    b->is_half = qb_alloc(b->cx, n, sizeof *b->is_half);
    b->half_note = qb_alloc(b->cx, n, sizeof *b->half_note);
    if (!m->conversion || !m->producer || !b->is_half || !b->half_note) return b->cx->code;
    for (size_t v = 0; v < n; v++) m->producer[v] = -1;
    for (int32_t g = 0; g < m->n; g++) {
        const qb_group *group = &b->groups.group[g];
        m->producer[group->out] = g;
        if (!m->half_in[g]) continue;
        QB_TRY(time_conversion(m, group->out));
        for (int32_t i = 0; i < group->n_in; i++) QB_TRY(time_conversion(m, group->in[i]));
    }
    QB_TRY(search(m));
    return apply(m);
}

/* ---- for engine files ------------------------------------------------------------------------ */

static qb_status keep_half(qb_builder *b) {
    qb_engine *e = b->engine;
    int32_t n = 0, *half;
    for (int32_t g = 0; g < b->groups.n; g++)
        if (b->is_half[b->groups.group[g].out]) n += 2 + b->groups.group[g].n_in;
    half = qb_arena_alloc(b->cx, e->arena, (size_t)n, sizeof *half);
    if (!half) return b->cx->code;
    e->half = half;
    e->n_half = n;
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *group = &b->groups.group[g];
        if (!b->is_half[group->out]) continue;
        *half++ = group->out;
        *half++ = group->n_in;
        for (int32_t i = 0; i < group->n_in; i++) *half++ = group->in[i];
    }
    return QB_OK;
}

/* May `id` be what the group reads in the place of `value`? */
static bool stands_for(const qb_graph *graph, int32_t id, int32_t value) {
    if (id == value) return true;
    if (id < 0 || id >= graph->n_values || value < 0) return false;
    const qb_value *real = &graph->values[id], *codes = &graph->values[value];
    return codes->data && codes->q.n > 0 && real->data && real->dtype == QB_DTYPE_F32 &&
           qb_shape_equal(&real->shape, &codes->shape);
}

static qb_status half_again(qb_builder *b, qb_group *group, const int32_t *ids) {
    int32_t *in = qb_arena_alloc(b->cx, b->groups.arena, (size_t)group->n_in, sizeof *in);
    if (!in) return b->cx->code;
    for (int32_t i = 0; i < group->n_in; i++) {
        if (!stands_for(b->graph, ids[i], group->in[i]))
            return qb_fail(b->cx, QB_STATUS_MISMATCH, "a step in f16 reads what is not its own");
        in[i] = ids[i];
    }
    group->in = in;
    b->is_half[group->out] = true;
    b->half_note[group->out] = "as it was when the file was built";
    return QB_OK;
}

/* [n_values] of what the graph has by now. */
static qb_status make_marks(qb_builder *b) {
    const size_t n = (size_t)b->graph->n_values;
    b->is_half = qb_alloc(b->cx, n, sizeof *b->is_half);
    b->half_note = qb_alloc(b->cx, n, sizeof *b->half_note);
    return b->is_half && b->half_note ? QB_OK : b->cx->code;
}

qb_status qb_device_mix_again(qb_builder *b) {
    const int32_t *half = b->replay->half, *end = half + b->replay->n_half;
    QB_TRY(make_marks(b));
    for (int32_t g = 0; g < b->groups.n && half < end; g++) {
        qb_group *group = &b->groups.group[g];
        if (group->out != *half) continue;
        if (end - half < 2 || half[1] != group->n_in || end - half - 2 < group->n_in) break;
        QB_TRY(half_again(b, group, half + 2));
        half += 2 + group->n_in;
    }
    if (half == end) return keep_half(b);
    return qb_fail(b->cx, QB_STATUS_MISMATCH, "a step in f16 that is not there");
}

/* ---- for other shapes ------------------------------------------------------------------------ */

static bool is_hinted(const qb_builder *b, const qb_group *group) {
    const char *name = b->graph->values[group->out].name;
    for (int32_t i = 0; i < b->hints->n_half; i++)
        if (strcmp(b->hints->half[i], name) == 0)
            return group->kind != QB_KIND_NODE && is_codes(b, group->out) &&
                   is_codes(b, group->in[0]);
    return false;
}

/* Float constants are added to the graph before there is a mark for each value. */
qb_status qb_device_mix_hinted(qb_builder *b) {
    const size_t n = (size_t)b->groups.n;
    qb_status status = QB_OK;
    bool *hinted = qb_alloc(b->cx, n, sizeof *hinted);
    if (!hinted) return b->cx->code;
    for (int32_t g = 0; g < b->groups.n; g++) {
        qb_group *group = &b->groups.group[g];
        hinted[g] = is_hinted(b, group);
        if (!hinted[g]) continue;
        int32_t *in = float_inputs(b, group);
        if (!in) QB_GO(b->cx->code);
        group->in = in;
    }
    QB_GO(make_marks(b));
    for (int32_t g = 0; g < b->groups.n; g++) {
        if (!hinted[g]) continue;
        b->is_half[b->groups.group[g].out] = true;
        b->half_note[b->groups.group[g].out] = "as it was at the usual shapes";
    }
    status = keep_half(b);
out:
    qb_free(hinted);
    return status;
}

qb_status qb_device_mix(qb_builder *b) {
    mixer m = {.b = b, .n = b->groups.n};
    size_t n = (size_t)m.n;
    m.codes = qb_alloc(b->cx, n, sizeof *m.codes);
    m.half = qb_alloc(b->cx, n, sizeof *m.half);
    m.half_in = qb_alloc(b->cx, n, sizeof *m.half_in);
    m.is_half = qb_alloc(b->cx, n, sizeof *m.is_half);
    qb_status status = m.codes && m.half && m.half_in && m.is_half ? mix(&m) : b->cx->code;
    if (status == QB_OK) status = keep_half(b);
    qb_free(m.codes);
    qb_free(m.half);
    qb_free(m.half_in);
    qb_free(m.is_half);
    qb_free(m.conversion);
    qb_free(m.producer);
    return status;
}
