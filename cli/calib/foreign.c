#include "cli/calib/foreign.h"

#include "base/file.h"
#include "base/text.h"
#include "cli/out/json.h"

#define LISTED 20 /* names that are printed; --json has all */

qb_status qb_foreign_load(qb_ctx *cx, const char *path, const char *format, const char *model,
                          const qb_graph *graph, qb_foreign *out) {
    QB_RELEASED(qb_foreign_release) qb_foreign f = {0};
    if (format) QB_TRY(qb_calib_format_find(cx, format, &f.format));
    QB_TRY(qb_ranges_load(cx, path, &f.format, &f.ranges));
    QB_TRY(qb_ranges_to_table(cx, &f.ranges, f.format, path, graph, &f.table, &f.fit));
    qb_free(f.table->model);
    QB_TRY_NEW(cx, f.table->model = qb_strdup(cx, qb_path_base(model)));
    *out = QB_MOVE(f);
    return QB_OK;
}

void qb_foreign_release(qb_foreign *foreign) {
    qb_ranges_fit_release(&foreign->fit);
    qb_ranges_release(&foreign->ranges);
    qb_table_free(foreign->table);
    *foreign = (qb_foreign){0};
}

static void print_names(const char *what, const char *const *names, int32_t n) {
    for (int32_t i = 0; i < n && i < LISTED; i++) printf("  %s: %s\n", what, QB_SHOWN(names[i]));
    if (n > LISTED) printf("  %s: and %d more\n", what, n - LISTED);
}

void qb_foreign_print(const qb_foreign *foreign) {
    print_names("no range", foreign->fit.missing, foreign->fit.n_missing);
    print_names("not in the model", foreign->fit.extra, foreign->fit.n_extra);
}

static json_t *names_json(const char *const *names, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) json_array_append_new(list, qb_json_text(names[i]));
    return list;
}

json_t *qb_foreign_json(const qb_foreign *foreign) {
    const qb_ranges_fit *fit = &foreign->fit;
    return json_pack("{s:s, s:i, s:o, s:o}", "format", foreign->format->name, "used", fit->used,
                     "missing", names_json(fit->missing, fit->n_missing), "extra",
                     names_json(fit->extra, fit->n_extra));
}
