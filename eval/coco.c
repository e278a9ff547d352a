#include "eval/coco.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A detection among the best of its image and category. */
typedef struct outcome {
    double score;
    int32_t image;
    int32_t rank;                    /* in its image and category */
    uint16_t matched[QB_COCO_AREAS]; /* a bit for each threshold */
    uint16_t ignored[QB_COCO_AREAS];
} outcome;

/* An object that should be found. */
typedef struct target {
    int32_t image;
    uint32_t areas; /* a bit for each range that it counts in */
} target;

struct qb_coco_matches {
    qb_coco_kind kind;
    int32_t n_categories;
    outcome *outcome;                     /* by category, best score first */
    target *target;                       /* by category */
    size_t *first_outcome, *first_target; /* [n_categories + 1] */
};

/* Both ends belong to a range: an area of 32 x 32 is small and medium. */
static const double area_range[QB_COCO_AREAS][2] = {
    {0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};

static double threshold(int i) {
    return i == QB_COCO_IOUS - 1 ? 0.95 : i * ((0.95 - 0.5) / (QB_COCO_IOUS - 1)) + 0.5;
}

static double recall_point(int i) { return i == QB_COCO_RECALLS - 1 ? 1 : i * 0.01; }

static bool outside(double area, int range) {
    return area < area_range[range][0] || area > area_range[range][1];
}

const char *qb_coco_score_name(qb_coco_score score) {
    static const char *const name[] = {
#define X(id, text) text,
        QB_COCO_SCORES(X)
#undef X
    };
    return name[score];
}

double qb_box_iou(const double a[4], const double b[4], bool crowd) {
    const double w = fmin(a[2] + a[0], b[2] + b[0]) - fmax(a[0], b[0]);
    const double h = fmin(a[3] + a[1], b[3] + b[1]) - fmax(a[1], b[1]);
    if (w <= 0 || h <= 0) return 0;
    const double both = w * h, area = a[2] * a[3];
    return both / (crowd ? area : area + b[2] * b[3] - both);
}

/* ---- matching ---- */

/* What is at hand while pairs of image and category are matched. */
typedef struct matcher {
    const qb_coco *truth;
    const qb_coco_objects *results;
    qb_coco_kind kind;
    qb_coco_matches *out;
    size_t n_outcomes, n_targets;
    double *iou; /* [detections x objects] of the pair */
    bool *taken; /* [objects] */
    size_t iou_capacity, taken_capacity;
} matcher;

/* References to objects, sorted so that a pair of category and image lies together. */
typedef struct order {
    const qb_coco_object **at;
    size_t n;
} order;

static int by_pair(const qb_coco_object *x, const qb_coco_object *y) {
    if (x->category != y->category) return x->category < y->category ? -1 : 1;
    return (x->image > y->image) - (x->image < y->image);
}

/* In the file's order. */
static int by_pair_then_place(const void *a, const void *b) {
    const qb_coco_object *x = *(const qb_coco_object *const *)a;
    const qb_coco_object *y = *(const qb_coco_object *const *)b;
    const int pair = by_pair(x, y);
    return pair ? pair : (x > y) - (x < y);
}

static int by_pair_then_score(const void *a, const void *b) {
    const qb_coco_object *x = *(const qb_coco_object *const *)a;
    const qb_coco_object *y = *(const qb_coco_object *const *)b;
    const int pair = by_pair(x, y);
    if (pair) return pair;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x > y) - (x < y);
}

static qb_status sort_objects(qb_ctx *cx, const qb_coco_objects *objects,
                              int (*compare)(const void *, const void *), order *out) {
    QB_TRY_NEW(cx, out->at = qb_alloc(cx, objects->n, sizeof *out->at));
    for (size_t i = 0; i < objects->n; i++)
        if (objects->item[i].image >= 0 && objects->item[i].category >= 0)
            out->at[out->n++] = &objects->item[i];
    qsort(out->at, out->n, sizeof *out->at, compare);
    return QB_OK;
}

/* How many from `from` on belong to the pair of the first. */
static size_t pair_size(const order *o, size_t from) {
    size_t n = 1;
    while (from + n < o->n && by_pair(o->at[from], o->at[from + n]) == 0) n++;
    return n;
}

static qb_status load_masks(qb_ctx *cx, const matcher *m, const qb_coco_objects *from,
                            const qb_coco_object *const *object, size_t n, qb_rle *out) {
    for (size_t i = 0; i < n; i++) QB_TRY(qb_coco_mask(cx, m->truth, from, object[i], &out[i]));
    return QB_OK;
}

