#include "search/search.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "search/costs.h"

#define TIMED_SECONDS 0.5 /* for each engine */
#define SLACK 1.03        /* what the model puts at most so far above a limit is looked at */
enum {
    TIMED_TOGETHER = 8, /* engines, beside the one of all integers */
    SPREAD = 8,         /* alternatives of a round that spread over the front */
    ROUNDS = 6,
    WEIGHTS = 61, /* of noise against time */
    PAIRED = 5,   /* groups with the most noise, whose pairs are measured */
    SWEEPS = 8,
    PROFILES = 7,
    SINGLES = 4,    /* groups that alone, in float, do most for what is limited */
    EXCHANGES = 6,  /* of a round */
    PROPOSALS = 256 /* most of one round */
};

typedef struct searcher {
    const qb_search_options *o;
    qb_search *out;
    const qb_space *space;
    qb_engine *integers;
    qb_timing_inputs inputs;
    qb_step_times steps; /* of the engine that is all integers */
    qb_costs *costs;     /* [n_floats] */
    qb_noise noise;
    double base_noise; /* of all integers */
    double deadline;   /* 0: none */
    qb_alternative proposal[PROPOSALS];
    int32_t n_proposals;
} searcher;

static bool is_late(searcher *s) {
    if (s->deadline > 0 && qb_now() > s->deadline) s->out->out_of_time = true;
    return s->out->out_of_time;
}

static double noise_of(double sqnr_db) {
    return isnan(sqnr_db) || isinf(sqnr_db) ? 0 : pow(10, -sqnr_db / 10);
}

/* ---- alternatives ---------------------------------------------------------------------------- */

static qb_status copy_of(qb_ctx *cx, const searcher *s, const qb_alternative *a,
                         qb_alternative *out) {
    const size_t n = (size_t)s->space->n;
    bool *is_float = QB_NEW(cx, qb_arena_pack(cx, s->out->arena, n, sizeof *is_float));
    if (a->is_float) memcpy(is_float, a->is_float, n);
    *out = *a;
    out->is_float = is_float;
    return QB_OK;
}

/* Is it among the points or the proposals? */
static bool is_known(const searcher *s, const qb_alternative *a) {
    const size_t n = (size_t)s->space->n;
    const bool floats = qb_space_count_float(s->space, a) > 0;
    for (int32_t i = 0; i < s->out->n_points + s->n_proposals; i++) {
        const qb_alternative *b =
            i < s->out->n_points ? &s->out->point[i].a : &s->proposal[i - s->out->n_points];
        if (a->way == b->way && memcmp(a->is_float, b->is_float, n) == 0 &&
            (!floats || a->floats == b->floats))
            return true;
    }
    return false;
}

static qb_status propose(qb_ctx *cx, searcher *s, const qb_alternative *a) {
    if (s->n_proposals == PROPOSALS || is_known(s, a)) return QB_OK;
    return copy_of(cx, s, a, &s->proposal[s->n_proposals++]);
}

static int32_t floats_index(const searcher *s, qb_dtype floats) {
    for (int32_t f = 0; f < s->o->n_floats; f++)
        if (s->o->floats[f] == floats) return f;
    return 0;
}

/* As the model has it: times all integers. */
static double predicted_ratio(const searcher *s, const qb_alternative *a) {
    const double base = s->out->point[s->out->integers].time.ms * 1e-3;
    return 1 + qb_costs_of(&s->costs[floats_index(s, a->floats)], a->is_float) / base;
}

/* ---- latency --------------------------------------------------------------------------------- */

static bool find_time(const searcher *s, const char *key, qb_search_time *out) {
    const json_t *json = qb_journal_find(s->o->journal, "time", key);
    if (!json) return false;
    *out = (qb_search_time){.ms = json_number_value(json_object_get(json, "ms")),
                            .ratio = json_number_value(json_object_get(json, "ratio")),
                            .ratio_ci = {json_number_value(json_object_get(json, "low")),
                                         json_number_value(json_object_get(json, "high"))}};
    return true;
}

