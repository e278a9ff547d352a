/* What a reader of a record should know before trusting its numbers, as data: `warnings` of
 * compare.json. The gate refuses limits on what a warning touches; every form of the report repeats
 * them. One row in warnings.def each. */
#ifndef QB_EVAL_WARNINGS_H
#define QB_EVAL_WARNINGS_H

#include "base/ctx.h"
#include "eval/run.h"

/* The names of warnings.def, ended by NULL. */
const char *const *qb_warning_names(void);
/* Adds a warning of a name in warnings.def about one row (its precision; "": about the whole
 * record), unless the record has it already. The text is a sentence for people. */
qb_status qb_warning_add(qb_ctx *cx, qb_run *run, const char *name, const char *row,
                         const char *format, ...) QB_PRINTF(5, 6);
/* Adds what the record's own numbers give reason for. Reading a record does it, too. */
qb_status qb_warnings_derive(qb_ctx *cx, qb_run *run);
#endif
