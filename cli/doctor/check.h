/* What `qbench doctor` looks at: one row in checks.def and one file in checks/ each. */
#ifndef QB_CLI_DOCTOR_CHECK_H
#define QB_CLI_DOCTOR_CHECK_H

#include "cli/out/diagnosis.h"

typedef struct qb_check {
    const char *name;
    /* Looks; fails only when it runs out of memory. */
    qb_status (*look)(qb_ctx *cx, qb_finding *out);
} qb_check;

#endif
