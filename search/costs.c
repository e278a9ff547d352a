#include "search/costs.h"

#include <math.h>
#include <string.h>

#define PART 0.3        /* of a correction: what was measured is disturbed, too */
#define LEAST_GAIN 1e-9 /* of the noise: less is rounding */
enum { PROFILES = 7, ROUNDS_MAX = 50 };

static double seconds_of(const qb_step_times *times, const char *value) {
    double sum = 0;
    for (int32_t s = 0; s < times->n; s++)
        if (strcmp(times->step[s].value, value) == 0) sum += times->step[s].seconds;
    return sum;
}

double qb_costs_copy_rate(const qb_space *space, const qb_step_times *integers) {
    double seconds = 0, elements = 0;
    const qb_graph *graph = space->way->graph;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const qb_value *input = &graph->values[graph->inputs[i]];
        double n = 1;
        for (int32_t d = 0; d < input->shape.rank; d++)
            n *= input->shape.dim[d] > 0 ? (double)input->shape.dim[d] : 1;
        const double took = seconds_of(integers, input->name);
        if (took > 0) seconds += took, elements += n;
    }
    return elements > 0 ? seconds / elements : 0;
}

qb_status qb_costs_create(qb_ctx *cx, const qb_space *space, qb_costs *out) {
    QB_RELEASED(qb_costs_release) qb_costs c = {.space = space};
    QB_TRY_NEW(cx, c.more = qb_alloc(cx, (size_t)space->n, sizeof *c.more));
    QB_TRY_NEW(cx, c.apart = qb_alloc(cx, (size_t)space->n, sizeof *c.apart));
    QB_TRY_NEW(cx, c.saved = qb_alloc(cx, (size_t)space->n_edges, sizeof *c.saved));
    *out = QB_MOVE(c);
    return QB_OK;
}

void qb_costs_estimate(qb_costs *c, const qb_step_times *integers, const qb_step_times *floats,
                       double copy_rate) {
    const qb_space *space = c->space;
    for (int32_t g = 0; g < space->n; g++)
        c->more[g] = c->apart[g] =
            seconds_of(floats, space->group[g].value) - seconds_of(integers, space->group[g].value);
    for (int32_t e = 0; e < space->n_edges; e++) {
        c->more[space->edge[e].to] += copy_rate * space->edge[e].elements / 2;
        c->more[space->edge[e].from] += copy_rate * space->edge[e].elements / 2;
    }
}

/* Of a group's conversions, the part of one of its edges. */
static double conversion(const qb_costs *c, int32_t g) {
    int32_t n = 0;
    for (int32_t e = 0; e < c->space->n_edges; e++)
        n += c->space->edge[e].from == g || c->space->edge[e].to == g;
    return n > 0 ? fmax(c->more[g] - c->apart[g], 0) / n : 0;
}

void qb_costs_share_conversions(qb_costs *c, double copy_rate) {
    for (int32_t e = 0; e < c->space->n_edges; e++) {
        const qb_space_edge *edge = &c->space->edge[e];
        c->saved[e] =
            fmin(copy_rate * edge->elements, conversion(c, edge->from) + conversion(c, edge->to));
    }
}

void qb_costs_release(qb_costs *costs) {
    QB_FREE_ALL(costs->more, costs->apart, costs->saved);
    *costs = (qb_costs){0};
}

qb_status qb_costs_measure(qb_ctx *cx, qb_costs *costs, int32_t group, qb_dtype floats, int32_t way,
                           const qb_step_times *integers, const qb_timing_inputs *inputs) {
    QB_RELEASED(qb_step_times_release) qb_step_times times = {0};
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    QB_FREED bool *is_float = QB_NEW(cx, qb_alloc(cx, (size_t)costs->space->n, sizeof *is_float));
    const qb_alternative alone = {.floats = floats, .way = way, .is_float = is_float};
    is_float[group] = true;
    QB_TRY(qb_space_build(cx, costs->space, &alone, &engine));
    QB_TRY(qb_step_times_measure(cx, engine, inputs, PROFILES, &times));
    costs->more[group] = qb_step_times_more(integers, &times);
    return QB_OK;
}

static bool joins(const qb_space_edge *edge, const bool *is_float) {
    return is_float[edge->from] && is_float[edge->to];
}

double qb_costs_of(const qb_costs *c, const bool *is_float) {
    double sum = 0;
    for (int32_t g = 0; g < c->space->n; g++) sum += is_float[g] ? c->more[g] : 0;
    for (int32_t e = 0; e < c->space->n_edges; e++)
        if (joins(&c->space->edge[e], is_float)) sum -= c->saved[e];
    return sum;
}

