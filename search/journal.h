/* What a search has measured, kept in a file line by line, so that one that was interrupted, even
 * by kill -9, goes on where it was: nothing is measured twice, and what follows from the
 * measurements is the same. The first line says what was searched; a line is one result:
 *
 *   {"schema":"qbench.search-cache/1","of":{...}}
 *   {"kind":"score","key":"...","value":{...}}
 *
 * A last line that was cut is left out. One object belongs to one thread at a time. */
#ifndef QB_SEARCH_JOURNAL_H
#define QB_SEARCH_JOURNAL_H

#include <jansson.h>

#include "base/ctx.h"

typedef struct qb_journal qb_journal;

/* `of` (reference taken) is what the results depend on. With `resume` those of the file are taken
 * over, if there is one: of another `of` it is QB_STATUS_MISMATCH, naming the first key that
 * differs. Otherwise the file begins anew. */
qb_status qb_journal_open(qb_ctx *cx, const char *path, json_t *of, bool resume, qb_journal **out);
void qb_journal_close(qb_journal *journal); /* accepts NULL */
/* How many results were taken over. */
int32_t qb_journal_taken(const qb_journal *journal);
/* A result; NULL: there is none. Lives as long as the journal. */
const json_t *qb_journal_find(const qb_journal *journal, const char *kind, const char *key);
/* Adds one (reference taken, also on failure), in the file when this returns. */
qb_status qb_journal_add(qb_ctx *cx, qb_journal *journal, const char *kind, const char *key,
                         json_t *value);
#endif
