#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at `s` (Unicode 15, table 3-7) and its number; 0 when it is none. */
static size_t decode(const unsigned char *s, uint32_t *number) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    *number = s[0];
    if (s[0] < 0x80) return 1;
    const size_t n = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    *number &= 0x7fu >> n;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        *number = *number << 6 | (s[i] & 0x3fu);
    }
    const bool valid =
        *number >= least[n] && *number <= 0x10ffff && (*number < 0xd800 || *number > 0xdfff);
    return valid ? n : 0;
}

/* Characters that rule how others are shown, or that are not seen: first and last of each range. */
static bool is_hidden(uint32_t number) {
    static const uint32_t ranges[][2] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},   {0x180e, 0x180e},
        {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f}, {0xfeff, 0xfeff},
        {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (number >= ranges[i][0] && number <= ranges[i][1]) return true;
    return false;
}

size_t qb_text_character(const char *text) {
    uint32_t number;
    const size_t n = decode((const unsigned char *)text, &number);
    return n > 0 && !is_hidden(number) ? n : 0;
}

bool qb_text_is_clean(const char *text) {
    while (*text) {
        const size_t n = qb_text_character(text);
        if (n == 0) return false;
        text += n;
    }
    return true;
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum { ESCAPE = 4 }; /* "\xHH" */

static bool is_escape(const char *text) {
    return text[0] == '\\' && text[1] == 'x' && digit(text[2]) >= 0 && digit(text[3]) >= 0;
}

size_t qb_text_clean_size(const char *text) { return ESCAPE * strlen(text) + 1; }

size_t qb_text_clean_to(const char *text, bool undoable, char *out, size_t size) {
    size_t at = 0;
    while (*text) {
        const size_t n = qb_text_character(text);
        const bool escaped = n == 0 || (undoable && is_escape(text));
        const size_t length = escaped ? ESCAPE : n;
        if (at + length >= size) break;
        if (escaped)
            snprintf(out + at, ESCAPE + 1, "\\x%02x", (unsigned)(unsigned char)*text);
        else
            memcpy(out + at, text, n);
        text += escaped ? 1 : n;
        at += length;
    }
    out[at] = '\0';
    return at;
}

char *qb_text_clean(qb_ctx *cx, const char *text) {
    if (qb_text_is_clean(text)) return qb_strdup(cx, text);
    const size_t size = qb_text_clean_size(text);
    char *out = qb_alloc(cx, size, 1);
    if (out) qb_text_clean_to(text, false, out, size);
    return out;
}

const char *qb_text_shown(const char *text, char *out, size_t size) {
    if (qb_text_is_clean(text)) return text;
    qb_text_clean_to(text, false, out, size);
    return out;
}

/* A line break of a list, behind which no command to a build server can stand ("::error"). */
static bool is_break(const char *text) {
    static const char advice[] = "\n'qbench ";
    if (strncmp(text, advice, sizeof advice - 1) == 0) return true;
    return text[0] == '\n' && text[1] == ' ' && text[2] == ' ' && text[3] > ' ' && text[3] != ':';
}

void qb_text_clean_message(char *text, size_t size) {
    while (*text) {
        const size_t n = is_break(text) ? 1 : qb_text_character(text);
        if (n == 0) {
            char escape[ESCAPE + 1];
            const size_t rest = strlen(text + 1);
            if (rest + ESCAPE >= size) { /* no room: it ends here */
                *text = '\0';
                return;
            }
            snprintf(escape, sizeof escape, "\\x%02x", (unsigned)(unsigned char)*text);
            memmove(text + ESCAPE, text + 1, rest + 1);
            memcpy(text, escape, ESCAPE);
        }
        text += n ? n : ESCAPE;
        size -= n ? n : ESCAPE;
    }
}

void qb_text_restore(char *text) {
    char *to = text;
    while (*text)
        if (is_escape(text)) {
            *to++ = (char)(digit(text[2]) << 4 | digit(text[3]));
            text += ESCAPE;
        } else {
            *to++ = *text++;
        }
    *to = '\0';
}
