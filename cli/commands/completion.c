/* qbench completion: what a shell needs to complete commands and options, made from their tables.
 */
#include <ctype.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/out/json.h"

typedef struct options {
    qb_common common;
} options;

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

static bool wants_file(const qb_opt *option) {
    static const char *const words[] = {"FILE", "FILE|-", "PATH", "DIR", "FOLDER"};
    for (size_t i = 0; option->argument && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(option->argument, words[i]) == 0) return true;
    return false;
}

/* "minmax,percentile or entropy" is prose; "fp32|int8" is a choice that can be completed. */
static bool is_choice(const qb_opt *option) {
    if (!option->argument || !strchr(option->argument, '|') || wants_file(option)) return false;
    for (const char *c = option->argument; *c; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && !strchr("|-_", *c))
            return false;
    return true;
}

static void add_choices(qb_strbuf *out, const qb_opt *option) {
    for (const char *c = option->argument; *c; c++) qb_strbuf_addn(out, *c == '|' ? " " : c, 1);
}

static void add_names(qb_strbuf *out, const qb_command *const *all) {
    for (int i = 0; all[i]; i++)
        qb_strbuf_addf(out, "%s%s", i > 0 ? " " : "", qb_command_own_name(all[i]));
}

/* A text inside single quotes; characters of `also` get a backslash. */
static void add_quoted(qb_strbuf *out, const char *text, const char *also) {
    for (; *text; text++) {
        if (*text == '\'')
            qb_strbuf_add(out, "'\\''");
        else if (strchr(also, *text))
            qb_strbuf_addf(out, "\\%c", *text);
        else
            qb_strbuf_addn(out, text, 1);
    }
}

/* ---- bash ---- */

/* One branch of the case over the option before the cursor. */
static void bash_value(qb_strbuf *out, const qb_command *command, const qb_opt *option) {
    if (option->type == QB_OPT_FLAG) return;
    qb_strbuf_addf(out, "    '%s --%s'", command->name, option->name);
    if (option->letter) qb_strbuf_addf(out, " | '%s -%c'", command->name, option->letter);
    qb_strbuf_add(out, ") ");
    if (is_choice(option)) {
        qb_strbuf_add(out, "COMPREPLY=($(compgen -W '");
        add_choices(out, option);
        qb_strbuf_add(out, "' -- \"$word\"))");
    } else if (wants_file(option)) {
        qb_strbuf_add(out, "COMPREPLY=($(compgen -f -- \"$word\"))");
    } else {
        qb_strbuf_add(out, "COMPREPLY=()");
    }
    qb_strbuf_add(out, "; return ;;\n");
}

static void bash_values(const qb_command *command, void *out) {
    for (const qb_opt *o = command->options; o->name; o++) bash_value(out, command, o);
}

static void bash_options(const qb_command *command, void *out) {
    qb_strbuf_addf(out, "    '%s') options='", command->name);
    for (const qb_opt *o = command->options; o->name; o++)
        qb_strbuf_addf(out, "%s--%s", o == command->options ? "" : " ", o->name);
    qb_strbuf_add(out, "' ;;\n");
}

/* A command of commands: its members, then the member's name is part of the command's. */
static void bash_members(qb_strbuf *out, const qb_command *command) {
    qb_strbuf_addf(out,
                   "    %s)\n        [ \"$COMP_CWORD\" != 2 ] || {\n"
                   "            COMPREPLY=($(compgen -W '",
                   command->name);
    add_names(out, command->members);
    qb_strbuf_add(out, "' -- \"$word\"))\n            return\n        }\n"
                       "        command+=\" ${COMP_WORDS[2]}\"\n        ;;\n");
}

