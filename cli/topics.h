/* Help on things that are no command: 'qbench help exit-codes'. */
#ifndef QB_CLI_TOPICS_H
#define QB_CLI_TOPICS_H

#include "base/strbuf.h"

typedef struct qb_topic {
    const char *name, *summary;
    const char *text; /* lines of at most 80 columns, the last one ends with a newline */
    /* A list that ends the text: name and one line of row i, NULL past the last one. NULL: none. */
    const char *(*row)(int i, const char **text);
} qb_topic;

/* All topics; the last row's name is NULL. */
extern const qb_topic qb_topics[];

/* NULL when there is none of this name. */
const qb_topic *qb_topic_find(const char *name);
/* The text and the list, in lines of at most 80 columns. */
void qb_topic_put(const qb_topic *topic, qb_strbuf *out);

#endif
