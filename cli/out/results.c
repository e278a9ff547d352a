#include "cli/out/results.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "reports/report.h"

qb_status qb_results_show(qb_ctx *cx, const qb_common *common, const qb_run *run) {
    if (!qb_json_on_stdout(common)) qb_report_table(stdout, run);
    if (!common->json) return QB_OK;
    QB_FREED char *text = NULL;
    QB_TRY(qb_run_json(cx, run, &text));
    return qb_json_text_out(cx, common, text);
}

/* "2026-11-23 14:30 UTC" */
static char *date_text(qb_ctx *cx) {
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    char *end = NULL, text[64];
    const long long told = epoch ? strtoll(epoch, &end, 10) : 0;
    const time_t at = epoch && end != epoch && *end == '\0' ? (time_t)told : time(NULL);
    struct tm parts;
    if (!gmtime_r(&at, &parts)) return qb_strdup(cx, "");
    strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
    return qb_strdup(cx, text);
}

qb_status qb_results_describe(qb_ctx *cx, const qb_common *common, qb_run *run) {
    qb_strbuf line = {0};
    qb_strbuf_add(&line, "qbench");
    for (int i = 0; i < common->n_words; i++) qb_strbuf_addf(&line, " %s", common->words[i]);
    char *text;
    QB_TRY(qb_strbuf_take(cx, &line, &text));
    qb_free(run->command); /* of the parts that it was merged from */
    qb_free(run->made);
    run->command = qb_text_clean(cx, text);
    qb_free(text);
    run->made = date_text(cx);
    return run->command && run->made ? QB_OK : cx->code;
}

qb_status qb_results_can_save(qb_ctx *cx, const char *path) { return qb_file_can_write(cx, path); }

/* Does `old` say something that `run` does not? */
static bool is_wider(const qb_run *old, const qb_run *run) {
    if (!qb_hash_equal(old->model_hash, run->model_hash)) return true;
    for (int32_t o = 0; o < old->n_rows; o++) {
        bool found = false;
        for (int32_t r = 0; r < run->n_rows; r++)
            found = found || strcmp(old->row[o].precision, run->row[r].precision) == 0;
        if (!found) return true;
    }
    return false;
}

/* The first NAME.N.json that is not there. */
static char *free_name(qb_ctx *cx, const char *path) {
    const size_t stem = strlen(path) - (qb_has_suffix(path, ".json") ? strlen(".json") : 0);
    for (int n = 1;; n++) {
        char *name = qb_format(cx, "%.*s.%d.json", (int)stem, path, n);
        if (!name || !qb_path_exists(name)) return name;
        qb_free(name);
    }
}

/* What is no record keeps nobody from writing one. */
static qb_status keep_wider(qb_ctx *cx, const char *path, const qb_run *run) {
    QB_RELEASED(qb_run_free_at) qb_run *old = NULL;
    if (!qb_path_exists(path)) return QB_OK;
    if (qb_run_load(cx, path, &old) != QB_OK) {
        qb_ctx_clear(cx);
        return QB_OK;
    }
    const bool keep = is_wider(old, run);
    QB_FREED char *name = keep ? free_name(cx, path) : NULL;
    qb_status status = keep && !name ? cx->code : QB_OK;
    if (name) status = qb_run_save(cx, old, name);
    if (name && status == QB_OK)
        qb_info(cx, "kept the record of other rows as %s (-o FILE.json names a file for each)",
                name);
    return status;
}

qb_status qb_results_save(qb_ctx *cx, const char *path, const qb_run *run) {
    QB_TRY(keep_wider(cx, path, run));
    QB_TRY(qb_run_save(cx, run, path));
    qb_info(cx, "wrote %s", path);
    return QB_OK;
}

qb_status qb_results_draw(qb_ctx *cx, const char *folder, const qb_run *run) {
    QB_FREED char *figures = QB_NEW(cx, qb_path_join(cx, folder, "figures"));
    QB_TRY(qb_report_figures(cx, run, figures));
    qb_info(cx, "charts are in %s/", figures);
    return QB_OK;
}