static void bash(qb_strbuf *out) {
    qb_strbuf_add(out,
                  "# bash completion of qbench; load it with: source <(qbench completion bash)\n"
                  "_qbench() {\n"
                  "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
                  "options=\n"
                  "    compopt -o filenames 2>/dev/null\n"
                  "    if [ \"$COMP_CWORD\" = 1 ] || [ \"${COMP_WORDS[1]}\" = help ]; then\n"
                  "        COMPREPLY=($(compgen -W 'help ");
    add_names(out, qb_commands);
    qb_strbuf_add(out, "' -- \"$word\"))\n        return\n    fi\n"
                       "    local command=${COMP_WORDS[1]}\n"
                       "    case $command in\n");
    for (const qb_command *const *c = qb_commands; *c; c++)
        if ((*c)->members) bash_members(out, *c);
    qb_strbuf_add(out, "    esac\n    case \"$command $before\" in\n");
    qb_commands_each(bash_values, out);
    qb_strbuf_add(out, "    esac\n    case $command in\n");
    qb_commands_each(bash_options, out);
    qb_strbuf_add(out, "    esac\n"
                       "    case $word in\n"
                       "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                       "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
                       "    esac\n}\n"
                       "complete -F _qbench qbench\n");
}

/* ---- zsh ---- */

static void zsh_option(qb_strbuf *out, const qb_opt *option) {
    const char *star = option->type == QB_OPT_LIST ? "*" : "";
    qb_strbuf_add(out, " \\\n            ");
    if (option->letter)
        qb_strbuf_addf(out, "%s{-%c,--%s}", star[0] ? "'*'" : "", option->letter, option->name);
    else
        qb_strbuf_addf(out, "%s--%s", star[0] ? "'*'" : "", option->name);
    qb_strbuf_add(out, "'[");
    add_quoted(out, option->help ? option->help : "", "[]:\\");
    qb_strbuf_add(out, "]");
    if (option->type != QB_OPT_FLAG) {
        qb_strbuf_add(out, ":");
        add_quoted(out, option->argument ? option->argument : "value", "[]:\\");
        qb_strbuf_add(out, ":");
        if (is_choice(option)) {
            qb_strbuf_add(out, "(");
            add_choices(out, option);
            qb_strbuf_add(out, ")");
        } else if (wants_file(option)) {
            qb_strbuf_add(out, "_files");
        }
    }
    qb_strbuf_add(out, "'");
}

static void zsh_list(qb_strbuf *out, const char *name, const qb_command *const *all) {
    qb_strbuf_addf(out, "    local -a %s=(\n", name);
    for (; *all; all++) {
        qb_strbuf_addf(out, "        '%s:", qb_command_own_name(*all));
        add_quoted(out, (*all)->summary, "\\");
        qb_strbuf_add(out, "'\n");
    }
    qb_strbuf_add(out, "    )\n");
}

/* `words` loses its first word, so that _arguments sees a command by itself. */
static void zsh_members(qb_strbuf *out, const qb_command *command) {
    qb_strbuf_addf(out, "    if [ \"$command\" = %s ]; then\n", command->name);
    zsh_list(out, "members", command->members);
    qb_strbuf_add(out, "    if ((CURRENT == 2)); then\n        _describe command members\n"
                       "        return\n    fi\n"
                       "    command+=\" $words[2]\"\n    shift words\n    ((CURRENT--))\n    fi\n");
}

static void zsh_command(const qb_command *command, void *out) {
    qb_strbuf_addf(out, "    '%s')\n        _arguments -S", command->name);
    for (const qb_opt *o = command->options; o->name; o++) zsh_option(out, o);
    qb_strbuf_add(out, " \\\n            '*:file:_files'\n        ;;\n");
}

static void zsh(qb_strbuf *out) {
    qb_strbuf_add(out,
                  "#compdef qbench\n# zsh completion of qbench; put it as _qbench into a folder "
                  "of $fpath\n_qbench() {\n");
    zsh_list(out, "commands", qb_commands);
    qb_strbuf_add(out, "    commands+=('help:show the help of a command or topic')\n"
                       "    if ((CURRENT == 2)); then\n        _describe command commands\n"
                       "        return\n    fi\n"
                       "    local command=$words[2]\n"
                       "    shift words\n    ((CURRENT--))\n");
    for (const qb_command *const *c = qb_commands; *c; c++)
        if ((*c)->members) zsh_members(out, *c);
    qb_strbuf_add(out, "    case $command in\n    help) _describe command commands ;;\n");
    qb_commands_each(zsh_command, out);
    qb_strbuf_add(out, "    esac\n}\n"
                       "if [ \"$funcstack[1]\" = _qbench ]; then _qbench \"$@\"; "
                       "else compdef _qbench qbench; fi\n");
}

