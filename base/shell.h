/* Command lines as a shell reads them: people copy the commands that messages and files hold, and
 * whoever made a file chose the names in it. */
#ifndef QB_BASE_SHELL_H
#define QB_BASE_SHELL_H

#include "strbuf.h"

/* Appends the text as one word, in single quotes unless a shell takes it as it is. */
void qb_shell_add_word(qb_strbuf *out, const char *text);
/* Is it words, some in single quotes, and nothing that a shell would do more with? */
bool qb_shell_is_words(const char *text);
#endif