static qb_status keep_time(qb_ctx *cx, const searcher *s, const char *key,
                           const qb_interleaved_time *t, double base_ms) {
    return qb_journal_add(cx, s->o->journal, "time", key,
                          json_pack("{s:f, s:f, s:f, s:f}", "ms", base_ms * t->ratio, "ratio",
                                    t->ratio, "low", t->range.lo, "high", t->range.hi));
}

/* Milliseconds are those of all integers as they were measured first, times the ratio: what else
 * goes on at a time moves one group of them against another. */
static qb_status time_together(qb_ctx *cx, searcher *s, qb_search_point *const *points, int32_t n) {
    const qb_engine *engines[TIMED_TOGETHER + 1] = {s->integers};
    qb_engine *own[TIMED_TOGETHER] = {NULL};
    qb_interleaved_time times[TIMED_TOGETHER + 1];
    qb_search_time base;
    qb_status status = QB_OK;
    qb_alternative integers = {.floats = QB_DTYPE_F32};
    QB_TRY(copy_of(cx, s, &integers, &integers));
    QB_FREED char *key = QB_NEW(cx, qb_search_key(cx, s->space, &integers));
    for (int32_t i = 0; i < n; i++) {
        QB_GO(qb_space_build(cx, s->space, &points[i]->a, &own[i]));
        engines[i + 1] = own[i];
    }
    QB_GO(qb_time_interleaved(cx, engines, n + 1, &s->inputs, TIMED_SECONDS, times));
    if (!find_time(s, key, &base)) QB_GO(keep_time(cx, s, key, &times[0], times[0].ms));
    if (!find_time(s, key, &base)) QB_GO(qb_fail(cx, QB_STATUS_INTERNAL, "a time is lost"));
    for (int32_t i = 0; i < n; i++)
        if (strcmp(points[i]->key, key) != 0) /* it is 1 by what the others are held against */
            QB_GO(keep_time(cx, s, points[i]->key, &times[i + 1], base.ms));
out:
    for (int32_t i = 0; i < n; i++) qb_engine_free(own[i]);
    return status;
}

static qb_status time_points(qb_ctx *cx, searcher *s, qb_search_point *first, int32_t n) {
    qb_search_point *left[TIMED_TOGETHER];
    int32_t n_left = 0;
    qb_progress progress;
    qb_progress_begin(cx, &progress, "latency", "engines", n);
    for (int32_t i = 0; i < n; i++) {
        if (find_time(s, first[i].key, &first[i].time))
            qb_progress_step(&progress, 1);
        else
            left[n_left++] = &first[i];
        if (n_left == 0 || (n_left < TIMED_TOGETHER && i + 1 < n)) continue;
        QB_TRY(time_together(cx, s, left, n_left));
        for (int32_t k = 0; k < n_left; k++) find_time(s, left[k]->key, &left[k]->time);
        qb_progress_step(&progress, n_left);
        n_left = 0;
    }
    qb_progress_end(&progress);
    return QB_OK;
}

/* ---- points ---------------------------------------------------------------------------------- */

/* The proposals become points: scored and timed. */
static qb_status measure(qb_ctx *cx, searcher *s) {
    qb_search *out = s->out;
    const int32_t n = s->n_proposals, before = out->n_points;
    QB_FREED const qb_alternative **list = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *list));
    QB_FREED qb_search_score *score = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *score));
    QB_TRY(qb_grow(cx, &out->point, &out->capacity, (size_t)(before + n), sizeof *out->point));
    for (int32_t i = 0; i < n; i++) list[i] = &s->proposal[i];
    QB_TRY(qb_search_score_all(cx, s->o, list, n, true, score, out));
    for (int32_t i = 0; i < n; i++) {
        qb_search_point *p = &out->point[out->n_points++];
        *p = (qb_search_point){.a = s->proposal[i], .score = score[i]};
        QB_TRY_NEW(cx, p->key = qb_search_key(cx, s->space, &p->a));
    }
    QB_TRY(time_points(cx, s, out->point + before, n));
    s->n_proposals = 0;
    qb_search_judge(&s->o->limits, out);
    return QB_OK;
}

/* ---- what groups cost ------------------------------------------------------------------------ */