static double mask_iou(const qb_rle *d, const qb_rle *g, bool crowd) {
    const int64_t both = qb_rle_overlap(d, g), area = qb_rle_area(d);
    return both == 0 ? 0 : (double)both / (double)(crowd ? area : area + qb_rle_area(g) - both);
}

static qb_status fill_mask_iou(qb_ctx *cx, matcher *m, const qb_coco_object *const *d, size_t n_d,
                               const qb_coco_object *const *g, size_t n_g) {
    QB_FREED qb_rle *mask = QB_NEW(cx, qb_alloc(cx, n_d + n_g, sizeof *mask));
    qb_status status = load_masks(cx, m, m->results, d, n_d, mask);
    if (status == QB_OK) status = load_masks(cx, m, &m->truth->objects, g, n_g, mask + n_d);
    for (size_t i = 0; i < n_d && status == QB_OK; i++)
        for (size_t k = 0; k < n_g; k++)
            m->iou[i * n_g + k] = mask_iou(&mask[i], &mask[n_d + k], g[k]->crowd);
    for (size_t i = 0; i < n_d + n_g; i++) qb_rle_release(&mask[i]);
    return status;
}

/* cocoapi's kpt_oks_sigmas. */
static double spread_of(int32_t point, int32_t n) {
    static const double of_person[17] = {.026, .025, .025, .035, .035, .079, .079, .072, .072,
                                         .062, .062, .107, .107, .087, .087, .089, .089};
    return n == 17 ? of_person[point] : 1.0 / n;
}

/* Of the points that are annotated, how near they are for the object's size; without any, how far
 * they lie beyond twice its box. */
static double similarity(const double *d, const double *g, const qb_coco_object *object) {
    const double *box = object->box;
    const int32_t n = object->n_points;
    double sum = 0;
    int32_t told = 0, used = 0;
    for (int32_t i = 0; i < n; i++) told += g[3 * i + 2] > 0;
    for (int32_t i = 0; i < n; i++) {
        double square = 0;
        if (told > 0 && !(g[3 * i + 2] > 0)) continue;
        for (int k = 0; k < 2; k++) {
            const double low = box[k] - box[2 + k], high = box[k] + 2 * box[2 + k];
            const double at = d[3 * i + k];
            const double away =
                told > 0 ? at - g[3 * i + k] : fmax(0, low - at) + fmax(0, at - high);
            square += away * away;
        }
        const double width = 2 * spread_of(i, n);
        sum += exp(-square / (width * width) / (object->area + 0x1p-52) / 2);
        used++;
    }
    return used > 0 ? sum / used : 0;
}

static qb_status fill_similarity(qb_ctx *cx, matcher *m, const qb_coco_object *const *d, size_t n_d,
                                 const qb_coco_object *const *g, size_t n_g) {
    for (size_t i = 0; i < n_d; i++)
        for (size_t k = 0; k < n_g; k++) {
            const bool both = d[i]->points > 0 && g[k]->points > 0;
            if (both && d[i]->n_points != g[k]->n_points)
                return qb_fail(cx, QB_STATUS_MISMATCH,
                               "%s: a detection of %d key points, the ground truth has %d",
                               m->results->path ? m->results->path : "results", (int)d[i]->n_points,
                               (int)g[k]->n_points);
            m->iou[i * n_g + k] =
                both ? similarity(m->results->point + (d[i]->points - 1),
                                  m->truth->objects.point + (g[k]->points - 1), g[k])
                     : 0;
        }
    return QB_OK;
}

static qb_status fill_iou(qb_ctx *cx, matcher *m, const qb_coco_object *const *d, size_t n_d,
                          const qb_coco_object *const *g, size_t n_g) {
    QB_TRY(qb_grow(cx, &m->iou, &m->iou_capacity, n_d * n_g + 1, sizeof *m->iou));
    QB_TRY(qb_grow(cx, &m->taken, &m->taken_capacity, n_g + 1, sizeof *m->taken));
    if (m->kind == QB_COCO_MASKS) return fill_mask_iou(cx, m, d, n_d, g, n_g);
    if (m->kind == QB_COCO_KEYPOINTS) return fill_similarity(cx, m, d, n_d, g, n_g);
    for (size_t i = 0; i < n_d; i++)
        for (size_t k = 0; k < n_g; k++)
            m->iou[i * n_g + k] = qb_box_iou(d[i]->box, g[k]->box, g[k]->crowd);
    return QB_OK;
}

static bool is_ignored(const matcher *m, const qb_coco_object *g, int range) {
    return g->crowd || outside(g->area, range) ||
           (m->kind == QB_COCO_KEYPOINTS && g->n_visible == 0);
}

