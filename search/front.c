/* Which points are on the front, and which one is picked. */
#include <math.h>
#include <stdlib.h>

#include "search/search.h"

/* What was not measured is less than anything, and alike. */
static int compare(double a, double b) {
    if (isnan(a) || isnan(b)) return !isnan(a) - !isnan(b);
    return (a > b) - (a < b);
}

/* Is a more accurate than b by what is limited, else by SQNR? */
static int compare_accuracy(const qb_search_limits *l, const qb_search_score *a,
                            const qb_search_score *b) {
    int order = isnan(l->max_drop) ? 0 : compare(-a->drop, -b->drop);
    if (order == 0 && !isnan(l->min_agreement)) order = compare(a->agreement, b->agreement);
    return order != 0 ? order : compare(a->sqnr_db, b->sqnr_db);
}

static bool limits_accuracy(const qb_search_limits *l) {
    return !isnan(l->max_drop) || !isnan(l->min_agreement);
}

/* What could not be measured keeps to no limit. */
static bool meets(const qb_search_limits *l, const qb_search_point *p) {
    const double drop = l->sure ? p->score.drop_ci.hi : p->score.drop;
    return (isnan(l->max_drop) || drop <= l->max_drop) &&
           (isnan(l->min_agreement) || p->score.agreement >= l->min_agreement) &&
           (isnan(l->max_latency_ms) || p->time.ms <= l->max_latency_ms) &&
           (isnan(l->max_ratio) || p->time.ratio <= l->max_ratio);
}

static int by_ratio(const void *a, const void *b) {
    const qb_search_point *x = a, *y = b;
    if (x->time.ratio != y->time.ratio) return x->time.ratio < y->time.ratio ? -1 : 1;
    return (x->score.sqnr_db < y->score.sqnr_db) - (x->score.sqnr_db > y->score.sqnr_db);
}

static int32_t find_integers(const qb_search *s) {
    for (int32_t i = 0; i < s->n_points; i++) {
        bool any = false;
        for (int32_t g = 0; g < s->n_groups; g++) any = any || s->point[i].a.is_float[g];
        if (!any && s->point[i].a.way == 0) return i;
    }
    return -1;
}

void qb_search_judge(const qb_search_limits *limits, qb_search *s) {
    const qb_search_score *best = NULL;
    qsort(s->point, (size_t)s->n_points, sizeof *s->point, by_ratio);
    s->picked = -1;
    for (int32_t i = 0; i < s->n_points; i++) {
        qb_search_point *p = &s->point[i];
        p->on_front = !best || compare_accuracy(limits, &p->score, best) > 0;
        if (p->on_front) best = &p->score;
        p->meets = meets(limits, p);
        if (!p->meets) continue;
        const bool first = s->picked < 0;
        const bool better = !first && !limits_accuracy(limits) &&
                            compare_accuracy(limits, &p->score, &s->point[s->picked].score) > 0;
        if (first || better) s->picked = i;
    }
    s->integers = find_integers(s);
}
