#include "opt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HELP_COLUMN 30
#define HELP_WIDTH 80
#define WORD_MAX 64

typedef struct parser {
    qb_ctx *cx;
    const qb_opt *table, *also;
    int argc, at;
    char **argv;
    char *options;
    qb_opt_list *rest;
} parser;

/* ---- near misses ---- */

static int min3(int a, int b, int c) {
    int m = a < b ? a : b;
    return m < c ? m : c;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* At most so many edits: all that lies between what two words begin and end with alike. */
static int edits_between(const char *a, size_t n, const char *b, size_t m) {
    size_t start = 0, least = n < m ? n : m, end = 0;
    while (start < least && lower(a[start]) == lower(b[start])) start++;
    while (end < least - start && lower(a[n - 1 - end]) == lower(b[m - 1 - end])) end++;
    const size_t edits = (n > m ? n : m) - start - end;
    return edits < INT32_MAX ? (int)edits : INT32_MAX;
}

/* Edits (insert, drop, replace, swap neighbours) that turn a into b, letter case ignored: the
 * optimal string alignment distance; for long words an upper bound of it. */
static int edit_distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    if (n >= WORD_MAX || m >= WORD_MAX) return edits_between(a, n, b, m);
    int row[3][WORD_MAX + 1];
    for (size_t j = 0; j <= m; j++) row[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = row[i % 3], *before = row[(i - 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            now[j] = min3(before[j] + 1, now[j - 1] + 1, before[j - 1] + !same);
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped && row[(i - 2) % 3][j - 2] + 1 < now[j])
                now[j] = row[(i - 2) % 3][j - 2] + 1;
        }
    }
    return row[n % 3][m];
}

/* The only name that starts with `word`: "samp" for "samples". */
static const char *only_completion(const char *word, const char *const *names) {
    const char *found = NULL;
    size_t n = strlen(word);
    for (; *names; names++) {
        if (strncasecmp(word, *names, n) != 0) continue;
        if (found) return NULL;
        found = *names;
    }
    return found;
}

const char *qb_nearest(const char *word, const char *const *names) {
    const char *nearest = NULL;
    size_t n = strlen(word);
    int best = (n < 3 ? 1 : n < 9 ? 2 : 3) + 1; /* more edits than that are another word */
    for (const char *const *name = names; *name; name++) {
        int distance = edit_distance(word, *name);
        if (distance >= (int)strlen(*name)) continue; /* nothing of the name would be left */
        if (distance < best) {
            best = distance;
            nearest = *name;
        }
    }
    return nearest || n < 3 ? nearest : only_completion(word, names);
}

/* How far a name is from a word; names that hold it, or are held by it, come before others. -1: it
 * is another word. */
static int remoteness(const char *word, const char *name) {
    const size_t n = strlen(word), m = strlen(name);
    if (n >= 3 && (strcasestr(name, word) || (m >= 3 && strcasestr(word, name))))
        return n < m ? 0 : 1;
    const int distance = edit_distance(word, name), most = 2 + (int)(n < 300 ? n / 4 : 75);
    return distance > most || distance >= (int)m ? -1 : 1 + distance;
}

int32_t qb_nearest_few(const char *word, const char *const *names, const char **out, int32_t most) {
    int rank[QB_NEAREST_MAX];
    int32_t n = 0;
    if (most > QB_NEAREST_MAX) most = QB_NEAREST_MAX;
    for (; *names; names++) {
        const int r = remoteness(word, *names);
        int32_t at = n;
        if (r < 0) continue;
        while (at > 0 && rank[at - 1] > r) at--;
        if (at == most) continue;
        if (n < most) n++;
        for (int32_t i = n - 1; i > at; i--) {
            rank[i] = rank[i - 1];
            out[i] = out[i - 1];
        }
        rank[at] = r;
        out[at] = *names;
    }
    return n;
}

/* ---- parsing ---- */

static const qb_opt *find_name(const qb_opt *table, const char *name, size_t n) {
    for (; table->name; table++)
        if (strncmp(table->name, name, n) == 0 && table->name[n] == '\0') return table;
    return NULL;
}

static const qb_opt *find_letter(const qb_opt *table, char letter) {
    for (; table->name; table++)
        if (table->letter && table->letter == letter) return table;
    return NULL;
}

static qb_status unknown_option(const parser *ps, const char *name, size_t n) {
    size_t count = 0;
    while (ps->table[count].name) count++;
    const char **names = QB_NEW(ps->cx, qb_alloc(ps->cx, count + 1, sizeof *names));
    for (size_t i = 0; i < count; i++) names[i] = ps->table[i].name;
    char word[WORD_MAX];
    snprintf(word, sizeof word, "%.*s", (int)(n < WORD_MAX ? n : WORD_MAX - 1), name);
    const char *nearest = qb_nearest(word, names);
    qb_free(names);
    if (nearest)
        return qb_fail(ps->cx, QB_STATUS_USAGE, "unknown option --%.*s; did you mean --%s?", (int)n,
                       name, nearest);
    return qb_fail(ps->cx, QB_STATUS_USAGE, "unknown option --%.*s", (int)n, name);
}

