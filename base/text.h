/* Names that come from files: of models, tensors, nodes, classes, files, engines.
 *
 * They are any bytes, and whoever made the file chose them: a line break forges a line of a table,
 * an escape sequence rules a terminal, a change of direction (U+202E) makes a name look like
 * another. So they are made clean where they are read, and everything behind works with clean
 * names: such bytes stand there as "\xHH". What was made clean can be undone, for files that other
 * programs read. */
#ifndef QB_BASE_TEXT_H
#define QB_BASE_TEXT_H

#include "ctx.h"

/* Clean: valid UTF-8 without control characters (line breaks and tabs are some), separators of
 * lines and paragraphs, marks of direction and characters without a shape. */
bool qb_text_is_clean(const char *text);
/* Bytes of the clean character at `text`; 0 when it is none. */
size_t qb_text_character(const char *text);
/* Most bytes that the clean form of a text has, with its zero. */
size_t qb_text_clean_size(const char *text);
/* Writes the clean form, at most `size` bytes with its zero; a text that does not fit is cut
 * between two characters. With `undoable` what reads as "\xHH" already is made different from what
 * was made so: its backslash becomes "\x5c". Returns the length. */
size_t qb_text_clean_to(const char *text, bool undoable, char *out, size_t size);
/* The clean form as new memory. */
char *qb_text_clean(qb_ctx *cx, const char *text);
/* The text itself where it is clean, else its clean form in `out`. */
const char *qb_text_shown(const char *text, char *out, size_t size);
/* The same within an expression: printf("wrote %s\n", QB_SHOWN(path)). */
#define QB_SHOWN_MAX 4096
#define QB_SHOWN(TEXT) qb_text_shown(TEXT, (char[QB_SHOWN_MAX]){0}, QB_SHOWN_MAX)
/* Makes a message clean, in place, which takes `size` bytes: of its line breaks stay those that two
 * spaces or the name of a command of ours follow, as our own lists have them. */
void qb_text_clean_message(char *text, size_t size);
/* Undoes an undoable clean form, in place. */
void qb_text_restore(char *text);
#endif
