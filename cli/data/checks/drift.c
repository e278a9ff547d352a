/* Do the samples of both sets reach as far? For each tensor the distributions of the samples'
 * extremes are compared (Kolmogorov and Smirnov): where they differ by more than chance, ranges
 * that fit the calibration data do not fit the evaluation data. */
#include <math.h>

#include "base/sort.h"
#include "cli/data/check.h"

enum {
    SAMPLES = 100, /* of each set, evenly spread */
    FEWEST = 20    /* below this, even large distances are chance */
};
#define CHANCE 1e-4 /* of so large a distance where there is no drift */
#define CLEAR 0.4   /* distances below this do not matter, however sure they are */
#define MANY 0.5    /* share of the tensors */

/* The finite extremes of the samples of one set, ascending. */
typedef struct ends {
    int64_t n;
    float value[SAMPLES];
} ends;

static void collect(const float *value, int64_t n, ends *out) {
    out->n = 0;
    for (int64_t i = 0; i < n && out->n < SAMPLES; i++)
        if (isfinite(value[i])) out->value[out->n++] = value[i];
    qb_sort_floats(out->value, (size_t)out->n);
}

/* The largest distance of the two distribution functions. */
static double distance_of(const ends *a, const ends *b) {
    double most = 0;
    for (int64_t i = 0, k = 0; i < a->n && k < b->n;) {
        const float at = fminf(a->value[i], b->value[k]);
        while (i < a->n && a->value[i] == at) i++;
        while (k < b->n && b->value[k] == at) k++;
        most = fmax(most, fabs((double)i / (double)a->n - (double)k / (double)b->n));
    }
    return most;
}

/* What the distance must be above: the asymptotic quantile of the test. */
static double bound_of(const ends *a, const ends *b) {
    const double n = (double)a->n, m = (double)b->n;
    return fmax(CLEAR, sqrt(-log(CHANCE / 2) / 2 * (n + m) / (n * m)));
}

typedef struct drift {
    int32_t tensors, moved;
    double most; /* distance, and where: */
    const char *tensor, *end;
    float usual[2]; /* medians of that end in both sets */
} drift;

static bool look_at_end(const float *a, int64_t n, const float *b, int64_t m, const char *name,
                        const char *end, drift *d) {
    ends first, second;
    collect(a, n, &first);
    collect(b, m, &second);
    if (first.n < FEWEST || second.n < FEWEST) return false;
    const double distance = distance_of(&first, &second);
    if (distance > d->most) {
        d->most = distance;
        d->tensor = name;
        d->end = end;
        d->usual[0] = first.value[first.n / 2];
        d->usual[1] = second.value[second.n / 2];
    }
    return distance > bound_of(&first, &second);
}

static qb_status judge(qb_ctx *cx, const qb_table *a, const qb_table *b, qb_diagnosis *out) {
    drift d = {0};
    for (int32_t i = 0; i < a->n_entries; i++) {
        const qb_table_entry *x = &a->entry[i], *y = qb_table_find(b, x->name);
        if (!y) continue;
        const bool low = look_at_end(x->sample_min, a->n_recorded, y->sample_min, b->n_recorded,
                                     x->name, "smallest", &d);
        const bool high = look_at_end(x->sample_max, a->n_recorded, y->sample_max, b->n_recorded,
                                      x->name, "largest", &d);
        d.tensors++;
        d.moved += low || high;
    }
    if (d.tensors == 0) return QB_OK;
    if (d.moved <= MANY * d.tensors)
        return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                                "samples of both sets reach alike in %d of %d tensors (%lld and "
                                "%lld samples)",
                                d.tensors - d.moved, d.tensors, (long long)a->n_recorded,
                                (long long)b->n_recorded);
    return qb_diagnosis_say(
        cx, out, QB_FINDING_BAD, "calibrate with data like those to evaluate",
        "samples of the two sets reach differently in %d of %d tensors, most in "
        "'%s': the %s value of a calibration sample is usually %.4g, of an "
        "evaluation sample %.4g",
        d.moved, d.tensors, d.tensor, d.end, (double)d.usual[0], (double)d.usual[1]);
}

static qb_status look(qb_ctx *cx, const qb_data_case *data, qb_diagnosis *out) {
    if (data->n_sets < 2 || data->set[0].n < FEWEST || data->set[1].n < FEWEST) return QB_OK;
    qb_table *table[2] = {NULL};
    qb_info(cx, "drift: up to %d samples of each set", SAMPLES);
    qb_status status = qb_data_check_gather(cx, data, SAMPLES, data->n_sets, table, out);
    if (status == QB_OK && table[0]) status = judge(cx, table[0], table[1], out);
    for (int32_t i = 0; i < 2; i++) qb_table_free(table[i]);
    return status;
}

const qb_data_check qb_data_check_drift = {"drift", .look = look};
