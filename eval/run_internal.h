/* What run.c and run_check.c share. */
#ifndef QB_EVAL_RUN_INTERNAL_H
#define QB_EVAL_RUN_INTERNAL_H

#include "eval/run.h"

/* Do the numbers of a record fit each other? QB_STATUS_FORMAT with `name` (a file), row and key. */
qb_status qb_run_check(qb_ctx *cx, const char *name, const qb_run *run);

#endif
