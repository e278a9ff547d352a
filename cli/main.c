/* qbench: the command line. Exit codes: 0 done, 1 failure, 2 usage, 3 a check did not hold. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/signals.h"
#include "cli/topics.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CHECK = 3, EXIT_INTERRUPTED = 130 };

static int exit_code(qb_status status) {
    switch (status) {
    case QB_OK: return EXIT_DONE;
    case QB_STATUS_USAGE: return EXIT_USAGE;
    case QB_STATUS_CHECK: return EXIT_CHECK;
    case QB_STATUS_CANCELLED: return EXIT_INTERRUPTED;
    default: return EXIT_FAILED;
    }
}

/* A standard stream that the caller closed would hand its number to the next file that is opened,
 * and messages would end up in it. Opened the wrong way round, using the stream fails as it should.
 */
static void hold_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* All that was printed must have arrived; but a reader that has seen enough (| head) is no failure.
 */
static qb_status check_stdout(qb_ctx *cx) {
    errno = qb_stream_error(stdout);
    if (errno == 0 || errno == EPIPE) return QB_OK;
    return qb_fail_errno(cx, "standard output");
}

/* Help on one word: the nearest of commands and topics where it is neither. */
static qb_status check_word(qb_ctx *cx, const char *word) {
    const char *known[128];
    int32_t used = 0;
    if (qb_command_find(word)) return QB_OK;
    for (const qb_command *const *c = qb_commands; *c && used < 64; c++) known[used++] = (*c)->name;
    for (const qb_topic *t = qb_topics; t->name && used < 127; t++) known[used++] = t->name;
    known[used] = NULL;
    const char *nearest = qb_nearest(word, known);
    return nearest
               ? qb_fail(cx, QB_STATUS_USAGE, "no help on '%s'; did you mean '%s'?", word, nearest)
               : qb_fail(cx, QB_STATUS_USAGE, "no help on '%s'; see 'qbench help'", word);
}

/* `qbench help [COMMAND|TOPIC]`; without any word at all the overview is an error message. */
static qb_status run_help(qb_ctx *cx, int argc, char **argv) {
    const bool asked = argc > 1;
    /* "help data" is the topic, "help data doctor" the command. */
    const qb_topic *text = argc == 3 ? qb_topic_find(argv[2]) : NULL;
    if (text) {
        QB_RELEASED(qb_strbuf_release) qb_strbuf all = {0};
        qb_topic_put(text, &all);
        if (all.failed) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
        printf("%s: %s\n\n%s", text->name, text->summary, all.data);
        return QB_OK;
    }
    argc -= 2;
    argv += 2;
    if (argc == 1) QB_TRY(check_word(cx, argv[0]));
    const qb_command *topic = argc > 0 ? qb_command_of_words(cx, &argc, &argv) : NULL;
    if (cx->code != QB_OK) return cx->code;
    if (topic)
        qb_help_command(stdout, topic);
    else
        qb_help_overview(asked ? stdout : stderr);
    return QB_OK;
}

/* A command of commands without one: its members, as help or as an error message. */
static qb_status run_members(qb_ctx *cx, const qb_command *command, int argc, char **argv) {
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        qb_help_command(stdout, command);
        return QB_OK;
    }
    qb_help_command(stderr, command);
    return qb_fail(cx, QB_STATUS_USAGE, "%s: expected a command", command->name);
}

static qb_status run_named(qb_ctx *cx, int argc, char **argv, const qb_command **command) {
    QB_TRY_NEW(cx, *command = qb_command_of_words(cx, &argc, &argv));
    if ((*command)->members) return run_members(cx, *command, argc, argv);
    return qb_command_start(cx, *command, argc + 1, argv - 1);
}

static int run(qb_ctx *cx, int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "help";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0) argv[1] = "version";
    const qb_command *command = NULL;
    qb_status status = strcmp(word, "help") == 0 ? run_help(cx, argc, argv)
                                                 : run_named(cx, argc - 1, argv + 1, &command);
    /* Judgements (exit code 3) are results as well. */
    if (status == QB_OK || status == QB_STATUS_CHECK) {
        const qb_status printed = check_stdout(cx);
        if (printed != QB_OK) status = printed;
    }
    if (status == QB_STATUS_USAGE && command)
        qb_logf(cx, QB_LEVEL_ERROR, "%s (see 'qbench %s --help')", cx->message, command->name);
    else if (status != QB_OK)
        qb_logf(cx, QB_LEVEL_ERROR, "%s", cx->message);
    return status == QB_OK && argc < 2 ? EXIT_USAGE : exit_code(status);
}

int main(int argc, char **argv) {
    qb_ctx cx;
    qb_log log;
    hold_standard_streams();
    qb_ctx_init(&cx);
    const char *no_color = getenv("NO_COLOR"); /* empty: no wish, see no-color.org */
    qb_log_init(&log, stderr, QB_LEVEL_INFO, no_color && *no_color);
    cx.log = &log;
    qb_signals_init(&cx);
    const int code = run(&cx, argc, argv);
    qb_signals_done();
    return code;
}