static qb_status cost_of(qb_ctx *cx, searcher *s, int32_t f, int32_t g) {
    const qb_dtype floats = s->o->floats[f];
    qb_costs *costs = &s->costs[f];
    QB_FREED char *key = qb_format(cx, "%s/%s", qb_dtype_text(floats), s->space->group[g].value);
    if (!key) return cx->code;
    const json_t *known = qb_journal_find(s->o->journal, "cost", key);
    if (known) {
        costs->more[g] = json_number_value(known);
    } else {
        QB_TRY(qb_costs_measure(cx, costs, g, floats, 0, &s->steps, &s->inputs));
        QB_TRY(qb_journal_add(cx, s->o->journal, "cost", key, json_real(costs->more[g])));
    }
    return QB_OK;
}

/* What the group's own step takes more, from the engine that is all float. */
static qb_status keep_apart(qb_ctx *cx, searcher *s, int32_t f, double rate) {
    const qb_dtype floats = s->o->floats[f];
    qb_alternative all = {.floats = floats};
    QB_RELEASED(qb_step_times_release) qb_step_times times = {0};
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    QB_TRY(copy_of(cx, s, &all, &all));
    memset(all.is_float, 1, (size_t)s->space->n);
    QB_TRY(qb_space_build(cx, s->space, &all, &engine));
    QB_TRY(qb_step_times_measure(cx, engine, &s->inputs, PROFILES, &times));
    qb_costs_estimate(&s->costs[f], &s->steps, &times, rate);
    json_t *list = json_array();
    for (int32_t g = 0; g < s->space->n; g++)
        json_array_append_new(list, json_real(s->costs[f].apart[g]));
    return qb_journal_add(cx, s->o->journal, "apart", qb_dtype_text(floats), list);
}

static qb_status costs_of_type(qb_ctx *cx, searcher *s, int32_t f, double rate,
                               qb_progress *progress) {
    const char *type = qb_dtype_text(s->o->floats[f]);
    QB_TRY(qb_costs_create(cx, s->space, &s->costs[f]));
    if (!qb_journal_find(s->o->journal, "apart", type)) QB_TRY(keep_apart(cx, s, f, rate));
    const json_t *apart = qb_journal_find(s->o->journal, "apart", type);
    for (int32_t g = 0; g < s->space->n; g++) {
        s->costs[f].apart[g] = json_number_value(json_array_get(apart, (size_t)g));
        QB_TRY(cost_of(cx, s, f, g));
        qb_progress_step(progress, 1);
    }
    qb_costs_share_conversions(&s->costs[f], rate);
    return QB_OK;
}

static qb_status measure_costs(qb_ctx *cx, searcher *s) {
    const json_t *known = qb_journal_find(s->o->journal, "cost", "copy");
    const double rate = known ? json_number_value(known) : qb_costs_copy_rate(s->space, &s->steps);
    qb_progress progress;
    if (!known) QB_TRY(qb_journal_add(cx, s->o->journal, "cost", "copy", json_real(rate)));
    qb_progress_begin(cx, &progress, "time of groups", "groups",
                      (int64_t)s->space->n * s->o->n_floats);
    for (int32_t f = 0; f < s->o->n_floats; f++) QB_TRY(costs_of_type(cx, s, f, rate, &progress));
    qb_progress_end(&progress);
    return QB_OK;
}

/* One alternative a group: it alone is `value`, all others are not. */
static qb_status score_each(qb_ctx *cx, searcher *s, bool value) {
    const int32_t n = s->space->n;
    QB_FREED qb_search_score *score = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *score));
    QB_FREED qb_alternative *all = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *all));
    QB_FREED const qb_alternative **list = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *list));
    for (int32_t g = 0; g < n; g++) {
        QB_TRY(copy_of(cx, s, &(qb_alternative){.floats = QB_DTYPE_F32}, &all[g]));
        for (int32_t k = 0; k < n; k++) all[g].is_float[k] = (k == g) == value;
        list[g] = &all[g];
    }
    QB_TRY(qb_search_score_all(cx, s->o, list, n, false, score, s->out));
    for (int32_t g = 0; g < n; g++)
        *(value ? &s->out->group[g].back : &s->out->group[g].alone) = score[g];
    return QB_OK;
}

