#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/out/json.h"
#include "cli/topics.h"
#include "graph/plugin.h"

const qb_command *const qb_commands[] = {
#define QB_COMMAND(name) &qb_command_##name,
#include "cli/commands.def"
    NULL};

enum { NAMES = 64 }; /* more than any list has */

const char *qb_command_own_name(const qb_command *command) {
    const char *space = strrchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

static const qb_command *find(qb_ctx *cx, const qb_command *const *all, const char *word) {
    const char *names[NAMES] = {0};
    for (int32_t i = 0; all[i] && i < NAMES - 1; i++) {
        names[i] = qb_command_own_name(all[i]);
        if (strcmp(names[i], word) == 0) return all[i];
    }
    const char *near = qb_nearest(word, names);
    qb_fail(cx, QB_STATUS_USAGE,
            near ? "unknown command '%s'; did you mean '%s'?"
                 : "unknown command '%s'; see 'qbench help'%s",
            word, near ? near : "");
    return NULL;
}

const qb_command *qb_command_find(const char *name) {
    for (const qb_command *const *c = qb_commands; *c; c++)
        if (strcmp((*c)->name, name) == 0) return *c;
    return NULL;
}

const qb_command *qb_command_of_words(qb_ctx *cx, int *argc, char ***argv) {
    const qb_command *found = find(cx, qb_commands, **argv);
    while (found) {
        --*argc;
        ++*argv;
        if (!found->members || *argc < 1 || ***argv == '-') break;
        found = find(cx, found->members, **argv);
    }
    return found;
}

static void each(const qb_command *const *all, void (*visit)(const qb_command *command, void *user),
                 void *user) {
    for (; *all; all++) {
        if ((*all)->members)
            each((*all)->members, visit, user);
        else
            visit(*all, user);
    }
}

void qb_commands_each(void (*visit)(const qb_command *command, void *user), void *user) {
    each(qb_commands, visit, user);
}

/* A command that another one starts has its plugins as well. */
static qb_status load_plugins(qb_ctx *cx, const qb_opt_list *paths) {
    if (!cx->plugins) QB_TRY(qb_plugins_create(cx, &cx->plugins));
    for (int i = 0; i < paths->n; i++) QB_TRY(qb_plugins_load(cx, cx->plugins, paths->item[i]));
    return QB_OK;
}

/* Before the work. A folder that is missing may be the one that -o asks for. */
static qb_status check_json(qb_ctx *cx, const qb_common *options) {
    if (!options->json || qb_json_on_stdout(options)) return QB_OK;
    char *folder = options->out ? qb_path_dir(cx, options->json) : NULL;
    if (options->out && !folder) return cx->code;
    const bool later = folder && !qb_path_exists(folder);
    qb_free(folder);
    return later ? QB_OK : qb_file_can_write(cx, options->json);
}

/* What the option at `i` lets be written, NULL where it is no such option; *n: the length of its
 * name in the word. */
static const char *output_at(int argc, char **argv, int i, size_t *n) {
    static const char *const names[] = {"--output",          "--json",         "--dot",
                                        "--junit",           "--exportTimes",  "--exportProfile",
                                        "--exportLayerInfo", "--exportOutput", "--saveEngine",
                                        "--timingCacheFile"};
    const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
    if (word[0] == '-' && word[1] != '-') { /* -o FILE, -oFILE, -qo FILE */
        *n = 1 + strspn(word + 1, "qv") + 1;
        if (word[*n - 1] != 'o') return NULL;
        return word[*n] ? word + *n : next;
    }
    *n = strcspn(word, "=");
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strlen(names[k]) == *n && memcmp(names[k], word, *n) == 0)
            return word[*n] ? word + *n + 1 : next;
    return NULL;
}

/* Some commands make another of what they read: their -o may be that. */
static bool is_in_place(const qb_command *command, const char *word) {
    static const char *const names[] = {"optimize", "calibrate", "calib merge"};
    if (word[1] == '-' && strncmp(word, "--output", 8) != 0) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(command->name, names[i]) == 0) return true;
    return false;
}

static qb_status would_replace(qb_ctx *cx, int n, const char *option, const char *to,
                               const char *from) {
    return qb_fail(cx, QB_STATUS_USAGE,
                   "%.*s %s: would replace %s, which the command reads: name another file", n,
                   option, to, from);
}

qb_status qb_output_check(qb_ctx *cx, const char *option, const char *to, const char *from) {
    if (!to || !from || !qb_path_is_same(to, from) || qb_path_is_dir(to)) return QB_OK;
    return would_replace(cx, (int)strlen(option), option, to, from);
}