/* ---- fish ---- */

static void fish_description(qb_strbuf *out, const char *text) {
    qb_strbuf_add(out, " -d '");
    for (; *text; text++) qb_strbuf_addf(out, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    qb_strbuf_add(out, "'\n");
}

/* "calib show" has been typed: both words have. */
static void fish_condition(qb_strbuf *out, const qb_command *command) {
    const char *member = strchr(command->name, ' ');
    const int length = member ? (int)(member - command->name) : (int)strlen(command->name);
    qb_strbuf_addf(out, "complete -c qbench -n '__fish_seen_subcommand_from %.*s", length,
                   command->name);
    if (member) qb_strbuf_addf(out, "; and __fish_seen_subcommand_from%s", member);
    qb_strbuf_add(out, "'");
}

static void fish_option(qb_strbuf *out, const qb_command *command, const qb_opt *option) {
    fish_condition(out, command);
    qb_strbuf_addf(out, " -l %s", option->name);
    if (option->letter) qb_strbuf_addf(out, " -s %c", option->letter);
    if (is_choice(option)) {
        qb_strbuf_add(out, " -x -a '");
        add_choices(out, option);
        qb_strbuf_add(out, "'");
    } else if (option->type != QB_OPT_FLAG) {
        qb_strbuf_add(out, wants_file(option) ? " -r -F" : " -x");
    }
    fish_description(out, option->help ? option->help : "");
}

static void fish_command(const qb_command *command, void *out) {
    for (const qb_opt *o = command->options; o->name; o++) fish_option(out, command, o);
}

static void fish_members(qb_strbuf *out, const qb_command *command) {
    for (const qb_command *const *m = command->members; *m; m++) {
        fish_condition(out, command);
        qb_strbuf_addf(out, " -f -a %s", qb_command_own_name(*m));
        fish_description(out, (*m)->summary);
    }
}

static void fish(qb_strbuf *out) {
    qb_strbuf_add(out,
                  "# fish completion of qbench; load it with: qbench completion fish | source\n"
                  "complete -c qbench -n __fish_use_subcommand -f -a help "
                  "-d 'show the help of a command or topic'\n");
    for (const qb_command *const *c = qb_commands; *c; c++) {
        qb_strbuf_addf(out, "complete -c qbench -n __fish_use_subcommand -f -a %s", (*c)->name);
        fish_description(out, (*c)->summary);
        if ((*c)->members) fish_members(out, *c);
    }
    qb_commands_each(fish_command, out);
}

/* ---- the command ---- */

static const struct shell {
    const char *name;
    void (*script)(qb_strbuf *out);
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}, {0}};

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (arguments->n == 0)
        return qb_fail(cx, QB_STATUS_USAGE, "which shell? expected bash, zsh or fish");
    const struct shell *shell = shells;
    while (shell->name && strcmp(shell->name, arguments->item[0]) != 0) shell++;
    if (!shell->name)
        return qb_fail(cx, QB_STATUS_USAGE, "unknown shell '%s': expected bash, zsh or fish",
                       arguments->item[0]);
    qb_strbuf buf = {0};
    QB_FREED char *script = NULL;
    shell->script(&buf);
    QB_TRY(qb_strbuf_take(cx, &buf, &script));
    if (!qb_json_on_stdout(&o->common)) fputs(script, stdout);
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:s, s:s}", "schema", "qbench.completion/1", "shell",
                                 shell->name, "script", script));
}

const qb_command qb_command_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish [options]",
    .summary = "print a shell's completion script",
    .example = "source <(qbench completion bash)\n"
               "qbench completion zsh >~/.zfunc/_qbench\n"
               "qbench completion fish | source",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