/* A group's share of the noise: by what it takes away when it alone is float, and by what it makes
 * when it alone is in integers. Either way the shares are made to add up to all of it, and the mean
 * counts. */
static void share_noise(searcher *s) {
    const qb_search_group *group = s->out->group;
    double back = 0, alone = 0;
    for (int32_t g = 0; g < s->space->n; g++) {
        back += fmax(s->base_noise - noise_of(group[g].back.sqnr_db), 0);
        alone += noise_of(group[g].alone.sqnr_db);
    }
    for (int32_t g = 0; g < s->space->n; g++) {
        const double less = fmax(s->base_noise - noise_of(group[g].back.sqnr_db), 0),
                     own = noise_of(group[g].alone.sqnr_db);
        s->noise.of[g] = s->base_noise *
                         ((back > 0 ? less / back : 0) + (alone > 0 ? own / alone : 0)) /
                         ((back > 0) + (alone > 0) > 0 ? (back > 0) + (alone > 0) : 1);
    }
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* The groups with the most noise. */
static int32_t noisiest(const searcher *s, int32_t *out) {
    int32_t n = 0;
    for (; n < PAIRED && n < s->space->n; n++) {
        int32_t most = -1;
        for (int32_t g = 0; g < s->space->n; g++) {
            bool taken = false;
            for (int32_t k = 0; k < n; k++) taken = taken || out[k] == g;
            if (!taken && (most < 0 || s->noise.of[g] > s->noise.of[most])) most = g;
        }
        out[n] = most;
    }
    return n;
}

/* Two groups interact where both together take away more noise, or less, than each alone. */
static qb_status score_pairs(qb_ctx *cx, searcher *s) {
    enum { MOST = PAIRED * (PAIRED - 1) / 2 };
    int32_t group[PAIRED], n = 0;
    const int32_t n_groups = noisiest(s, group);
    qb_alternative both[MOST] = {{0}};
    const qb_alternative *list[MOST];
    qb_search_score score[MOST];
    QB_TRY_NEW(cx, s->noise.pair = qb_alloc(cx, MOST, sizeof *s->noise.pair));
    for (int32_t i = 0; i < n_groups; i++)
        for (int32_t k = i + 1; k < n_groups; k++, n++) {
            QB_TRY(copy_of(cx, s, &(qb_alternative){.floats = QB_DTYPE_F32}, &both[n]));
            both[n].is_float[group[i]] = both[n].is_float[group[k]] = true;
            list[n] = &both[n];
            s->noise.pair[n] = (qb_noise_pair){.a = group[i], .b = group[k]};
        }
    QB_TRY(qb_search_score_all(cx, s->o, list, n, false, score, s->out));
    for (int32_t i = 0; i < n; i++) {
        qb_noise_pair *pair = &s->noise.pair[i];
        const double a = noise_of(s->out->group[pair->a].back.sqnr_db),
                     b = noise_of(s->out->group[pair->b].back.sqnr_db);
        pair->more = a + b - s->base_noise - noise_of(score[i].sqnr_db);
    }
    s->noise.n_pairs = n;
    return QB_OK;
}

/* ---- the model and the measurements ---------------------------------------------------------- */

/* Costs of what is float at a point move so that their sum comes nearer to its time. */
static void correct_costs(searcher *s) {
    const double base = s->out->point[s->out->integers].time.ms;
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int32_t i = 0; i < s->out->n_points; i++) {
            const qb_search_point *p = &s->out->point[i];
            if (p->a.way == 0)
                qb_costs_correct(&s->costs[floats_index(s, p->a.floats)], p->a.is_float,
                                 (p->time.ratio - 1) * base * 1e-3);
        }
}

/* Shares of what is in integers at a point move so that their sum comes nearer to its noise. */
static void correct_noise(searcher *s) {
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int32_t i = 0; i < s->out->n_points; i++) {
            const qb_search_point *p = &s->out->point[i];
            const double model = qb_noise_of(&s->noise, s->space->n, p->a.is_float);
            const double seen = noise_of(p->score.sqnr_db);
            if (!(model > 0) || !(seen > 0) || p->a.floats != s->o->floats[0] || p->a.way > 0)
                continue;
            const double factor = pow(fmin(fmax(seen / model, 0.25), 4), 0.3);
            for (int32_t g = 0; g < s->space->n; g++)
                if (!p->a.is_float[g]) s->noise.of[g] *= factor;
        }
    for (int32_t g = 0; g < s->space->n; g++) s->out->group[g].noise = s->noise.of[g];
}

