/* Working memory of operators that are run again and again.
 *
 * Between open and close, what this thread takes comes from there as far as it has room, and
 * from the allocator beyond that; close makes room for as much as was taken. So a run allocates
 * nothing once it has gone through its operators. Without an open one, take and give are
 * qb_alloc and qb_free. */
#ifndef QB_BASE_TEMP_H
#define QB_BASE_TEMP_H

#include "base/ctx.h"

typedef struct qb_temp { /* zero at first */
    char *memory;
    size_t size, used, wanted; /* bytes; wanted: taken since open, wherever from */
} qb_temp;

/* One at a time on a thread. */
void qb_temp_open(qb_temp *temp);
/* All that was taken has been given back. Fails when there is no memory to grow. */
qb_status qb_temp_close(qb_ctx *cx, qb_temp *temp);
void qb_temp_free(qb_temp *temp);

/* Zeroed memory for n elements of `size` bytes, aligned to 64 bytes; NULL with an error recorded.
 * Given back on the thread that took it, before it is closed; NULL may be given. */
void *qb_temp_take(qb_ctx *cx, size_t n, size_t size);
void qb_temp_give(void *memory);
void qb_temp_give_at(const void *address); /* of the pointer, for QB_RELEASED */
#endif
