/* qbench calib diff: what differs between two calibrations, tensor by tensor, largest change first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/table.h"
#include "cli/out/json.h"

typedef struct options {
    qb_common common;
    const char *method;
    double max_change;
    bool max_change_given;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_TEXT(options, "method", method, "NAME",
            "compare the ranges by this method (default: each one's first)"),
    QB_DOUBLE(options, "max-change", max_change, "PERCENT", 0, 1e9,
              "exit with 3 where a range moved by more, or a tensor is on one side only",
              .given_offset = offsetof(options, max_change_given)),
    {0},
};

/* A tensor in one of the calibrations or in both. */
typedef struct row {
    const char *name;
    const qb_table_entry *a, *b; /* NULL: not there */
    double change;               /* of the range's ends, of the wider range; infinite: one-sided */
    double shape;                /* share of the values that lie elsewhere, 0 .. 1 */
} row;

typedef struct pair {
    const qb_table *a, *b;
    int32_t method_a, method_b;
    row *row;
    int32_t n;
} pair;

static void pair_release(pair *p) { qb_free(p->row); }

/* The larger move of an end, against the wider of the two ranges. */
static double range_change(qb_range a, qb_range b) {
    const double move = fmax(fabs((double)a.lo - b.lo), fabs((double)a.hi - b.hi));
    const double width = fmax((double)a.hi - a.lo, (double)b.hi - b.lo);
    return move == 0 ? 0 : move / fmax(width, fmax(fabs((double)a.hi), fabs((double)b.hi)));
}

/* Total variation distance of the two distributions, on the coarser of their bins. */
static qb_status shape_change(qb_ctx *cx, const qb_stats *a, const qb_stats *b, double *out) {
    QB_FREED qb_stats *coarse = QB_NEW(cx, qb_alloc(cx, 1, sizeof *coarse));
    const qb_stats *fine = a->exponent < b->exponent ? a : b, *other = fine == a ? b : a;
    qb_stats_init(coarse);
    coarse->exponent = other->exponent;
    qb_stats_merge(coarse, fine);
    double sum = 0;
    for (int32_t j = 0; j < QB_STATS_BINS; j++)
        sum += fabs((double)coarse->bin[j] / (double)coarse->count -
                    (double)other->bin[j] / (double)other->count);
    *out = sum / 2;
    return QB_OK;
}

static qb_status fill_row(qb_ctx *cx, const pair *p, row *r) {
    r->name = r->a ? r->a->name : r->b->name;
    r->change = r->shape = INFINITY;
    if (!r->a || !r->b) return QB_OK;
    r->change = range_change(r->a->range[p->method_a], r->b->range[p->method_b]);
    return shape_change(cx, r->a->stats, r->b->stats, &r->shape);
}

static int by_change(const void *left, const void *right) {
    const row *a = left, *b = right;
    if (a->change != b->change) return a->change < b->change ? 1 : -1;
    if (a->shape != b->shape) return a->shape < b->shape ? 1 : -1;
    return strcmp(a->name, b->name);
}

static qb_status make_rows(qb_ctx *cx, pair *p) {
    p->row = qb_alloc(cx, (size_t)(p->a->n_entries + p->b->n_entries), sizeof *p->row);
    if (!p->row) return cx->code;
    for (int32_t i = 0; i < p->a->n_entries; i++)
        p->row[p->n++] = (row){.a = &p->a->entry[i], .b = qb_table_find(p->b, p->a->entry[i].name)};
    for (int32_t i = 0; i < p->b->n_entries; i++)
        if (!qb_table_find(p->a, p->b->entry[i].name)) p->row[p->n++] = (row){.b = &p->b->entry[i]};
    for (int32_t i = 0; i < p->n; i++) QB_TRY(fill_row(cx, p, &p->row[i]));
    qsort(p->row, (size_t)p->n, sizeof *p->row, by_change);
    return QB_OK;
}