/* ---- proposals ------------------------------------------------------------------------------- */

static double ratio_limit(const searcher *s) {
    const qb_search_limits *l = &s->o->limits;
    double most = INFINITY;
    if (!isnan(l->max_ratio)) most = fmin(most, l->max_ratio);
    if (!isnan(l->max_latency_ms))
        most = fmin(most, l->max_latency_ms / s->out->point[s->out->integers].time.ms);
    return most * SLACK;
}

/* The w-th weight of noise against time; `unit` makes seconds of all of the noise. */
static double weight_of(double unit, int w) { return unit * pow(10, -3 + 0.1 * w); }

/* Minima of time and noise for weights from one to the other, each from the last one's. */
static qb_status propose_minima(qb_ctx *cx, searcher *s, int32_t f) {
    const double unit = s->out->point[s->out->integers].time.ms * 1e-3 / fmax(s->base_noise, 1e-12);
    const double most = ratio_limit(s);
    qb_alternative a;
    QB_TRY(copy_of(cx, s, &(qb_alternative){.floats = s->o->floats[f]}, &a));
    for (int w = 0; w < WEIGHTS; w++) {
        qb_costs_descend(&s->costs[f], &s->noise, weight_of(unit, w), a.is_float);
        if (predicted_ratio(s, &a) <= most) QB_TRY(propose(cx, s, &a));
    }
    return QB_OK;
}

/* The least noise within a limit of latency, and a little on either side of it, for the model is
 * not exact: from the slowest of the minima that keep to the lowest of them. */
static qb_status propose_within(qb_ctx *cx, searcher *s, int32_t f) {
    static const double part[] = {2 - SLACK, 1, SLACK};
    const double base = s->out->point[s->out->integers].time.ms * 1e-3;
    const double unit = base / fmax(s->base_noise, 1e-12), limit = ratio_limit(s) / SLACK;
    const size_t n = (size_t)s->space->n;
    if (isinf(limit)) return QB_OK;
    QB_FREED bool *within = QB_NEW(cx, qb_alloc(cx, n, sizeof *within));
    qb_alternative a;
    QB_TRY(copy_of(cx, s, &(qb_alternative){.floats = s->o->floats[f]}, &a));
    for (int w = 0; w < WEIGHTS; w++) {
        qb_costs_descend(&s->costs[f], &s->noise, weight_of(unit, w), a.is_float);
        if (predicted_ratio(s, &a) <= limit * part[0]) memcpy(within, a.is_float, n);
    }
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        memcpy(a.is_float, within, n);
        qb_costs_fill(&s->costs[f], &s->noise, (limit * part[i] - 1) * base, a.is_float);
        QB_TRY(propose(cx, s, &a));
    }
    return QB_OK;
}

/* Of the proposals those that spread over what the model says of their time between two ratios;
 * the others go. */
static void thin(searcher *s, double from, double to) {
    qb_alternative kept[SPREAD];
    int32_t n = 0;
    for (int32_t k = 0; k < SPREAD; k++) {
        const double wanted = from + (to - from) * (k + 0.5) / SPREAD;
        int32_t nearest = -1;
        for (int32_t i = 0; i < s->n_proposals; i++) {
            if (!s->proposal[i].is_float) continue;
            const double distance = fabs(predicted_ratio(s, &s->proposal[i]) - wanted);
            if (distance > (to - from) / SPREAD && n > 0) continue;
            if (nearest < 0 || distance < fabs(predicted_ratio(s, &s->proposal[nearest]) - wanted))
                nearest = i;
        }
        if (nearest < 0) continue;
        kept[n++] = s->proposal[nearest];
        s->proposal[nearest].is_float = NULL;
    }
    memcpy(s->proposal, kept, (size_t)n * sizeof *kept);
    s->n_proposals = n;
}

/* What noise a second of the group's float form takes away. */
static double worth(const searcher *s, int32_t f, int32_t g) {
    return s->noise.of[g] / fmax(s->costs[f].more[g], 1e-9);
}

