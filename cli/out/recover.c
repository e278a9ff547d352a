#include "cli/out/recover.h"

#include <math.h>

#include "base/text.h"
#include "cli/out/json.h"

const char *qb_recover_list(const qb_opt_list *given) {
    return given->n > 1 && given->item[given->n - 1][0] ? given->item[given->n - 1] : NULL;
}

static void print_row(const char *name, int32_t layers, double sqnr, double agreement,
                      const char *what) {
    char db[16] = "-", percent[16] = "-", n[16] = "";
    if (!isnan(sqnr)) snprintf(db, sizeof db, "%.2f", sqnr);
    if (!isnan(agreement)) snprintf(percent, sizeof percent, "%.2f", agreement);
    if (layers >= 0) snprintf(n, sizeof n, "%d", layers);
    printf("%-16s%8s%11s%10s  %s\n", name, n, db, percent, what);
}

static void print_layers(const qb_recovered *r) {
    if (r->n_layers == 0) return;
    printf("\n%-48s%10s%10s\n", "layer, dB of its output", "before", "after");
    for (int32_t i = 0; i < r->n_layers; i++)
        printf("%-48s%10.2f%10.2f\n", QB_SHOWN(r->layer[i].name), r->layer[i].before_db,
               r->layer[i].after_db);
}

void qb_recover_print(const qb_recovered *r) {
    printf("\nrecovery, fitted to %lld samples, measured on %lld others\n", (long long)r->fitted,
           (long long)r->held_back);
    printf("%-16s%8s%11s%10s\n", "", "layers", "SQNR dB", "agree %");
    print_row("before", -1, r->sqnr_db, r->agreement, "");
    for (int32_t i = 0; i < r->n_steps; i++) {
        const qb_recover_step *s = &r->step[i];
        print_row(s->recovery->name, s->changed, s->sqnr_db, s->agreement,
                  s->changed == 0 ? "nothing to do"
                  : s->kept       ? "kept"
                                  : "left out");
    }
    print_row("after", -1, r->sqnr_after_db, r->agreement_after, "");
    print_layers(r);
}

json_t *qb_recover_json(const qb_recovered *r) {
    json_t *steps = json_array(), *layers = json_array();
    for (int32_t i = 0; i < r->n_steps; i++) {
        const qb_recover_step *s = &r->step[i];
        json_array_append_new(
            steps, json_pack("{s:s, s:i, s:b, s:o, s:o, s:f}", "name", s->recovery->name, "layers",
                             s->changed, "kept", s->kept, "sqnr_db", qb_json_finite(s->sqnr_db),
                             "agreement", qb_json_finite(s->agreement), "seconds", s->seconds));
    }
    for (int32_t i = 0; i < r->n_layers; i++)
        json_array_append_new(layers,
                              json_pack("{s:o, s:o, s:o}", "name", qb_json_text(r->layer[i].name),
                                        "before_db", qb_json_finite(r->layer[i].before_db),
                                        "after_db", qb_json_finite(r->layer[i].after_db)));
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "fitted", (json_int_t)r->fitted,
                     "held_back", (json_int_t)r->held_back, "sqnr_db", qb_json_finite(r->sqnr_db),
                     "agreement", qb_json_finite(r->agreement), "sqnr_after_db",
                     qb_json_finite(r->sqnr_after_db), "agreement_after",
                     qb_json_finite(r->agreement_after), "steps", steps, "layers", layers);
}
