/* Timing a kernel on a device. */
#ifndef QB_ENGINE_DEVICE_CHOOSE_INTERNAL_H
#define QB_ENGINE_DEVICE_CHOOSE_INTERNAL_H

#include "engine/device_internal.h"
#include "engine/timings.h"

/* Memory, a stream and events for measuring. */
typedef struct qb_scratch qb_scratch;
qb_status qb_scratch_create(qb_ctx *cx, const qb_device_api *device, qb_scratch **out);
void qb_scratch_free(qb_scratch *scratch); /* accepts NULL */
QB_RELEASE_AT(qb_scratch, qb_scratch_free)
/* Seconds of one launch among others in a recorded graph, on random data and with the problem's
 * constants; of one launch alone where that is hopeless against `best`. */
qb_status qb_scratch_time(qb_ctx *cx, qb_scratch *scratch, const qb_kernel *kernel,
                          const void *const *constants, double best, double *seconds);

#endif
