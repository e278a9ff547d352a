/* qbench report: a run record in the form that is asked for; needs neither model nor data. */
#include <string.h>

#include "base/file.h"
#include "cli/out/results.h"
#include "reports/report.h"

typedef struct options {
    qb_common common;
    const char *format;
    bool no_figures;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_TEXT(options, "format", format, "FORM", "text (default), html, pdf, md, json or tsv",
            .letter = 'f'),
    QB_FLAG(options, "no-figures", no_figures, "draw no charts"),
    {0},
};

/* What has a form and where it goes when -o names no file; NULL: standard output. */
typedef struct form {
    const char *name, *suffix, *file;
    qb_status (*write)(qb_ctx *cx, const options *o, const qb_run *run, const char *path);
} form;

static qb_status write_stream(qb_ctx *cx, const qb_run *run, const char *path,
                              void (*print)(FILE *stream, const qb_run *run)) {
    qb_writer writer;
    if (!path) {
        print(stdout, run);
        return QB_OK;
    }
    QB_TRY(qb_writer_open(cx, path, &writer));
    print(writer.stream, run);
    return qb_writer_commit(cx, &writer);
}

static qb_status write_text(qb_ctx *cx, const options *o, const qb_run *run, const char *path) {
    if (path) return write_stream(cx, run, path, qb_report_table);
    QB_TRY(qb_results_show(cx, &o->common, run));
    return o->no_figures ? QB_OK : qb_results_draw(cx, o->common.out, run);
}

static qb_status write_markdown(qb_ctx *cx, const options *o, const qb_run *run, const char *path) {
    (void)o;
    return write_stream(cx, run, path, qb_report_markdown);
}

static qb_status write_tsv(qb_ctx *cx, const options *o, const qb_run *run, const char *path) {
    (void)o;
    return write_stream(cx, run, path, qb_report_tsv);
}

static qb_status write_json(qb_ctx *cx, const options *o, const qb_run *run, const char *path) {
    QB_FREED char *text = NULL;
    (void)o;
    if (path) return qb_run_save(cx, run, path);
    QB_TRY(qb_run_json(cx, run, &text));
    fputs(text, stdout);
    return QB_OK;
}

static qb_status write_html(qb_ctx *cx, const options *o, const qb_run *run, const char *path) {
    return qb_results_html(cx, &o->common, path, run, !o->no_figures);
}

static qb_status write_pdf(qb_ctx *cx, const options *o, const qb_run *run, const char *path) {
    return qb_results_pdf(cx, &o->common, path, run, !o->no_figures);
}

static const form forms[] = {
    {"text", ".txt", NULL, write_text},       {"html", ".html", "report.html", write_html},
    {"pdf", ".pdf", "report.pdf", write_pdf}, {"md", ".md", NULL, write_markdown},
    {"json", ".json", NULL, write_json},      {"tsv", ".tsv", NULL, write_tsv},
};

/* The form that --format names, else that of -o's ending, else text. */
static qb_status find_form(qb_ctx *cx, const options *o, const form **out) {
    const size_t n = sizeof forms / sizeof forms[0];
    *out = &forms[0];
    for (size_t i = 0; i < n && !o->format && o->common.out; i++)
        if (forms[i].suffix && qb_has_suffix(o->common.out, forms[i].suffix)) *out = &forms[i];
    if (!o->format) return QB_OK;
    for (size_t i = 0; i < n; i++)
        if (strcmp(o->format, forms[i].name) == 0) {
            *out = &forms[i];
            return QB_OK;
        }
    return qb_fail(cx, QB_STATUS_USAGE,
                   "--format: expected text, html, pdf, md, json or tsv, got '%s'", o->format);
}

/* -o is a file when it ends like the form, else a folder. NULL: standard output. */
static qb_status target_of(qb_ctx *cx, const options *o, const form *f, char **out) {
    const char *place = o->common.out;
    *out = NULL;
    const bool named = place && qb_has_suffix(place, f->suffix);
    const bool folder_of_figures = f->write == write_text && !named;
    if ((!f->file && !place) || folder_of_figures) return QB_OK;
    if (named) {
        *out = qb_strdup(cx, place);
        return *out ? QB_OK : cx->code;
    }
    QB_FREED char *name = f->file ? qb_strdup(cx, f->file) : qb_format(cx, "report%s", f->suffix);
    if (!name) return cx->code;
    if (place) QB_TRY(qb_make_dirs(cx, place));
    *out = qb_path_join(cx, place, name);
    return *out ? QB_OK : cx->code;
}

/* Has the form charts, there? The tables alone have none. */
static bool draws(const form *f, const char *path) {
    return f->write == write_html || f->write == write_pdf || (f->write == write_text && !path);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    const form *f;
    QB_RELEASED(qb_run_free_at) qb_run *record = NULL;
    QB_FREED char *path = NULL;
    QB_TRY(find_form(cx, o, &f));
    QB_TRY(qb_run_load(cx, arguments->n > 0 ? arguments->item[0] : "compare.json", &record));
    QB_TRY(target_of(cx, o, f, &path));
    if (o->no_figures && !draws(f, path))
        return qb_fail(cx, QB_STATUS_USAGE, "%s has no charts: --no-figures would be ignored",
                       f->name);
    if (arguments->n == 0) QB_TRY(qb_output_check(cx, "-o", path, "compare.json"));
    QB_TRY(f->write(cx, o, record, path));
    if (path) qb_info(cx, "wrote %s", path);
    return QB_OK;
}

const qb_command qb_command_report = {
    .name = "report",
    .usage = "[COMPARE.json] [options]",
    .summary = "a comparison's record as page, text, Markdown or data",
    .notes = "text: the tables, and charts in figures/ (the tables alone with -o NAME.txt).\n"
             "html: one page that needs no other file. pdf: the same through Chromium. md:\n"
             "for a pull request. -o names a file or a folder; md, json and tsv go to\n"
             "standard output without it.",
    .example = "qbench report -o report.html\n"
               "qbench report release/compare.json --format md >>\"$GITHUB_STEP_SUMMARY\"\n"
               "qbench report --format pdf -o release/",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