/* The least change, each cost's by its own size, under which they sum up to `seconds`. */
void qb_costs_correct(qb_costs *c, const bool *is_float, double seconds) {
    const qb_space *space = c->space;
    double squares = 0;
    for (int32_t g = 0; g < space->n; g++) squares += is_float[g] ? c->more[g] * c->more[g] : 0;
    for (int32_t e = 0; e < space->n_edges; e++)
        squares += joins(&space->edge[e], is_float) ? c->saved[e] * c->saved[e] : 0;
    if (!(squares > 0)) return;
    const double step = PART * (seconds - qb_costs_of(c, is_float)) / squares;
    for (int32_t g = 0; g < space->n; g++)
        if (is_float[g]) c->more[g] += step * c->more[g] * c->more[g];
    for (int32_t e = 0; e < space->n_edges; e++)
        if (joins(&space->edge[e], is_float))
            c->saved[e] = fmax(c->saved[e] - step * c->saved[e] * c->saved[e], 0);
}

double qb_noise_of(const qb_noise *noise, int32_t n_groups, const bool *is_float) {
    double sum = 0;
    for (int32_t g = 0; g < n_groups; g++) sum += is_float[g] ? 0 : noise->of[g];
    for (int32_t p = 0; p < noise->n_pairs; p++)
        if (is_float[noise->pair[p].a] && is_float[noise->pair[p].b]) sum -= noise->pair[p].more;
    return fmax(sum, 0);
}

/* What the noise falls by when the group becomes float. */
static double quieter(const qb_noise *noise, const bool *is_float, int32_t g) {
    double sum = noise->of[g];
    for (int32_t p = 0; p < noise->n_pairs; p++) {
        const qb_noise_pair *pair = &noise->pair[p];
        const int32_t other = pair->a == g ? pair->b : pair->b == g ? pair->a : g;
        if (other != g && is_float[other]) sum += pair->more;
    }
    return sum;
}

/* What time and noise change by when the group becomes float. */
static double change(const qb_costs *c, const qb_noise *noise, double weight, const bool *is_float,
                     int32_t g) {
    double sum = c->more[g] - (noise ? weight * quieter(noise, is_float, g) : 0);
    for (int32_t e = 0; e < c->space->n_edges; e++) {
        const qb_space_edge *edge = &c->space->edge[e];
        const int32_t other = edge->from == g ? edge->to : edge->to == g ? edge->from : g;
        if (other != g && is_float[other]) sum -= c->saved[e];
    }
    return sum;
}

void qb_costs_descend(const qb_costs *c, const qb_noise *noise, double weight, bool *is_float) {
    bool changed = true;
    for (int round = 0; changed && round < ROUNDS_MAX; round++) {
        changed = false;
        for (int32_t g = 0; g < c->space->n; g++) {
            const double gain = change(c, noise, weight, is_float, g);
            const bool better = is_float[g] ? gain > 0 : gain < 0;
            if (better) is_float[g] = !is_float[g];
            changed = changed || better;
        }
    }
}

/* A group that becomes float, one that becomes integer (-1: none), and the noise that is left. */
typedef struct exchange {
    int32_t to_float, to_integers;
    double noise;
} exchange;

/* Keeps the change if it leaves less noise than the best one, in no more than `most` seconds. */
static void consider(const qb_costs *c, const qb_noise *noise, double most, bool *is_float,
                     exchange change, exchange *best) {
    if (change.to_float >= 0) is_float[change.to_float] = true;
    if (change.to_integers >= 0) is_float[change.to_integers] = false;
    change.noise = qb_noise_of(noise, c->space->n, is_float);
    if (change.noise < best->noise * (1 - LEAST_GAIN) && qb_costs_of(c, is_float) <= most)
        *best = change;
    if (change.to_float >= 0) is_float[change.to_float] = false;
    if (change.to_integers >= 0) is_float[change.to_integers] = true;
}

void qb_costs_fill(const qb_costs *c, const qb_noise *noise, double most, bool *is_float) {
    const int32_t n = c->space->n;
    for (int round = 0; round < 2 * n; round++) {
        exchange best = {-1, -1, qb_noise_of(noise, n, is_float)};
        for (int32_t g = 0; g < n; g++) {
            if (is_float[g]) continue;
            consider(c, noise, most, is_float, (exchange){g, -1, 0}, &best);
            for (int32_t h = 0; h < n; h++)
                if (is_float[h]) consider(c, noise, most, is_float, (exchange){g, h, 0}, &best);
        }
        if (best.to_float < 0) return;
        is_float[best.to_float] = true;
        if (best.to_integers >= 0) is_float[best.to_integers] = false;
    }
}