static qb_status check_bounds(const parser *ps, const qb_opt *opt, const char *text, double value) {
    if (opt->min == 0 && opt->max == 0) return QB_OK;
    if (value >= opt->min && value <= opt->max) return QB_OK;
    if (isinf(opt->max))
        return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%s: expected at least %.12g, got %s",
                       opt->name, opt->min, text);
    return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%s: expected %.12g to %.12g, got %s",
                   opt->name, opt->min, opt->max, text);
}

static qb_status set_int(const parser *ps, const qb_opt *opt, const char *text) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end)
        return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%s: expected an integer, got '%s'",
                       opt->name, text);
    if (errno == ERANGE)
        return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%s: %s does not fit 64 bits", opt->name,
                       text);
    QB_TRY(check_bounds(ps, opt, text, (double)value));
    int64_t field = value;
    memcpy(ps->options + opt->offset, &field, sizeof field);
    return QB_OK;
}

static qb_status set_double(const parser *ps, const qb_opt *opt, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%s: expected a finite number, got '%s'",
                       opt->name, text);
    QB_TRY(check_bounds(ps, opt, text, value));
    memcpy(ps->options + opt->offset, &value, sizeof value);
    return QB_OK;
}

static qb_status list_add(const parser *ps, qb_opt_list *list, const char *what,
                          const char *value) {
    if (list->n >= QB_OPT_LIST_MAX)
        return qb_fail(ps->cx, QB_STATUS_USAGE, "%s: at most %d values are accepted", what,
                       QB_OPT_LIST_MAX);
    list->item[list->n++] = value;
    return QB_OK;
}

/* One text holds the whole list: a second would replace the first in silence. */
static qb_status check_whole(const parser *ps, const qb_opt *opt, const char *text) {
    const char *what = opt->argument ? opt->argument : "", *before;
    const size_t n = strlen(what);
    if (strcmp(what, "LIST") != 0 && (n < 4 || strcmp(what + n - 4, ",...") != 0)) return QB_OK;
    memcpy(&before, ps->options + opt->offset, sizeof before);
    for (int i = 1; before && i < ps->argc; i++) { /* a default lies elsewhere */
        const bool given = before >= ps->argv[i] && before <= ps->argv[i] + strlen(ps->argv[i]);
        if (given && strcmp(before, text) != 0)
            return qb_fail(ps->cx, QB_STATUS_USAGE,
                           "option --%s: '%s' would replace '%s': give one list, with a comma "
                           "between them",
                           opt->name, text, before);
    }
    return QB_OK;
}

static const char *argument_of(const qb_opt *opt) {
    return opt->argument ? opt->argument : "VALUE";
}

static qb_status set_value(const parser *ps, const qb_opt *opt, const char *text) {
    const bool is_text = opt->type == QB_OPT_STRING || opt->type == QB_OPT_LIST;
    if (is_text && !*text && !opt->or_none)
        return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%s: expected %s, got ''", opt->name,
                       argument_of(opt));
    if (opt->type == QB_OPT_STRING) QB_TRY(check_whole(ps, opt, text));
    switch (opt->type) {
    case QB_OPT_INT: QB_TRY(set_int(ps, opt, text)); break;
    case QB_OPT_DOUBLE: QB_TRY(set_double(ps, opt, text)); break;
    case QB_OPT_STRING: memcpy(ps->options + opt->offset, &text, sizeof text); break;
    case QB_OPT_LIST: {
        qb_opt_list *list = (qb_opt_list *)(void *)(ps->options + opt->offset);
        QB_TRY(list_add(ps, list, opt->name, text));
        break;
    }
    case QB_OPT_NAMED: {
        qb_opt_list *list = (qb_opt_list *)(void *)(ps->options + opt->offset);
        QB_TRY(list_add(ps, list, opt->name, opt->name));
        QB_TRY(list_add(ps, list, opt->name, text));
        break;
    }
    case QB_OPT_FLAG: break; /* takes no value, set by set_flag */
    }
    if (opt->given_offset) *(bool *)(ps->options + opt->given_offset) = true;
    return QB_OK;
}

static void set_flag(const parser *ps, const qb_opt *opt, bool value) {
    *(bool *)(ps->options + opt->offset) = value;
    if (opt->given_offset) *(bool *)(ps->options + opt->given_offset) = true;
}

static bool is_option(const parser *ps, const char *word) {
    if (strncmp(word, "--", 2) != 0 || !word[2]) return false;
    const size_t n = strcspn(word + 2, "=");
    return find_name(ps->table, word + 2, n) || (ps->also && find_name(ps->also, word + 2, n));
}

/* The next argument as the value of `opt`. The end or another option there means that the value was
 * forgotten, or left out where the second table has a row of that name for this. */