/* The free object of highest IoU that counts, or else that is ignored; of equal ones the last. A
 * crowd is never used up. n_g: none. */
static size_t find_object(const matcher *m, const double *iou, const qb_coco_object *const *g,
                          size_t n_g, int range, double least) {
    for (int ignored = 0; ignored < 2; ignored++) {
        size_t best = n_g;
        for (size_t k = 0; k < n_g; k++) {
            if (is_ignored(m, g[k], range) != ignored || (m->taken[k] && !g[k]->crowd)) continue;
            if (iou[k] < least) continue;
            least = iou[k];
            best = k;
        }
        if (best < n_g) return best;
    }
    return n_g;
}

static void match_range(const matcher *m, const qb_coco_object *const *d, size_t n_d,
                        const qb_coco_object *const *g, size_t n_g, int range, outcome *out) {
    for (int t = 0; t < QB_COCO_IOUS; t++) {
        const double least = fmin(threshold(t), 1 - 1e-10);
        memset(m->taken, 0, n_g * sizeof *m->taken);
        for (size_t i = 0; i < n_d; i++) {
            const size_t k = find_object(m, m->iou + i * n_g, g, n_g, range, least);
            const bool matched = k < n_g;
            if (matched) m->taken[k] = true;
            out[i].matched[range] |= (uint16_t)(matched << t);
            if (matched ? is_ignored(m, g[k], range) : outside(d[i]->area, range))
                out[i].ignored[range] |= (uint16_t)(1 << t);
        }
    }
}

/* Detections and objects of one category in one image; both may be none. */
static qb_status match_pair(qb_ctx *cx, matcher *m, const qb_coco_object *const *d, size_t n_d,
                            const qb_coco_object *const *g, size_t n_g) {
    const size_t most = m->kind == QB_COCO_KEYPOINTS ? 20 : QB_COCO_DETECTIONS;
    if (n_d > most) n_d = most;
    QB_TRY(fill_iou(cx, m, d, n_d, g, n_g));
    outcome *out = m->out->outcome + m->n_outcomes;
    for (size_t i = 0; i < n_d; i++)
        out[i] = (outcome){.score = d[i]->score, .image = d[i]->image, .rank = (int32_t)i};
    for (int a = 0; a < QB_COCO_AREAS; a++) match_range(m, d, n_d, g, n_g, a, out);
    m->n_outcomes += n_d;
    for (size_t k = 0; k < n_g; k++) {
        target *t = &m->out->target[m->n_targets++];
        t->image = g[k]->image;
        for (int a = 0; a < QB_COCO_AREAS; a++) t->areas |= (uint32_t)!is_ignored(m, g[k], a) << a;
    }
    return QB_OK;
}

/* Every pair of category and image that either list has, in ascending order. */
static qb_status match_all(qb_ctx *cx, matcher *m, const order *d, const order *g) {
    int32_t category = -1;
    for (size_t i = 0, k = 0; i < d->n || k < g->n;) {
        const int side = i == d->n ? 1 : k == g->n ? -1 : by_pair(d->at[i], g->at[k]);
        const qb_coco_object *first = side <= 0 ? d->at[i] : g->at[k];
        const bool other = first->category != category;
        for (; category < first->category; m->out->first_target[category] = m->n_targets)
            m->out->first_outcome[++category] = m->n_outcomes;
        if (other) QB_TRY(qb_check_cancel(cx));
        const size_t n_d = side <= 0 ? pair_size(d, i) : 0, n_g = side >= 0 ? pair_size(g, k) : 0;
        QB_TRY(match_pair(cx, m, d->at + i, n_d, g->at + k, n_g));
        i += n_d;
        k += n_g;
    }
    while (category < m->out->n_categories) {
        m->out->first_outcome[++category] = m->n_outcomes;
        m->out->first_target[category] = m->n_targets;
    }
    return QB_OK;
}

/* Best score first; of equal ones as they are: by image, then by rank, which is the file's order.
 */
