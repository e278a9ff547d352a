/* trtexec's flags that bench knows but does not act on: cli/bench/trtexec.inc. */
#ifndef QB_CLI_BENCH_TRTEXEC_H
#define QB_CLI_BENCH_TRTEXEC_H

#include "base/opt.h"

typedef enum qb_trtexec_verdict {
    QB_TRTEXEC_HANDLED,
    QB_TRTEXEC_ACCEPTED,
    QB_TRTEXEC_REFUSED
} qb_trtexec_verdict;

typedef struct qb_trtexec_flag {
    qb_trtexec_verdict verdict;
    const char *name, *text;
} qb_trtexec_flag;

/* All flags; the last row's name is NULL. */
extern const qb_trtexec_flag qb_trtexec_flags[];

/* `given`: names and values in turn of flags that are not HANDLED (QB_OPT_NAMED). An error
 * (QB_STATUS_USAGE) for the first one that is refused; --verbose says of the others why they change
 * nothing. */
qb_status qb_trtexec_check(qb_ctx *cx, const qb_opt_list *given);

#endif
