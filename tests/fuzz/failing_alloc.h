/* Memory that runs out while a fuzz target runs. The linker puts these in place of the C library's
 * functions in all that is linked statically (--wrap), under sanitizers as well; what shared
 * libraries allocate is counted where they let us (jansson, but for its parser).
 * cli/failing_malloc.sh has the others.
 */
#ifndef QB_TEST_FAILING_ALLOC_H
#define QB_TEST_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qb_failing {
    long made;  /* allocations that were asked for */
    long kept;  /* more blocks than before: what is not given back */
    bool ended; /* the target's own checks, which know no such failures, ended it */
} qb_failing;

/* Runs the target with its allocation of number `fail_at` failing; 0: none does. */
qb_failing qb_failing_run(const uint8_t *data, size_t size, long fail_at);

#endif
