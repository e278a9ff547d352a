/* Commands: one row in commands.def and one file in commands/ each. */
#ifndef QB_CLI_COMMAND_H
#define QB_CLI_COMMAND_H

#include <stdio.h>

#include "base/log.h"
#include "base/opt.h"

/* Options that every command takes. */
typedef struct qb_common {
    const char *json; /* --json FILE|- */
    const char *out;  /* -o PATH */
    const char
        *config; /* --config FILE; NULL: qbench.yaml in the current folder when there is one */
    qb_opt_list plugins; /* --plugin LIB.so ... */
    qb_opt_list outside; /* --allow-outside PATH ... */
    bool quiet, verbose, help;
    int64_t threads;
    const char *max_memory;   /* --max-memory SIZE */
    int n_words;              /* of the command line, from the command's name on */
    const char *const *words; /* NULL: called by another command */
} qb_common;

/* Rows that every option table begins with: the first member of each option struct is a
 * `qb_common common`. */
#define QB_COMMON_OPTIONS                                                                          \
    QB_TEXT(qb_common, "json", json, "FILE|-",                                                     \
            "write the result as JSON (- for standard output)"),                                   \
        QB_TEXT(qb_common, "output", out, "PATH",                                                  \
                "where artifacts go (default: the current folder)", .letter = 'o'),                \
        QB_TEXT(qb_common, "config", config, "FILE",                                               \
                "settings (default: qbench.yaml here; '': none)", .or_none = true),                \
        QB_INT(qb_common, "threads", threads, "N", 0, 4096,                                        \
               "threads to use (default: all processors)", .letter = 'j'),                         \
        QB_TEXT(qb_common, "max-memory", max_memory, "SIZE",                                       \
                "most memory: 800M, 4G (default: 80 % of the machine's or cgroup's)"),             \
        QB_LIST(qb_common, "plugin", plugins, "LIB.so",                                            \
                "operators of a plugin (repeatable; see 'qbench help plugins')"),                  \
        QB_LIST(qb_common, "allow-outside", outside, "PATH",                                       \
                "a model may use files there that are not in its folder (repeatable)"),            \
        QB_FLAG(qb_common, "quiet", quiet, "only errors", .letter = 'q'),                          \
        QB_FLAG(qb_common, "verbose", verbose, "say more", .letter = 'v'),                         \
        QB_FLAG(qb_common, "help", help, "show this help", .letter = 'h')

typedef struct qb_command {
    const char *name;
    const char *usage;     /* "MODEL [options]": what follows the command's name */
    const char *summary;   /* one line */
    const char *notes;     /* what the arguments mean, under the options; NULL: nothing to add */
    const char *example;   /* whole command lines, newline separated */
    const qb_opt *options; /* begins with QB_COMMON_OPTIONS */
    const qb_opt *also;    /* taken as well, but not listed anywhere; NULL: none */
    size_t options_size;
    int max_arguments;               /* positional ones; more is a usage error */
    void (*defaults)(void *options); /* may be NULL: all zero */
    /* Results go to stdout, everything else through the log. */
    qb_status (*run)(qb_ctx *cx, void *options, const qb_opt_list *arguments);
    /* A command of commands (`qbench calib show`): the rows that its next word chooses from, each
     * with its full name ("calib show"), then NULL. The command itself is never run. */
    const struct qb_command *const *members;
} qb_command;

#define QB_COMMAND(name) extern const qb_command qb_command_##name;
#include "cli/commands.def"

extern const qb_command *const qb_commands[];        /* ends with NULL */
const qb_command *qb_command_find(const char *name); /* one of them; NULL */
/* The one that *argc words at *argv call by its name, which are then taken off; for a command of
 * commands its member, or the command itself where no word follows (or an option). NULL: an error
 * with the nearest name. */
const qb_command *qb_command_of_words(qb_ctx *cx, int *argc, char ***argv);
const char *qb_command_own_name(const qb_command *command); /* "show" of "calib show" */
/* Calls `visit` for every command that can be run: members in place of their command of commands.
 */
void qb_commands_each(void (*visit)(const qb_command *command, void *user), void *user);
/* Parses argv[1..argc) and runs the command; --help prints its help instead. The context's log and
 * threads are set as the options say. */
qb_status qb_command_start(qb_ctx *cx, const qb_command *command, int argc, char **argv);
/* QB_STATUS_USAGE, "WHY: --NAME would be ignored", where the command line gave one of the options
 * `names` (ends with NULL) of the command whose options these are. */
qb_status qb_options_refuse(qb_ctx *cx, const qb_command *command, const void *options,
                            const char *const *names, const char *why);
/* *value: the first argument, which stands for the option of this name; QB_STATUS_USAGE where both
 * were given. Without arguments *value stays. */
qb_status qb_argument_is(qb_ctx *cx, const qb_opt_list *arguments, const char *option,
                         const char **value);
/* QB_STATUS_USAGE where the output `to` that `option` names would replace the file `from`, which
 * the command reads without being told to; NULL: there is none. */
qb_status qb_output_check(qb_ctx *cx, const char *option, const char *to, const char *from);
/* The list of commands, or one command's usage, members, options and example. */
void qb_help_overview(FILE *stream);
void qb_help_command(FILE *stream, const qb_command *command);

#endif
