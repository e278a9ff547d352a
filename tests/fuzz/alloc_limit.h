/* A limit on the memory that a stretch of a fuzz target may ask for: an attacker's file must not
 * make a reader take much more than the file itself has. Counted where an address sanitizer is
 * linked in, without effect elsewhere. */
#ifndef QB_TEST_ALLOC_LIMIT_H
#define QB_TEST_ALLOC_LIMIT_H

#include <stddef.h>

/* From now on one allocation may have `single` bytes, and all that are alive `total`: more aborts
 * with a message. */
void qb_alloc_limit_begin(size_t single, size_t total);
void qb_alloc_limit_end(void);
/* The most that was alive at once since the last begin. */
size_t qb_alloc_limit_peak(void);

#endif