static bool is_given(const qb_opt *opt, const void *options, const void *defaults) {
    if (opt->given_offset) return *((const bool *)options + opt->given_offset);
    return qb_opt_differs(opt, options, defaults);
}

qb_status qb_options_refuse(qb_ctx *cx, const qb_command *command, const void *options,
                            const char *const *names, const char *why) {
    QB_FREED void *defaults = QB_NEW(cx, qb_alloc(cx, 1, command->options_size));
    if (command->defaults) command->defaults(defaults);
    for (; *names; names++)
        for (const qb_opt *opt = command->options; opt->name; opt++)
            if (strcmp(opt->name, *names) == 0 && is_given(opt, options, defaults))
                return qb_fail(cx, QB_STATUS_USAGE, "%s: --%s would be ignored", why, opt->name);
    return QB_OK;
}

qb_status qb_argument_is(qb_ctx *cx, const qb_opt_list *arguments, const char *option,
                         const char **value) {
    if (arguments->n == 0) return QB_OK;
    if (*value && strcmp(*value, arguments->item[0]) != 0)
        return qb_fail(cx, QB_STATUS_USAGE, "%s and --%s %s: name one of them", arguments->item[0],
                       option, *value);
    *value = arguments->item[0];
    return QB_OK;
}

/* A file of that name beside a model is read as its sidecar; only `init` means that. */
static qb_status check_no_sidecar(qb_ctx *cx, int n, const char *option, const char *to) {
    static const char json[] = ".json";
    const size_t length = strlen(to), stem = length - (sizeof json - 1);
    if (length < sizeof json || strcmp(to + stem, json) != 0) return QB_OK;
    QB_FREED char *model = QB_NEW(cx, qb_format(cx, "%.*s.onnx", (int)stem, to));
    if (!qb_path_exists(model)) return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE,
                   "%.*s %s: would be read as the sidecar of %s: name another file", n, option, to,
                   model);
}

/* Is the output what this word names, be it in a list of NAME:FILE? The piece in *piece, new memory
 * (NULL: it is not). */
static qb_status find_read(qb_ctx *cx, const char *to, const char *word, char **piece) {
    *piece = NULL;
    if (qb_path_is_same(to, word)) {
        *piece = qb_strdup(cx, word);
        return *piece ? QB_OK : cx->code;
    }
    for (const char *at = word; *at && !*piece;) {
        const size_t n = strcspn(at, ",");
        const char *colon = memchr(at, ':', n), *file = colon ? colon + 1 : at;
        QB_TRY_NEW(cx, *piece = qb_format(cx, "%.*s", (int)(at + n - file), file));
        if (!qb_path_is_same(to, *piece)) {
            qb_free(*piece);
            *piece = NULL;
        }
        at += n + (at[n] == ',');
    }
    return QB_OK;
}

/* Fails where an output would replace a file that the same command line gives to be read, or
 * another output. */
static qb_status check_outputs(qb_ctx *cx, const qb_command *command, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        size_t n, m;
        const char *to = output_at(argc, argv, i, &n);
        if (!to || qb_path_is_dir(to)) continue;
        if (command != &qb_command_init) QB_TRY(check_no_sidecar(cx, (int)n, argv[i], to));
        if (is_in_place(command, argv[i])) continue;
        for (int k = i + 1; k < argc; k++) {
            const char *other = output_at(argc, argv, k, &m);
            const bool same = m == n && memcmp(argv[k], argv[i], n) == 0; /* the last one counts */
            if (same || !other || strcmp(to, "-") == 0) continue;
            if (strcmp(to, other) == 0)
                return qb_fail(cx, QB_STATUS_USAGE,
                               "%.*s %s: %.*s names the same file: name another", (int)n, argv[i],
                               to, (int)m, argv[k]);
        }
        for (int k = 1; k < argc; k++) {
            const char *value = *argv[k] == '-' ? strchr(argv[k], '=') : NULL;
            const char *from = value ? value + 1 : argv[k];
            const bool follows = output_at(argc, argv, k - 1, &m) == argv[k];
            if (output_at(argc, argv, k, &m) || follows) continue;
            QB_FREED char *piece = NULL;
            QB_TRY(find_read(cx, to, from, &piece));
            if (piece) return would_replace(cx, (int)n, argv[i], to, piece);
        }
    }
    return QB_OK;
}