/* The group worth least (most) of those that are (not) float, whose change was not tried; -1. */
static int32_t extreme(const searcher *s, const qb_alternative *a, bool is_float) {
    const int32_t f = floats_index(s, a->floats);
    int32_t found = -1;
    for (int32_t g = 0; g < s->space->n; g++) {
        if (a->is_float[g] != is_float) continue;
        const bool better = found < 0 || (is_float ? worth(s, f, g) < worth(s, f, found)
                                                   : worth(s, f, g) > worth(s, f, found));
        if (better) found = g;
    }
    return found;
}

/* From a point: 1, 2, 4 groups less in float, those that are worth least; or more, worth most. */
static qb_status propose_around(qb_ctx *cx, searcher *s, const qb_search_point *p, bool less,
                                qb_dtype floats) {
    const double most = ratio_limit(s);
    qb_alternative a;
    QB_TRY(copy_of(cx, s, &p->a, &a));
    a.floats = floats;
    for (int32_t k = 1; k <= 4; k++) {
        const int32_t g = extreme(s, &a, less);
        if (g < 0) break;
        a.is_float[g] = !less;
        if ((k & (k - 1)) == 0 && predicted_ratio(s, &a) <= most) QB_TRY(propose(cx, s, &a));
    }
    return QB_OK;
}

/* From a point that nearly meets the limits: one group that is float for one that is not, those
 * that leave the least noise. A metric goes up and down between plans of the same noise. */
static qb_status propose_exchanges(qb_ctx *cx, searcher *s, const qb_search_point *p) {
    const double most = ratio_limit(s);
    const int32_t n = s->space->n;
    qb_alternative a;
    QB_TRY(copy_of(cx, s, &p->a, &a));
    for (int32_t k = 0; k < EXCHANGES; k++) {
        int32_t best = -1;
        double least = INFINITY;
        for (int32_t i = 0; i < n * n; i++) {
            const int32_t g = i / n, h = i % n;
            if (!a.is_float[g] || a.is_float[h]) continue;
            a.is_float[g] = false, a.is_float[h] = true;
            const double noise = qb_noise_of(&s->noise, n, a.is_float);
            if (noise < least && predicted_ratio(s, &a) <= most && !is_known(s, &a))
                least = noise, best = i;
            a.is_float[g] = true, a.is_float[h] = false;
        }
        if (best < 0) break;
        a.is_float[best / n] = false, a.is_float[best % n] = true;
        QB_TRY(propose(cx, s, &a));
        a.is_float[best / n] = true, a.is_float[best % n] = false;
    }
    return QB_OK;
}

/* ---- proposals by what is limited, as it was measured of groups ---- */

/* By how much a score is better than another one in what is limited; SQNR where nothing is. */
static double better_by(const qb_search_limits *l, const qb_search_score *a,
                        const qb_search_score *b) {
    if (!isnan(l->max_drop) && !isnan(a->drop)) return b->drop - a->drop;
    if (!isnan(l->min_agreement)) return a->agreement - b->agreement;
    return 0;
}

/* The noise of an output says little of what a metric loses by it: groups that alone, back in
 * float, bring the metric most for their time become proposals, by themselves and the best ones
 * together. */
static qb_status propose_by_metric(qb_ctx *cx, searcher *s, int32_t f) {
    const qb_search_score *base = &s->out->point[s->out->integers].score;
    const double most = ratio_limit(s);
    const qb_alternative integers = {.floats = s->o->floats[f]};
    qb_alternative together, alone;
    QB_FREED bool *tried = QB_NEW(cx, qb_alloc(cx, (size_t)s->space->n, sizeof *tried));
    QB_TRY(copy_of(cx, s, &integers, &together));
    for (int32_t k = 1; k <= 4 * SINGLES; k++) {
        int32_t best = -1;
        double worth_most = 0;
        for (int32_t g = 0; g < s->space->n; g++) {
            const double gain = better_by(&s->o->limits, &s->out->group[g].back, base);
            const double of_time = gain / fmax(s->costs[f].more[g], 1e-6);
            if (!tried[g] && of_time > worth_most) worth_most = of_time, best = g;
        }
        if (best < 0) break;
        tried[best] = together.is_float[best] = true;
        if (predicted_ratio(s, &together) > most) break;
        if ((k & (k - 1)) == 0) QB_TRY(propose(cx, s, &together));
        if (k > SINGLES) continue;
        QB_TRY(copy_of(cx, s, &integers, &alone));
        alone.is_float[best] = true;
        QB_TRY(propose(cx, s, &alone));
    }
    return QB_OK;
}