static int by_score(const void *a, const void *b) {
    const outcome *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static qb_status create_matches(qb_ctx *cx, int32_t n_categories, size_t n_outcomes,
                                size_t n_targets, qb_coco_matches **out) {
    QB_RELEASED(qb_coco_matches_free_at)
    qb_coco_matches *m = QB_NEW(cx, qb_alloc(cx, 1, sizeof *m));
    const size_t n = (size_t)n_categories + 1;
    m->n_categories = n_categories;
    QB_TRY_NEW(cx, m->outcome = qb_alloc(cx, n_outcomes, sizeof *m->outcome));
    QB_TRY_NEW(cx, m->target = qb_alloc(cx, n_targets, sizeof *m->target));
    QB_TRY_NEW(cx, m->first_outcome = qb_alloc(cx, n, sizeof *m->first_outcome));
    QB_TRY_NEW(cx, m->first_target = qb_alloc(cx, n, sizeof *m->first_target));
    *out = QB_MOVE(m);
    return QB_OK;
}

qb_status qb_coco_match(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *results,
                        qb_coco_kind kind, qb_coco_matches **out) {
    matcher m = {.truth = truth, .results = results, .kind = kind};
    order d = {0}, g = {0};
    qb_status status = QB_OK;
    QB_GO(sort_objects(cx, results, by_pair_then_score, &d));
    QB_GO(sort_objects(cx, &truth->objects, by_pair_then_place, &g));
    QB_GO(create_matches(cx, truth->n_categories, d.n, g.n, &m.out));
    m.out->kind = kind;
    QB_GO(match_all(cx, &m, &d, &g));
    for (int32_t c = 0; c < truth->n_categories; c++)
        qsort(m.out->outcome + m.out->first_outcome[c],
              m.out->first_outcome[c + 1] - m.out->first_outcome[c], sizeof *m.out->outcome,
              by_score);
    *out = QB_MOVE(m.out);
out:
    qb_coco_matches_free(m.out);
    QB_FREE_ALL(d.at, g.at, m.iou, m.taken);
    return status;
}

void qb_coco_matches_free(qb_coco_matches *m) {
    if (!m) return;
    QB_FREE_ALL(m->outcome, m->target, m->first_outcome, m->first_target, m);
}

/* ---- scores ---- */

/* Where each score comes from: precision or recall, the range of area, how many detections of an
 * image and category, and one threshold or all (-1). */
static const struct {
    bool recall;
    int area, rank, iou;
} source[QB_COCO_N] = {
    [QB_COCO_AP] = {false, 0, 100, -1},   [QB_COCO_AP50] = {false, 0, 100, 0},
    [QB_COCO_AP75] = {false, 0, 100, 5},  [QB_COCO_APS] = {false, 1, 100, -1},
    [QB_COCO_APM] = {false, 2, 100, -1},  [QB_COCO_APL] = {false, 3, 100, -1},
    [QB_COCO_AR1] = {true, 0, 1, -1},     [QB_COCO_AR10] = {true, 0, 10, -1},
    [QB_COCO_AR100] = {true, 0, 100, -1}, [QB_COCO_ARS] = {true, 1, 100, -1},
    [QB_COCO_ARM] = {true, 2, 100, -1},   [QB_COCO_ARL] = {true, 3, 100, -1},
};

/* The true positives of one category as the score falls, with what was false before each. */
typedef struct curve {
    double *right, *precision;
    int64_t n;
} curve;

static double weight_of(const int32_t *weight, int32_t image) { return weight ? weight[image] : 1; }

/* Walks down the detections; returns how many objects were found. */
static double walk(const outcome *o, size_t n, const int32_t *weight, int area, int rank, int t,
                   curve *c) {
    const uint16_t bit = (uint16_t)(1 << t);
    double right = 0, wrong = 0;
    c->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (o[i].rank >= rank || (o[i].ignored[area] & bit)) continue;
        const double w = weight_of(weight, o[i].image);
        if (!(o[i].matched[area] & bit)) {
            wrong += w;
        } else if (w > 0) {
            right += w;
            c->right[c->n] = right;
            c->precision[c->n++] = right / (wrong + right + 0x1p-52);
        }
    }
    return right;
}

/* The mean over the recall points of the best precision at that recall or a higher one, which is
 * added to `points` (may be NULL). */
static double average_precision(curve *c, double objects, double *points) {
    for (int64_t i = c->n - 2; i >= 0; i--)
        c->precision[i] = fmax(c->precision[i], c->precision[i + 1]);
    double sum = 0;
    int64_t at = 0;
    for (int r = 0; r < QB_COCO_RECALLS; r++) {
        while (at < c->n && c->right[at] / objects < recall_point(r)) at++;
        if (at == c->n) break;
        sum += c->precision[at];
        if (points) points[r] += c->precision[at];
    }
    return sum / QB_COCO_RECALLS;
}

static double count_targets(const qb_coco_matches *m, int32_t category, const int32_t *weight,
                            int area) {
    double n = 0;
    for (size_t i = m->first_target[category]; i < m->first_target[category + 1]; i++)
        if (m->target[i].areas >> area & 1) n += weight_of(weight, m->target[i].image);
    return n;
}

