/* qbench manual: man pages, made from the commands' tables. */
#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "cli/out/json.h"
#include "cli/topics.h"

typedef struct options {
    qb_common common;
} options;

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

/* ---- roff ---- */

/* A dash is a minus sign that can be copied; a dot or quote never starts a line. */
static void add_text(qb_strbuf *out, const char *text) {
    if (*text == '.' || *text == '\'') qb_strbuf_add(out, "\\&");
    for (; *text; text++) {
        if (*text == '-')
            qb_strbuf_add(out, "\\-");
        else if (*text == '\\')
            qb_strbuf_add(out, "\\e");
        else
            qb_strbuf_addn(out, text, 1);
        if (*text == '\n' && (text[1] == '.' || text[1] == '\'')) qb_strbuf_add(out, "\\&");
    }
}

/* Set as it stands: examples, tables. */
static void add_verbatim(qb_strbuf *out, const char *text) {
    qb_strbuf_add(out, ".PP\n.nf\n.RS 4\n");
    add_text(out, text);
    if (*text && text[strlen(text) - 1] != '\n') qb_strbuf_add(out, "\n");
    qb_strbuf_add(out, ".RE\n.fi\n");
}

static void add_title(qb_strbuf *out, const char *page) {
    qb_strbuf_add(out, ".TH ");
    for (const char *c = page; *c; c++)
        qb_strbuf_addf(out, "%s%c", *c == '-' ? "\\" : "", toupper((unsigned char)*c));
    qb_strbuf_add(out, " 1 \"\" \"qbench " QB_VERSION "\" \"qbench manual\"\n");
}

static void add_name(qb_strbuf *out, const char *page, const char *summary) {
    qb_strbuf_add(out, ".SH NAME\n");
    add_text(out, page);
    qb_strbuf_add(out, " \\- ");
    add_text(out, summary);
    qb_strbuf_add(out, "\n");
}

static void add_option(qb_strbuf *out, const qb_opt *option) {
    qb_strbuf_add(out, ".TP\n");
    if (option->letter) qb_strbuf_addf(out, "\\fB\\-%c\\fR, ", option->letter);
    qb_strbuf_add(out, "\\fB\\-\\-");
    add_text(out, option->name);
    qb_strbuf_add(out, "\\fR");
    if (option->type != QB_OPT_FLAG) {
        qb_strbuf_add(out, " \\fI");
        add_text(out, option->argument ? option->argument : "VALUE");
        qb_strbuf_add(out, "\\fR");
    }
    qb_strbuf_add(out, "\n");
    add_text(out, option->help ? option->help : "");
    qb_strbuf_add(out, "\n");
}

/* ---- pages ---- */

/* The members of a command of commands, with the options that are their own. */
static void add_members(qb_strbuf *out, const qb_command *command) {
    for (const qb_command *const *m = command->members; *m; m++) {
        qb_strbuf_add(out, ".SS ");
        add_text(out, (*m)->name);
        qb_strbuf_add(out, " ");
        add_text(out, (*m)->usage);
        qb_strbuf_add(out, "\n");
        add_text(out, (*m)->summary);
        qb_strbuf_add(out, "\n");
        const qb_opt *own = (*m)->options;
        for (const qb_opt *o = command->options; o->name; o++) own++; /* both begin alike */
        for (; own->name; own++) add_option(out, own);
    }
}

static void command_page(qb_strbuf *out, const char *page, const qb_command *command) {
    add_title(out, page);
    add_name(out, page, command->summary);
    qb_strbuf_addf(out, ".SH SYNOPSIS\n\\fBqbench %s\\fR ", command->name);
    add_text(out, command->usage);
    if (command->members) {
        qb_strbuf_add(out, "\n.SH COMMANDS\n");
        add_members(out, command);
    }
    qb_strbuf_add(out, "\n.SH OPTIONS\n");
    for (const qb_opt *o = command->options; o->name; o++) add_option(out, o);
    if (command->notes) {
        qb_strbuf_add(out, ".SH NOTES\n");
        add_verbatim(out, command->notes);
    }
    qb_strbuf_add(out, ".SH EXAMPLES\n");
    add_verbatim(out, command->example);
    qb_strbuf_add(out, ".SH EXIT STATUS\n");
    add_verbatim(out, qb_topic_find("exit-codes")->text);
    qb_strbuf_add(out, ".SH SEE ALSO\n\\fBqbench\\fR(1)\n");
}

static void list_command(const qb_command *command, void *out) {
    qb_strbuf_add(out, ".TP\n\\fBqbench ");
    add_text(out, command->name);
    qb_strbuf_add(out, "\\fR\n");
    add_text(out, command->summary);
    qb_strbuf_add(out, "\n");
}

