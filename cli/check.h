/* What `qbench doctor` looks at: one row in checks.def and one file in checks/ each. */
#ifndef QB_CLI_CHECK_H
#define QB_CLI_CHECK_H

#include "base/ctx.h"

typedef enum qb_finding_kind {
    QB_FINDING_GOOD,
    QB_FINDING_NOTE, /* works, but slower or with less than there could be */
    QB_FINDING_BAD   /* something will fail */
} qb_finding_kind;

typedef struct qb_finding {
    qb_finding_kind kind;
    char *text;   /* what was found; new memory */
    char *remedy; /* what to do about a NOTE or BAD; NULL: nothing; new memory */
} qb_finding;

typedef struct qb_check {
    const char *name;
    /* Looks; fails only when it runs out of memory. */
    qb_status (*look)(qb_ctx *cx, qb_finding *out);
} qb_check;

/* One finding from formatted text; `remedy` may be NULL. */
qb_status qb_found(qb_ctx *cx, qb_finding *out, qb_finding_kind kind, const char *remedy,
                   const char *fmt, ...) QB_PRINTF(5, 6);

#endif