/* What is proposed of the first way, in the others as well: noise and time were measured of that
 * one. */
static qb_status propose_other_ways(qb_ctx *cx, searcher *s, int32_t from) {
    const int32_t n = s->n_proposals;
    for (int32_t w = 1; w < s->space->n_ways; w++)
        for (int32_t i = from; i < n; i++) {
            qb_alternative a = s->proposal[i];
            a.way = w;
            if (qb_space_count_float(s->space, &a) < s->space->n) QB_TRY(propose(cx, s, &a));
        }
    return QB_OK;
}

/* The point of the front before the picked one: faster, and not accurate enough. Where none is
 * picked, the most accurate one that is fast enough: what meets the limits is beside it. */
static const qb_search_point *before_picked(const searcher *s) {
    const qb_search_point *found = NULL;
    const int32_t end = s->out->picked < 0 ? s->out->n_points : s->out->picked;
    const double most = ratio_limit(s);
    for (int32_t i = 0; i < end && s->out->point[i].time.ratio <= most; i++)
        if (s->out->point[i].on_front) found = &s->out->point[i];
    return found;
}

/* The first round looks at all of the front; those after it between the picked point and the one
 * before it, and around both. */
static qb_status propose_round(qb_ctx *cx, searcher *s, int round) {
    const qb_search *out = s->out;
    const qb_search_point *before = before_picked(s);
    const qb_search_point *picked = out->picked < 0 ? NULL : &out->point[out->picked];
    double from = 1, to = 1;
    for (int32_t f = 0; f < s->o->n_floats; f++) QB_TRY(propose_minima(cx, s, f));
    if (round > 0 && before) from = before->time.ratio;
    for (int32_t i = 0; i < out->n_points; i++) to = fmax(to, out->point[i].time.ratio);
    if (round > 0 && picked) to = picked->time.ratio;
    thin(s, from, fmin(to, ratio_limit(s)));
    for (int32_t f = 0; f < s->o->n_floats; f++) QB_TRY(propose_within(cx, s, f));
    for (int32_t f = 0; f < s->o->n_floats && round == 0; f++) QB_TRY(propose_by_metric(cx, s, f));
    if (round == 0) return propose_other_ways(cx, s, 0);
    for (int32_t f = 0; f < s->o->n_floats; f++) {
        if (picked) QB_TRY(propose_around(cx, s, picked, true, s->o->floats[f]));
        if (before) QB_TRY(propose_around(cx, s, before, false, s->o->floats[f]));
    }
    if (before && !picked) QB_TRY(propose_exchanges(cx, s, before));
    return propose_other_ways(cx, s, 0);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static qb_status start(qb_ctx *cx, searcher *s) {
    qb_alternative integers;
    const int32_t n = s->space->n;
    s->out->n_groups = n;
    QB_TRY(qb_arena_create(cx, &s->out->arena));
    QB_TRY_NEW(cx, s->out->group = qb_alloc(cx, (size_t)n, sizeof *s->out->group));
    QB_TRY_NEW(cx, s->costs = qb_alloc(cx, (size_t)s->o->n_floats, sizeof *s->costs));
    QB_TRY_NEW(cx, s->noise.of = qb_alloc(cx, (size_t)n, sizeof *s->noise.of));
    QB_TRY(qb_search_recall_data(cx, s->o->journal, s->out));
    QB_TRY(copy_of(cx, s, &(qb_alternative){.floats = s->o->floats[0]}, &integers));
    QB_TRY(qb_space_build(cx, s->space, &integers, &s->integers));
    QB_TRY(qb_timing_inputs_create(cx, s->integers, &s->inputs));
    QB_TRY(qb_step_times_measure(cx, s->integers, &s->inputs, 2 * PROFILES, &s->steps));
    for (integers.way = 0; integers.way < s->space->n_ways; integers.way++)
        QB_TRY(propose(cx, s, &integers));
    integers.way = 0;
    for (int32_t f = 0; f < s->o->n_floats; f++) {
        integers.floats = s->o->floats[f];
        memset(integers.is_float, 1, (size_t)n);
        QB_TRY(propose(cx, s, &integers));
    }
    return measure(cx, s);
}

/* Nothing could keep to a limit of what these data do not tell. */
static qb_status check_limits(qb_ctx *cx, const searcher *s) {
    const qb_search_limits *l = &s->o->limits;
    const qb_search_score *score = &s->out->point[s->out->integers].score;
    if (!isnan(l->max_drop) && isnan(score->drop))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--max-drop (0.5 where no limit is given): nothing says what the samples "
                       "are, so no drop can be measured; limit --min-agreement, which needs no "
                       "labels, or --max-latency alone");
    if (!isnan(l->min_agreement) && isnan(score->agreement))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--min-agreement: the task has scores of its own, or the output has no "
                       "classes; limit --max-drop or --max-latency alone");
    return QB_OK;
}