/* One category: each wanted score, -1 where no object counts. */
static void score_category(const qb_coco_matches *m, int32_t category, const int32_t *weight,
                           uint32_t wanted, curve *c, qb_coco_scores *out) {
    const outcome *o = m->outcome + m->first_outcome[category];
    const size_t n = m->first_outcome[category + 1] - m->first_outcome[category];
    double objects[QB_COCO_AREAS] = {0};
    double precision[QB_COCO_AREAS][QB_COCO_IOUS]; /* of 100 detections, computed once */
    for (int a = 0; a < QB_COCO_AREAS; a++)
        for (int t = 0; t < QB_COCO_IOUS; t++) precision[a][t] = NAN;
    for (int a = 0; a < QB_COCO_AREAS; a++) objects[a] = count_targets(m, category, weight, a);
    for (int s = 0; s < QB_COCO_N; s++) {
        const int area = source[s].area, only = source[s].iou;
        out->value[s] = -1;
        if (!(wanted >> s & 1) || objects[area] == 0) continue;
        double sum = 0;
        for (int t = only < 0 ? 0 : only; t < (only < 0 ? QB_COCO_IOUS : only + 1); t++) {
            if (source[s].recall) {
                sum += walk(o, n, weight, area, source[s].rank, t, c) / objects[area];
                continue;
            }
            if (isnan(precision[area][t])) {
                walk(o, n, weight, area, source[s].rank, t, c);
                precision[area][t] = average_precision(c, objects[area], NULL);
            }
            sum += precision[area][t];
        }
        out->value[s] = only < 0 ? sum / QB_COCO_IOUS : sum;
    }
}

/* Room for any category's; free c->right. */
static qb_status create_curve(qb_ctx *cx, const qb_coco_matches *m, curve *c) {
    size_t most = 0;
    for (int32_t k = 0; k < m->n_categories; k++) {
        const size_t n = m->first_outcome[k + 1] - m->first_outcome[k];
        if (n > most) most = n;
    }
    double *memory = QB_NEW(cx, qb_alloc(cx, 2 * most + 1, sizeof *memory));
    *c = (curve){memory, memory + most, 0};
    return QB_OK;
}

qb_status qb_coco_curve(qb_ctx *cx, const qb_coco_matches *m, const int32_t *weight,
                        double precision[QB_COCO_RECALLS]) {
    curve c;
    int32_t counted = 0;
    QB_TRY(create_curve(cx, m, &c));
    memset(precision, 0, QB_COCO_RECALLS * sizeof *precision);
    for (int32_t k = 0; k < m->n_categories; k++) {
        const double objects = count_targets(m, k, weight, 0);
        if (objects == 0) continue;
        walk(m->outcome + m->first_outcome[k], m->first_outcome[k + 1] - m->first_outcome[k],
             weight, 0, QB_COCO_DETECTIONS, 0, &c);
        average_precision(&c, objects, precision);
        counted++;
    }
    for (int r = 0; r < QB_COCO_RECALLS && counted > 0; r++) precision[r] /= counted;
    qb_free(c.right);
    return QB_OK;
}

double qb_coco_recall_above(const qb_coco_matches *m, const int32_t *weight, double score) {
    double objects = 0, found = 0;
    for (int32_t k = 0; k < m->n_categories; k++) {
        objects += count_targets(m, k, weight, 0);
        for (size_t i = m->first_outcome[k]; i < m->first_outcome[k + 1]; i++) {
            const outcome *o = &m->outcome[i];
            if (o->score > score && (o->matched[0] & 1) && !(o->ignored[0] & 1))
                found += weight_of(weight, o->image);
        }
    }
    return objects > 0 ? found / objects : -1;
}

qb_status qb_coco_summarize(qb_ctx *cx, const qb_coco_matches *m, const int32_t *weight,
                            uint32_t wanted, qb_coco_scores *all, qb_coco_scores *each) {
    curve c;
    QB_TRY(create_curve(cx, m, &c));
    double sum[QB_COCO_N] = {0};
    int64_t counted[QB_COCO_N] = {0};
    for (int32_t k = 0; k < m->n_categories; k++) {
        qb_coco_scores scores;
        score_category(m, k, weight, wanted, &c, &scores);
        if (m->kind == QB_COCO_KEYPOINTS)
            scores.value[QB_COCO_APS] = scores.value[QB_COCO_ARS] = -1;
        if (each) each[k] = scores;
        for (int s = 0; s < QB_COCO_N; s++)
            if (scores.value[s] >= 0) {
                sum[s] += scores.value[s];
                counted[s]++;
            }
    }
    qb_free(c.right);
    for (int s = 0; s < QB_COCO_N; s++)
        all->value[s] = counted[s] > 0 ? sum[s] / (double)counted[s] : -1;
    return QB_OK;
}
