#include "cli/out/auto.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/spectrum.h"
#include "cli/out/json.h"

/* One tensor's methods, judged. */
typedef struct judged {
    qb_range_quality quality[QB_TABLE_METHODS];
    int32_t best;   /* on this tensor, auto left out */
    int32_t minmax; /* -1: not among the methods */
} judged;

static void judge(const qb_auto_result *r, const qb_table_entry *e, qb_spectrum *spectrum,
                  judged *out) {
    qb_spectrum_init(e->stats, spectrum);
    out->best = -1;
    for (int32_t m = 0; m < r->table->n_methods; m++) {
        qb_range_quality_of(spectrum, e->range[m], r->symmetric, &out->quality[m]);
        if (m == r->automatic) continue;
        if (out->best < 0 || out->quality[m].sqnr_db > out->quality[out->best].sqnr_db)
            out->best = m;
    }
    out->minmax = qb_table_method(r->table, "minmax");
}

/* The single method that auto uses for all tensors, or -1: it chooses by tensor. */
static int32_t single(const qb_auto_result *r) {
    const bool other = r->holdout->n > 0 && r->holdout->best != r->automatic;
    return other ? r->holdout->best : -1;
}

/* Why the tensor has the range that it has. */
static void reason(const qb_auto_result *r, const judged *j, char *text, size_t n) {
    const int32_t used = single(r) >= 0 ? single(r) : j->best;
    if (used < 0) {
        snprintf(text, n, "nothing else to choose from");
    } else if (single(r) >= 0 && used != j->best) {
        snprintf(text, n, "best end to end; alone %s has %+.2f dB", r->table->method[j->best],
                 j->quality[j->best].sqnr_db - j->quality[used].sqnr_db);
    } else if (j->minmax >= 0 && used != j->minmax && isfinite(j->quality[used].sqnr_db)) {
        snprintf(text, n, "%+.2f dB over minmax",
                 j->quality[used].sqnr_db - j->quality[j->minmax].sqnr_db);
    } else {
        snprintf(text, n, "clipping gains nothing");
    }
}

static int32_t used_by(const qb_auto_result *r, const judged *j) {
    return single(r) >= 0 ? single(r) : j->best >= 0 ? j->best : r->automatic;
}

/* ---- text ---- */

/* The name comes last: it alone may be longer than a line. */
static void print_tensor(const qb_auto_result *r, const qb_table_entry *e, const judged *j) {
    const double own = j->quality[used_by(r, j)].sqnr_db;
    char gain[32] = "-";
    if (j->minmax >= 0 && isfinite(own))
        snprintf(gain, sizeof gain, "%+.2f", own - j->quality[j->minmax].sqnr_db);
    printf("%7.1f  %11s  %-19s  %s\n", own, gain, r->table->method[used_by(r, j)], e->name);
}

static void print_end_to_end(const qb_auto_result *r) {
    const qb_holdout *b = r->holdout;
    if (b->n == 0) {
        printf("\nauto: chosen by tensor; without data it is not compared end to end\n");
        return;
    }
    const bool classes = !isnan(b->item[0].agreement);
    printf("\nend to end on %lld held-back samples\n%-24s %9s%s\n", (long long)b->samples, "method",
           "SQNR dB", classes ? "   agree %" : "");
    for (int32_t m = 0; m < b->n; m++) {
        printf("%-24s %9.2f", m == r->automatic ? "auto, by tensor" : b->item[m].method,
               b->item[m].sqnr_db);
        if (classes) printf(" %9.2f", b->item[m].agreement);
        printf("%s\n", m == b->best ? "  *" : "");
    }
    if (single(r) >= 0)
        printf("\nauto: %s for all tensors, %+.2f dB over the choice by tensor\n",
               b->item[b->best].method, b->item[b->best].sqnr_db - b->item[r->automatic].sqnr_db);
    else
        printf("\nauto: the choice by tensor; no single method is surely better\n");
}

qb_status qb_auto_print(qb_ctx *cx, const qb_auto_result *result) {
    QB_FREED qb_spectrum *spectrum = QB_NEW(cx, qb_alloc(cx, 1, sizeof *spectrum));
    printf("what auto uses; the ranges of all methods are in --json\n\n"
           "%7s  %11s  %-19s  %s\n",
           "SQNR dB", "over minmax", "method", "tensor");
    for (int32_t i = 0; i < result->table->n_entries; i++) {
        judged j;
        judge(result, &result->table->entry[i], spectrum, &j);
        print_tensor(result, &result->table->entry[i], &j);
    }
    print_end_to_end(result);
    return QB_OK;
}

/* ---- JSON ---- */

static json_t *tensor_json(const qb_auto_result *r, const qb_table_entry *e, const judged *j) {
    char why[128];
    json_t *ranges = json_array();
    for (int32_t m = 0; m < r->table->n_methods; m++)
        json_array_append_new(ranges, json_pack("{s:s, s:f, s:f, s:o}", "method",
                                                r->table->method[m], "low", (double)e->range[m].lo,
                                                "high", (double)e->range[m].hi, "sqnr_db",
                                                qb_json_finite(j->quality[m].sqnr_db)));
    reason(r, j, why, sizeof why);
    return json_pack("{s:o, s:o, s:s, s:s}", "name", qb_json_text(e->name), "ranges", ranges,
                     "chosen", r->table->method[used_by(r, j)], "why", why);
}

json_t *qb_auto_json(qb_ctx *cx, const qb_auto_result *result) {
    qb_spectrum *spectrum = qb_alloc(cx, 1, sizeof *spectrum);
    if (!spectrum) return NULL;
    const qb_holdout *b = result->holdout;
    json_t *tensors = json_array(), *methods = json_array();
    for (int32_t i = 0; i < result->table->n_entries; i++) {
        judged j;
        judge(result, &result->table->entry[i], spectrum, &j);
        json_array_append_new(tensors, tensor_json(result, &result->table->entry[i], &j));
    }
    qb_free(spectrum);
    for (int32_t m = 0; m < b->n; m++)
        json_array_append_new(methods,
                              json_pack("{s:s, s:o, s:o}", "method", b->item[m].method, "sqnr_db",
                                        qb_json_finite(b->item[m].sqnr_db), "agreement",
                                        qb_json_finite(b->item[m].agreement)));
    return json_pack("{s:o, s:{s:I, s:o, s:s}}", "tensors", tensors, "end_to_end", "samples",
                     (json_int_t)b->samples, "methods", methods, "chosen",
                     b->n > 0 ? b->item[b->best].method : "");
}
