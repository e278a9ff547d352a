/* The precision of each step of an INT8 engine on a device: quantized, or f16 where that is faster
 * with the conversions around it.
 *
 * Every group is timed both ways. A group's precision is also that of its result, and a value whose
 * producer and consumers differ is converted once. The sum of all that is made small by changing
 * one group at a time for as long as it falls, from all quantized and from all f16; the better end
 * counts. So the plan is never slower, by its measured times, than all quantized or all f16; what
 * the sum leaves out (conversions of floats that float steps make) is looked at as a whole
 * afterwards, by qb_ab_comparison. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "engine/realize/f16_constants_internal.h"
#include "engine/tune/tune_internal.h"

#define ROUNDS_MAX 20
#define WORTH_IT 0.99 /* f16 must bring the sum below this share of what it was */

typedef struct search_state {
    qb_lowering *b;
    int32_t n;               /* groups */
    double *quantized, *f16; /* [n] seconds; the same where there is no choice */
    int32_t **f16_in;        /* [n] inputs in f16: weights and biases as floats; NULL: no choice */
    double *conversion;      /* [n_values] seconds, 0 for what is never converted */
    int32_t *producer;       /* [n_values] group or -1 */
    bool *is_f16;            /* [n] */
} search_state;

qb_status qb_device_time(qb_lowering *b, const qb_group *group, bool f16, double *seconds) {
    qb_desc in[2][QB_MAX_INPUTS];
    bool constant[QB_MAX_INPUTS];
    qb_problem candidates[2];
    qb_kernel *kernel;
    qb_plan_row chosen;
    QB_TRY(qb_group_problem(b->cx, b->graph, group, in[0], &candidates[0]));
    qb_device_problem(b, group, f16, in[0], &candidates[0], constant);
    candidates[1] = candidates[0];
    candidates[1].in = in[1];
    memcpy(in[1], in[0], sizeof in[1]);
    int32_t rank = candidates[0].out.shape.rank;
    bool spatial = rank >= 3 && rank <= 5 && group->kind != QB_KIND_MATMUL;
    for (int32_t i = 0; spatial && i < group->n_in; i++)
        if (!constant[i] && in[0][i].shape.rank == rank) in[0][i].layout = QB_LAYOUT_NHWC;
    if (spatial) candidates[0].out.layout = QB_LAYOUT_NHWC;
    const qb_selection wanted = {.candidates = candidates,
                                 .n_candidates = spatial ? 2 : 1,
                                 .constant = constant,
                                 .values = group->in};
    QB_TRY(qb_device_measure(b, &wanted, &kernel, &chosen));
    *seconds = kernel ? chosen.seconds : (double)INFINITY;
    qb_kernel_free(kernel);
    return QB_OK;
}

/* Groups with quantized data and result have a choice. A concatenation takes no time in either. */
static qb_status time_both(search_state *m, int32_t g) {
    qb_lowering *b = m->b;
    const qb_group *group = &b->groups.group[g];
    if (!qb_f16_is_choice(b, group)) return QB_OK;
    QB_TRY_NEW(b->cx, m->f16_in[g] = qb_f16_inputs(b, group, false));
    if (group->kind == QB_KIND_CONCAT) return QB_OK;
    qb_group floats = *group;
    floats.in = m->f16_in[g];
    QB_TRY(qb_device_time(b, group, false, &m->quantized[g]));
    QB_TRY(qb_device_time(b, &floats, true, &m->f16[g]));
    if (isinf(m->quantized[g]) || isinf(m->f16[g])) { /* the host runs one: no choice */
        m->f16_in[g] = NULL;
        m->quantized[g] = m->f16[g] = 0;
    }
    return QB_OK;
}

static qb_status time_conversion(search_state *m, int32_t value) {
    qb_lowering *b = m->b;
    if (!qb_f16_is_quantized(b, value) || m->conversion[value] > 0) return QB_OK;
    qb_desc quantized = qb_lower_desc(b, value, QB_LAYOUT_ROW), f16 = quantized;
    f16.dtype = QB_DTYPE_F16;
    f16.q = (qb_qparams){.axis = -1};
    return qb_device_copy_seconds(b, &quantized, &f16, &m->conversion[value]);
}

/* What converting a value costs: nothing while all who touch it agree. */
static double conversion_cost(const search_state *m, int32_t value) {
    bool quantized = false, f16 = false;
    if (value < 0 || m->conversion[value] <= 0) return 0;
    int32_t p = m->producer[value];
    if (p >= 0) *(m->is_f16[p] ? &f16 : &quantized) = true;
    for (int32_t g = 0; g < m->n; g++) {
        const qb_group *group = &m->b->groups.group[g];
        for (int32_t i = 0; i < group->n_in; i++)
            if (group->in[i] == value) *(m->is_f16[g] ? &f16 : &quantized) = true;
    }
    return quantized && f16 ? m->conversion[value] : 0;
}

static double total(const search_state *m) {
    double sum = 0;
    for (int32_t g = 0; g < m->n; g++) sum += m->is_f16[g] ? m->f16[g] : m->quantized[g];
    for (int32_t v = 0; v < m->b->graph->n_values; v++)
        if (m->conversion[v] > 0) sum += conversion_cost(m, v);
    return sum;
}