static qb_status take_value(parser *ps, const qb_opt *opt) {
    const char *expected = argument_of(opt),
               *value = ps->at + 1 < ps->argc ? ps->argv[ps->at + 1] : NULL;
    if (!value || is_option(ps, value)) {
        const qb_opt *bare = ps->also ? find_name(ps->also, opt->name, strlen(opt->name)) : NULL;
        if (bare && bare != opt) return set_value(ps, bare, "");
    }
    if (!value)
        return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%s: expected %s, got the end", opt->name,
                       expected);
    if (is_option(ps, value))
        return qb_fail(ps->cx, QB_STATUS_USAGE,
                       "option --%s: expected %s, got the option %s (write --%s=%s if meant)",
                       opt->name, expected, value, opt->name, value);
    ps->at++;
    return set_value(ps, opt, value);
}

static qb_status parse_long(parser *ps, const char *name) {
    size_t n = strcspn(name, "=");
    const char *value = name[n] == '=' ? name + n + 1 : NULL;
    const qb_opt *opt = find_name(ps->table, name, n);
    bool on = true;
    if (!opt && ps->also) opt = find_name(ps->also, name, n);
    if (!opt && n > 3 && strncmp(name, "no-", 3) == 0) {
        opt = find_name(ps->table, name + 3, n - 3);
        if (opt && opt->type != QB_OPT_FLAG) opt = NULL;
        on = false;
    }
    if (!opt) return unknown_option(ps, name, n);
    if (opt->type == QB_OPT_FLAG) {
        if (value)
            return qb_fail(ps->cx, QB_STATUS_USAGE, "option --%.*s: expected no value, got '%s'",
                           (int)n, name, value);
        set_flag(ps, opt, on);
        return QB_OK;
    }
    if (!value && opt->type == QB_OPT_NAMED && !opt->argument) value = "";
    return value ? set_value(ps, opt, value) : take_value(ps, opt);
}

/* -q, -n 5, -n5, and flags in one word: -qv. */
static qb_status parse_short(parser *ps, const char *letters) {
    for (; *letters; letters++) {
        const qb_opt *opt = find_letter(ps->table, *letters);
        if (!opt) return qb_fail(ps->cx, QB_STATUS_USAGE, "unknown option -%c", *letters);
        if (opt->type != QB_OPT_FLAG)
            return letters[1] ? set_value(ps, opt, letters + 1) : take_value(ps, opt);
        set_flag(ps, opt, true);
    }
    return QB_OK;
}

qb_status qb_opt_parse(qb_ctx *cx, const qb_opt *table, const qb_opt *also, int argc, char **argv,
                       void *options, qb_opt_list *rest) {
    parser ps = {cx, table, also, argc, 1, argv, options, rest};
    bool only_positional = false;
    for (; ps.at < argc; ps.at++) {
        const char *word = argv[ps.at];
        if (only_positional || word[0] != '-' || word[1] == '\0') {
            if (!rest) return qb_fail(cx, QB_STATUS_USAGE, "unexpected argument '%s'", word);
            if (!*word) return qb_fail(cx, QB_STATUS_USAGE, "argument %d is empty", rest->n + 1);
            QB_TRY(list_add(&ps, rest, "arguments", word));
        } else if (strcmp(word, "--") == 0) {
            only_positional = true;
        } else if (word[1] == '-') {
            QB_TRY(parse_long(&ps, word + 2));
        } else {
            QB_TRY(parse_short(&ps, word + 1));
        }
    }
    return QB_OK;
}

static size_t field_size(qb_opt_type type) {
    switch (type) {
    case QB_OPT_FLAG: return sizeof(bool);
    case QB_OPT_INT: return sizeof(int64_t);
    case QB_OPT_DOUBLE: return sizeof(double);
    case QB_OPT_STRING: return sizeof(const char *);
    case QB_OPT_LIST:
    case QB_OPT_NAMED: break;
    }
    return sizeof(qb_opt_list);
}

bool qb_opt_differs(const qb_opt *opt, const void *options, const void *defaults) {
    return memcmp((const char *)options + opt->offset, (const char *)defaults + opt->offset,
                  field_size(opt->type)) != 0;
}

/* ---- help ---- */

static void wrap_text(FILE *stream, const char *text, int column) {
    int at = column;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + word > HELP_WIDTH) {
            fprintf(stream, "\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        } else if (at > HELP_COLUMN) {
            fputc(' ', stream);
            at++;
        }
        fprintf(stream, "%.*s", word, text);
        at += word;
        text += word;
        while (*text == ' ') text++;
    }
    fputc('\n', stream);
}

void qb_opt_help(FILE *stream, const qb_opt *table) {
    for (; table->name; table++) {
        const char *argument = table->type == QB_OPT_FLAG ? NULL : argument_of(table);
        int at =
            table->letter ? fprintf(stream, "  -%c, ", table->letter) : fprintf(stream, "      ");
        at +=
            fprintf(stream, "--%s%s%s", table->name, argument ? " " : "", argument ? argument : "");
        if (at + 2 > HELP_COLUMN) {
            fputc('\n', stream);
            at = 0;
        }
        fprintf(stream, "%*s", HELP_COLUMN - at, "");
        wrap_text(stream, table->help ? table->help : "", HELP_COLUMN);
    }
}
