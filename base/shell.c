#include "shell.h"

#include <string.h>

/* What a shell takes as a word, or as words apart, by itself. */
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+:./=@,"

void qb_shell_add_word(qb_strbuf *out, const char *text) {
    const bool plain = text[0] != '\0' && text[strspn(text, PLAIN)] == '\0';
    if (!plain) qb_strbuf_add(out, "'");
    for (const char *c = text; *c; c++)
        if (*c == '\'')
            qb_strbuf_add(out, "'\\''");
        else
            qb_strbuf_addn(out, c, 1);
    if (!plain) qb_strbuf_add(out, "'");
}

bool qb_shell_is_words(const char *text) {
    bool quoted = false;
    for (const char *c = text; *c; c++)
        if (*c == '\'')
            quoted = !quoted;
        else if (!quoted && c[0] == '\\' && c[1] == '\'')
            c++;
        else if (!quoted && !strchr(PLAIN " ", *c))
            return false;
    return !quoted;
}