/* What depends on the precision of one group. */
static double around(const search_state *m, int32_t g) {
    const qb_group *group = &m->b->groups.group[g];
    double sum = m->is_f16[g] ? m->f16[g] : m->quantized[g];
    for (int32_t i = 0; i < group->n_in; i++) sum += conversion_cost(m, group->in[i]);
    return sum + conversion_cost(m, group->out);
}

static void descend(search_state *m) {
    bool changed = true;
    for (int round = 0; changed && round < ROUNDS_MAX; round++) {
        changed = false;
        for (int32_t g = 0; g < m->n; g++) {
            if (!m->f16_in[g]) continue;
            double before = around(m, g);
            m->is_f16[g] = !m->is_f16[g];
            bool better = around(m, g) < before * (1 - 1e-9);
            if (!better) m->is_f16[g] = !m->is_f16[g];
            changed = changed || better;
        }
    }
}

static qb_status search(search_state *m) {
    double all_quantized = total(m), from_quantized, from_f16;
    QB_FREED bool *kept = QB_NEW(m->b->cx, qb_alloc(m->b->cx, (size_t)m->n, sizeof *kept));
    descend(m);
    from_quantized = total(m);
    memcpy(kept, m->is_f16, (size_t)m->n * sizeof *kept);
    for (int32_t g = 0; g < m->n; g++) m->is_f16[g] = m->f16_in[g] != NULL;
    descend(m);
    from_f16 = total(m);
    if (from_quantized <= from_f16) memcpy(m->is_f16, kept, (size_t)m->n * sizeof *kept);
    if (fmin(from_quantized, from_f16) > WORTH_IT * all_quantized)
        memset(m->is_f16, 0, (size_t)m->n * sizeof *kept);
    qb_debug(m->b->cx, "precision: all quantized %.1f us, mixed %.1f us", all_quantized * 1e6,
             fmin(from_quantized, from_f16) * 1e6);
    return QB_OK;
}

/* What the group would cost more in int8, as a note. A concatenation takes no time in either. */
static qb_status note_reason(search_state *m, int32_t g) {
    qb_lowering *b = m->b;
    const int32_t out = b->groups.group[g].out;
    const double gain = m->f16[g] - m->quantized[g]; /* of int8, by itself */
    const double here = around(m, g) - m->f16[g];
    m->is_f16[g] = false;
    const double reformat = around(m, g) - m->quantized[g] - here;
    m->is_f16[g] = true;
    char text[128];
    if (gain > 0)
        snprintf(text, sizeof text, "reformat %.1f us > gain %.1f us", reformat * 1e6, gain * 1e6);
    else
        snprintf(text, sizeof text, "f16 %.1f us, int8 %.1f us, to int8 and back %.1f us",
                 m->f16[g] * 1e6, m->quantized[g] * 1e6, reformat * 1e6);
    b->value[out].f16_reason = qb_arena_strdup(b->cx, b->engine->arena, text);
    return b->value[out].f16_reason ? QB_OK : b->cx->code;
}

/* The groups that are to run in f16 get their float inputs, and a note. */
static qb_status apply(search_state *m) {
    qb_lowering *b = m->b;
    for (int32_t g = 0; g < m->n; g++)
        if (m->is_f16[g]) QB_TRY(note_reason(m, g));
    for (int32_t g = 0; g < m->n; g++) {
        if (!m->is_f16[g]) continue;
        qb_group *group = &b->groups.group[g];
        group->in = m->f16_in[g];
        b->value[group->out].is_f16 = true;
    }
    return QB_OK;
}

static qb_status choose(search_state *m) {
    qb_lowering *b = m->b;
    for (int32_t g = 0; g < m->n; g++) QB_TRY(time_both(m, g));
    size_t n = (size_t)b->graph->n_values;
    m->conversion = qb_alloc(b->cx, n, sizeof *m->conversion);
    m->producer = qb_alloc(b->cx, n, sizeof *m->producer);
    if (!m->conversion || !m->producer || qb_lower_values(b) != QB_OK) return b->cx->code;
    for (size_t v = 0; v < n; v++) m->producer[v] = -1;
    for (int32_t g = 0; g < m->n; g++) {
        const qb_group *group = &b->groups.group[g];
        m->producer[group->out] = g;
        if (!m->f16_in[g]) continue;
        QB_TRY(time_conversion(m, group->out));
        for (int32_t i = 0; i < group->n_in; i++) QB_TRY(time_conversion(m, group->in[i]));
    }
    QB_TRY(search(m));
    return apply(m);
}

qb_status qb_mixed_precision(qb_lowering *b) {
    search_state m = {.b = b, .n = b->groups.n};
    size_t n = (size_t)m.n;
    m.quantized = qb_alloc(b->cx, n, sizeof *m.quantized);
    m.f16 = qb_alloc(b->cx, n, sizeof *m.f16);
    m.f16_in = qb_alloc(b->cx, n, sizeof *m.f16_in);
    m.is_f16 = qb_alloc(b->cx, n, sizeof *m.is_f16);
    qb_status status = m.quantized && m.f16 && m.f16_in && m.is_f16 ? choose(&m) : b->cx->code;
    QB_FREE_ALL(m.quantized, m.f16, m.f16_in, m.is_f16, m.conversion, m.producer);
    return status;
}
