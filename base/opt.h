/* Option tables: parsing, help, completion and man pages from one description. */
#ifndef QB_BASE_OPT_H
#define QB_BASE_OPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ctx.h"

typedef enum qb_opt_type {
    QB_OPT_FLAG,   /* bool: --name, --no-name */
    QB_OPT_INT,    /* int64_t */
    QB_OPT_DOUBLE, /* double */
    QB_OPT_STRING, /* const char *, points into argv */
    QB_OPT_LIST,   /* qb_opt_list: may be given several times; values point into argv */
    QB_OPT_NAMED   /* qb_opt_list: the option's name, then its value, each time: rows with the same
                      offset keep the order among them. Without an `argument` the value may be
                      left out ("") */
} qb_opt_type;

#define QB_OPT_LIST_MAX 4096 /* a shell pattern over a large folder fits */

typedef struct qb_opt_list {
    const char *item[QB_OPT_LIST_MAX];
    int n;
} qb_opt_list;

typedef struct qb_opt {
    const char *name; /* long name without dashes */
    char letter;      /* short name or 0 */
    qb_opt_type type;
    size_t offset;        /* of the field in the command's option struct */
    const char *argument; /* placeholder in the help, NULL for flags */
    const char *help;
    double min, max;     /* bounds of numbers; both 0: none */
    size_t given_offset; /* of a bool set when the option was given; 0: none */
    bool or_none;        /* a text may be empty: none is meant, not even the default */
} qb_opt;

/* Rows of a table: the option struct, the name, the field, what its type needs, the help, and then
 * any other members, such as .letter = 'q'. */
#define QB_FLAG(STRUCT, NAME, FIELD, ...)                                                          \
    { .name = NAME, .type = QB_OPT_FLAG, .offset = offsetof(STRUCT, FIELD), .help = __VA_ARGS__ }
#define QB_VALUE(TYPE, STRUCT, NAME, FIELD, ARGUMENT, ...)                                         \
    {                                                                                              \
        .name = NAME, .type = TYPE, .offset = offsetof(STRUCT, FIELD), .argument = ARGUMENT,       \
        .help = __VA_ARGS__                                                                        \
    }
#define QB_TEXT(...) QB_VALUE(QB_OPT_STRING, __VA_ARGS__)
#define QB_LIST(...) QB_VALUE(QB_OPT_LIST, __VA_ARGS__)
#define QB_NAMED(...) QB_VALUE(QB_OPT_NAMED, __VA_ARGS__)
#define QB_INT(STRUCT, NAME, FIELD, ARGUMENT, MIN, MAX, ...)                                       \
    QB_VALUE(QB_OPT_INT, STRUCT, NAME, FIELD, ARGUMENT, __VA_ARGS__, .min = MIN, .max = MAX)
#define QB_DOUBLE(STRUCT, NAME, FIELD, ARGUMENT, MIN, MAX, ...)                                    \
    QB_VALUE(QB_OPT_DOUBLE, STRUCT, NAME, FIELD, ARGUMENT, __VA_ARGS__, .min = MIN, .max = MAX)

/* Parses argv[1..argc) into `options` (already holding the defaults). Accepts --name value,
 * --name=value, -n value, -nvalue, "--" and mixed positional arguments, which are gathered in
 * `rest`; with `rest` NULL the command takes none. Empty texts and arguments are refused: mostly a
 * shell's variable that is not set. A text whose `argument` is LIST or ends in ",..." is given
 * once. "-" alone is positional, letters of flags may be bundled (-qv). The table ends with a row
 * whose name is NULL. Every error is QB_STATUS_USAGE and says what was expected; an unknown option
 * names the nearest known one. `also` (NULL: none) is a second table of options that are taken, but
 * that no help lists. A QB_OPT_NAMED row there with the name of an option of the first is what that
 * option means without its value. */
qb_status qb_opt_parse(qb_ctx *cx, const qb_opt *table, const qb_opt *also, int argc, char **argv,
                       void *options, qb_opt_list *rest);
/* Whether an option's field holds something else than the same field of the defaults. */
bool qb_opt_differs(const qb_opt *opt, const void *options, const void *defaults);
/* Aligned help text of a table. */
void qb_opt_help(FILE *stream, const qb_opt *table);
/* The nearest of `names` (ends with NULL) by edit distance when it is plausibly a slip of the
 * fingers, else NULL. */
const char *qb_nearest(const char *word, const char *const *names);
/* Up to `most` (at most QB_NEAREST_MAX) of the names that may be meant, nearest first: those with
 * the word in them, then by edit distance. Returns how many. */
#define QB_NEAREST_MAX 16
int32_t qb_nearest_few(const char *word, const char *const *names, const char **out, int32_t most);
#endif