static qb_status sensitivity(qb_ctx *cx, searcher *s) {
    s->base_noise = noise_of(s->out->point[s->out->integers].score.sqnr_db);
    if (is_late(s)) return QB_OK;
    QB_TRY(measure_costs(cx, s));
    if (is_late(s)) return QB_OK;
    QB_TRY(score_each(cx, s, true));
    if (is_late(s)) return QB_OK;
    QB_TRY(score_each(cx, s, false));
    share_noise(s);
    QB_TRY(score_pairs(cx, s));
    correct_noise(s);
    correct_costs(s);
    return QB_OK;
}

static void say(const qb_ctx *cx, const searcher *s, int round) {
    const qb_search *out = s->out;
    const qb_search_point *p = out->picked < 0 ? NULL : &out->point[out->picked];
    if (p)
        qb_info(cx, "round %d: %d plans; picked: %d of %d groups in %s, %.3f times all integers",
                round + 1, (int)out->n_points, (int)qb_space_count_float(s->space, &p->a),
                (int)s->space->n, qb_dtype_text(p->a.floats), p->time.ratio);
    else
        qb_info(cx, "round %d: %d plans; none meets the limits", round + 1, (int)out->n_points);
}

static qb_status search_all(qb_ctx *cx, searcher *s) {
    QB_TRY(start(cx, s));
    QB_TRY(check_limits(cx, s));
    QB_TRY(sensitivity(cx, s));
    for (int round = 0; round < ROUNDS && !is_late(s); round++) {
        QB_TRY(propose_round(cx, s, round));
        if (s->n_proposals == 0) break;
        QB_TRY(measure(cx, s));
        correct_noise(s);
        correct_costs(s);
        say(cx, s, round);
    }
    return QB_OK;
}

qb_status qb_search_run(qb_ctx *cx, const qb_search_options *o, qb_search *out) {
    searcher s = {.o = o, .out = out, .space = o->space};
    *out = (qb_search){.picked = -1, .integers = -1};
    if (o->time_budget_s > 0) s.deadline = qb_now() + o->time_budget_s;
    const qb_status status = o->space->n > 0
                                 ? search_all(cx, &s)
                                 : qb_fail(cx, QB_STATUS_UNSUPPORTED,
                                           "nothing of the model can be computed in integers");
    for (int32_t f = 0; s.costs && f < o->n_floats; f++) qb_costs_release(&s.costs[f]);
    QB_FREE_ALL(s.costs, s.noise.of, s.noise.pair);
    qb_step_times_release(&s.steps);
    qb_timing_inputs_release(&s.inputs);
    qb_engine_free(s.integers);
    if (status != QB_OK) qb_search_release(out);
    return status;
}

void qb_search_release(qb_search *search) {
    for (int32_t i = 0; i < search->n_points; i++) qb_free(search->point[i].key);
    qb_arena_free(search->arena);
    QB_FREE_ALL(search->point, search->group, search->metric);
    *search = (qb_search){0};
}
