/* A complete run record for the tests of eval. */
#ifndef QB_RUN_FIXTURE_H
#define QB_RUN_FIXTURE_H

#include "eval/run.h"

/* Two rows, fp32 and int8, with every field filled. */
qb_run *run_fixture(qb_ctx *cx);

#endif