static void print_rows(const pair *p) {
    int width = (int)strlen("tensor"); /* of the longest name */
    for (int32_t i = 0; i < p->n; i++)
        if ((int)strlen(p->row[i].name) > width) width = (int)strlen(p->row[i].name);
    printf("%-*s %25s %25s %9s %9s\n", width, "tensor", p->a->method[p->method_a],
           p->b->method[p->method_b], "change %", "shape %");
    for (int32_t i = 0; i < p->n; i++) {
        const row *r = &p->row[i];
        if (!r->a || !r->b) {
            printf("%-*s only in the %s\n", width, r->name, r->a ? "first" : "second");
            continue;
        }
        const qb_range a = r->a->range[p->method_a], b = r->b->range[p->method_b];
        printf("%-*s %12.6g %12.6g %12.6g %12.6g %9.3f %9.3f\n", width, r->name, (double)a.lo,
               (double)a.hi, (double)b.lo, (double)b.hi, 100 * r->change, 100 * r->shape);
    }
}

static json_t *range_json(const qb_table_entry *e, int32_t method) {
    return e ? json_pack("[f, f]", (double)e->range[method].lo, (double)e->range[method].hi)
             : json_null();
}

static json_t *result_json(const pair *p, const char *const *path) {
    json_t *rows = json_array();
    for (int32_t i = 0; i < p->n; i++) {
        const row *r = &p->row[i];
        const bool both = r->a && r->b;
        json_array_append_new(
            rows, json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", qb_json_text(r->name), "first",
                            range_json(r->a, p->method_a), "second", range_json(r->b, p->method_b),
                            "change", both ? json_real(r->change) : json_null(), "shape",
                            both && isfinite(r->shape) ? json_real(r->shape) : json_null()));
    }
    return json_pack("{s:s, s:o, s:o, s:[s, s], s:o}", "schema", "qbench.calib-diff/1", "first",
                     qb_json_text(path[0]), "second", qb_json_text(path[1]), "methods",
                     p->a->method[p->method_a], p->b->method[p->method_b], "tensors", rows);
}

static qb_status judge(qb_ctx *cx, const options *o, const pair *p) {
    if (!o->max_change_given || p->n == 0 || 100 * p->row[0].change <= o->max_change) return QB_OK;
    if (!p->row[0].a || !p->row[0].b)
        return qb_fail(cx, QB_STATUS_CHECK, "tensor '%s' is in one calibration only",
                       p->row[0].name);
    return qb_fail(cx, QB_STATUS_CHECK, "tensor '%s': the range moved by %.3f %%, at most %g %%",
                   p->row[0].name, 100 * p->row[0].change, o->max_change);
}

static qb_status find_method(qb_ctx *cx, const options *o, const char *path, const qb_table *t,
                             int32_t *out) {
    *out = o->method ? qb_table_method(t, o->method) : 0;
    if (*out >= 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "%s has no method '%s'", path, o->method);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (arguments->n < 2)
        return qb_fail(cx, QB_STATUS_USAGE, "calib diff: expected two .calib.h5 files");
    QB_RELEASED(qb_table_free_at) qb_table *a = NULL, *b = NULL;
    QB_RELEASED(pair_release) pair p = {0};
    QB_TRY(qb_table_load(cx, arguments->item[0], &a));
    QB_TRY(qb_table_load(cx, arguments->item[1], &b));
    p.a = a;
    p.b = b;
    QB_TRY(find_method(cx, o, arguments->item[0], a, &p.method_a));
    QB_TRY(find_method(cx, o, arguments->item[1], b, &p.method_b));
    if (!qb_hash_equal(a->model_hash, b->model_hash))
        qb_warn(cx, "the calibrations were made from different models: %s and %s", a->model,
                b->model);
    QB_TRY(make_rows(cx, &p));
    if (!qb_json_on_stdout(&o->common)) print_rows(&p);
    QB_TRY(qb_json_out(cx, &o->common, result_json(&p, arguments->item)));
    return judge(cx, o, &p);
}

const qb_command qb_calib_command_diff = {
    .name = "calib diff",
    .usage = "FIRST.calib.h5 SECOND.calib.h5 [options]",
    .summary = "two calibrations by tensor, largest change of the range first",
    .notes = "change: the larger move of the range's ends against the wider range. shape:\n"
             "share of the values that lie in other bins.",
    .example = "qbench calib diff old.calib.h5 new.calib.h5 --method entropy\n"
               "qbench calib diff a.calib.h5 b.calib.h5 --max-change 5",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 2,
    .run = run,
};