static void overview_page(qb_strbuf *out) {
    add_title(out, "qbench");
    add_name(out, "qbench", "calibrate, quantize, compare and gate INT8 models");
    qb_strbuf_add(out, ".SH SYNOPSIS\n\\fBqbench\\fR \\fICOMMAND\\fR [options]\n"
                       ".SH DESCRIPTION\n"
                       "From a trained FP32 ONNX model and a folder of representative data to an "
                       "INT8 engine with numbers behind it.\n.SH COMMANDS\n");
    qb_commands_each(list_command, out);
    for (const qb_topic *topic = qb_topics; topic->name; topic++) {
        qb_strbuf_add(out, ".SH ");
        for (const char *c = topic->name; *c; c++)
            qb_strbuf_addf(out, "%c", *c == '-' ? ' ' : toupper((unsigned char)*c));
        qb_strbuf_add(out, "\n");
        QB_RELEASED(qb_strbuf_release) qb_strbuf all = {0};
        qb_topic_put(topic, &all);
        if (all.failed)
            out->failed = true;
        else
            add_verbatim(out, all.data);
    }
}

/* `command`: NULL for the overview. */
static qb_status page_text(qb_ctx *cx, const char *page, const qb_command *command, char **out) {
    qb_strbuf buf = {0};
    if (command)
        command_page(&buf, page, command);
    else
        overview_page(&buf);
    return qb_strbuf_take(cx, &buf, out);
}

/* ---- the command ---- */

/* "qbench-calib-show"; NULL for the overview. New memory. */
static char *page_name(qb_ctx *cx, const qb_command *command) {
    char *page = qb_format(cx, "qbench%s%s", command ? "-" : "", command ? command->name : "");
    for (char *space = page ? strchr(page, ' ') : NULL; space; space = strchr(space, ' '))
        *space = '-';
    return page;
}

typedef struct book {
    qb_ctx *cx;
    const char *folder;
    json_t *files;
    qb_status status; /* after the first failure nothing more is written */
} book;

static qb_status write_page(book *b, const qb_command *command) {
    qb_ctx *cx = b->cx;
    QB_FREED char *text = NULL, *path = NULL, *page = page_name(cx, command);
    QB_FREED char *file = QB_NEW(cx, page ? qb_format(cx, "%s.1", page) : NULL);
    QB_TRY_NEW(cx, path = qb_path_join(cx, b->folder, file));
    QB_TRY(page_text(cx, page, command, &text));
    QB_TRY(qb_file_write(cx, path, text, strlen(text)));
    json_array_append_new(b->files, qb_json_text(path));
    return QB_OK;
}

static void add_page(const qb_command *command, void *user) {
    book *b = user;
    if (b->status == QB_OK) b->status = write_page(b, command);
}

static qb_status write_all(qb_ctx *cx, const options *o) {
    QB_TRY(qb_make_dirs(cx, o->common.out));
    book b = {.cx = cx, .folder = o->common.out, .files = json_array()};
    add_page(NULL, &b);
    qb_commands_each(add_page, &b);
    if (b.status != QB_OK) {
        json_decref(b.files);
        return b.status;
    }
    if (!qb_json_on_stdout(&o->common))
        printf("wrote %zu pages to %s\n", json_array_size(b.files), b.folder);
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o}", "schema", "qbench.manual/1", "files", b.files));
}

static qb_status print_one(qb_ctx *cx, const options *o, const qb_opt_list *words) {
    int n = words->n;
    char **word = (char **)words->item;
    const qb_command *command = n > 0 ? qb_command_of_words(cx, &n, &word) : NULL;
    if (cx->code != QB_OK) return cx->code;
    QB_FREED char *page = page_name(cx, command), *text = NULL;
    QB_TRY(page ? page_text(cx, page, command, &text) : cx->code);
    if (!qb_json_on_stdout(&o->common)) fputs(text, stdout);
    return qb_json_out(
        cx, &o->common,
        json_pack("{s:s, s:s, s:s}", "schema", "qbench.manual/1", "page", page, "roff", text));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (o->common.out && arguments->n > 0)
        return qb_fail(cx, QB_STATUS_USAGE, "-o writes all pages, '%s' is one of them",
                       arguments->item[0]);
    return o->common.out ? write_all(cx, o) : print_one(cx, o, arguments);
}

const qb_command qb_command_manual = {
    .name = "manual",
    .usage = "[COMMAND] [options]",
    .summary = "print a man page, or write all of them to a folder",
    .notes = "Without COMMAND: the page of qbench itself. -o FOLDER writes every page.",
    .example = "qbench manual calibrate | man -l -\n"
               "qbench manual -o /usr/local/share/man/man1",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 2,
    .run = run,
};
