/* Statistics gathered on a device while an engine runs batch after batch there: each observed value
 * is looked at where it was written, and only the extremes of the items come back. The host fills
 * one of two sets of page-locked inputs while the device works on the other.
 *
 * One thread uses a collector at a time, and another may go on with it. */
#ifndef QB_ENGINE_COLLECT_H
#define QB_ENGINE_COLLECT_H

#include "engine/engine.h"
#include "kernels/stats.h"

typedef struct qb_collector qb_collector;

/* One of the two sets. */
typedef struct qb_collector_slot {
    void **input;             /* page-locked, one an engine input, for a whole batch */
    int64_t n_items;          /* of the run that it held last; 0: none yet */
    const uint32_t *extremes; /* of that run; see qb_collector_extremes */
} qb_collector_slot;

/* For an engine of a device that was built observable; it must live as long. UNSUPPORTED, naming
 * the step, where not all of it runs on the device. */
qb_status qb_collector_create(qb_ctx *cx, const qb_engine *engine, qb_collector **out);
void qb_collector_free(qb_collector *collector); /* accepts NULL */

/* The slot to be filled next, after its last run has ended; the extremes of that run are there
 * until it starts again. */
qb_status qb_collector_swap(qb_ctx *cx, qb_collector *collector, qb_collector_slot **out);
/* Starts the slot of the last turn with what lies in its first n_items, and does not wait. */
qb_status qb_collector_start(qb_ctx *cx, qb_collector *collector, int64_t n_items);
/* Waits for all that was started. */
qb_status qb_collector_wait(qb_ctx *cx, qb_collector *collector);

/* Values whose statistics are gathered: those of floats. */
int32_t qb_collector_count(const qb_collector *collector);
const char *qb_collector_name(const qb_collector *collector, int32_t value);
/* Least and greatest finite value of an item of the slot's last run; +inf and -inf: none. */
void qb_collector_extremes(const qb_collector *collector, const qb_collector_slot *slot,
                           int32_t value, int64_t item, float *low, float *high);
/* Adds to *into what was gathered of a value and begins anew. Nothing may be under way. */
qb_status qb_collector_take(qb_ctx *cx, qb_collector *collector, int32_t value, qb_stats *into);
#endif