/* What one command asks for holds for those that it starts. */
static qb_status set_budget(qb_ctx *cx, const qb_common *options) {
    enum { PERCENT = 80 };
    if (!options->max_memory && !cx->max_memory) cx->max_memory = qb_memory_total() / 100 * PERCENT;
    if (!options->max_memory) return QB_OK;
    if (qb_memory_parse(options->max_memory, strlen(options->max_memory), &cx->max_memory))
        return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE, "--max-memory: expected 800M, 4G or MiB, got '%s'",
                   options->max_memory);
}

qb_status qb_command_start(qb_ctx *cx, const qb_command *command, int argc, char **argv) {
    QB_FREED qb_common *options = QB_NEW(cx, qb_alloc(cx, 1, command->options_size));
    if (command->defaults) command->defaults(options);
    qb_opt_list arguments = {0};
    const bool outermost = !cx->plugins;
    const char *const *outside = cx->outside;
    const int n_outside = cx->n_outside;
    qb_status status = QB_OK;
    QB_GO(qb_opt_parse(cx, command->options, command->also, argc, argv, options, &arguments));
    if (options->help) {
        qb_help_command(stdout, command);
        goto out; /* the caller looks after standard output */
    }
    if (arguments.n > command->max_arguments)
        QB_GO(qb_fail(cx, QB_STATUS_USAGE, "%s takes %d argument(s), got '%s' as well",
                      command->name, command->max_arguments,
                      arguments.item[command->max_arguments]));
    options->n_words = argc;
    options->words = (const char *const *)argv;
    cx->log->quiet = options->quiet;
    cx->log->level = options->quiet     ? QB_LEVEL_ERROR
                     : options->verbose ? QB_LEVEL_DEBUG
                                        : QB_LEVEL_INFO;
    cx->threads = (int)options->threads;
    if (options->outside.n > 0) { /* a command that another one starts has what that was given */
        cx->outside = options->outside.item;
        cx->n_outside = options->outside.n;
    }
    QB_GO(set_budget(cx, options));
    QB_GO(check_outputs(cx, command, argc, argv));
    QB_GO(check_json(cx, options));
    QB_GO(load_plugins(cx, &options->plugins));
    QB_GO(command->run(cx, options, &arguments));
out:
    cx->outside = outside;
    cx->n_outside = n_outside;
    if (outermost) qb_plugins_release(QB_MOVE(cx->plugins));
    return status;
}

void qb_help_overview(FILE *stream) {
    fprintf(stream, "qbench: calibrate, quantize, compare and gate INT8 models\n\n"
                    "usage: qbench COMMAND [options]\n\n");
    for (const qb_command *const *c = qb_commands; *c; c++)
        fprintf(stream, "  %-10s %s\n", (*c)->name, (*c)->summary);
    fprintf(stream, "\nThe main job, in a folder that holds one .onnx model or a qbench.yaml:\n\n"
                    "  qbench calibrate --data imagenet_val/ --method entropy\n"
                    "  qbench compare fp32 int8\n"
                    "  qbench gate --max-drop 1.0\n\n"
                    "'qbench COMMAND --help' shows a command's options and an example,\n"
                    "'qbench help TOPIC' one of these:\n\n");
    for (const qb_topic *topic = qb_topics; topic->name; topic++)
        fprintf(stream, "  %-13s %s\n", topic->name, topic->summary);
    fprintf(stream, "\nExit codes: 0 done, 1 failure, 2 usage, 3 a check did not hold.\n");
}

static void print_indented(FILE *stream, const char *text) {
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        fprintf(stream, "  %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

/* The rows that every table begins with. */
static const qb_opt common_options[] = {QB_COMMON_OPTIONS, {0}};
enum { COMMON = sizeof common_options / sizeof common_options[0] - 1 };

void qb_help_command(FILE *stream, const qb_command *command) {
    fprintf(stream, "usage: qbench %s %s\n\n%s\n", command->name, command->usage, command->summary);
    if (command->members) fprintf(stream, "\ncommands:\n");
    for (const qb_command *const *m = command->members; m && *m; m++)
        fprintf(stream, "  %-10s %s\n", qb_command_own_name(*m), (*m)->summary);
    const qb_opt *own = command->options + COMMON;
    if (own->name) fprintf(stream, "\noptions:\n");
    qb_opt_help(stream, own);
    if (command->notes) fprintf(stream, "\n%s\n", command->notes);
    fprintf(stream, "\nexample:\n");
    print_indented(stream, command->example);
    fprintf(stream, "\ncommon options, of every command:\n");
    qb_opt_help(stream, common_options);
}
