/* Gathering statistics on devices: samples of one shape run there together, while the next ones are
 * decoded. Observers look at each sample by itself, and only samples that cannot influence each
 * other share a batch, so the result is that of samples which run alone, on any of the devices. */
#ifndef QB_CALIB_COLLECT_H
#define QB_CALIB_COLLECT_H

#include "calib/gather.h"
#include "engine/devices.h"

#define QB_COLLECT_BATCH 64 /* samples that run together; fewer where memory is short */
#define QB_COLLECT_SHAPES 4 /* combinations of input shapes whose engines are kept */

typedef struct qb_collect_options {
    const qb_graph *graph;
    qb_build_spec spec; /* its backends begin with a device */
    qb_devices devices; /* one thread each, which are the gather's first workers */
    const qb_loader_options *loader;
    const char *label; /* of the progress bar */
    /* Is this sample (by its index in the data set) left out? */
    bool (*leaves_out)(void *user, int64_t index);
    qb_pause_fn pause; /* as in qb_stream_options, after all is in the gather; may be NULL */
    double pause_s;
    void *user;
} qb_collect_options;

/* Streams the data set through devices into `gather`. UNSUPPORTED with *begun false: nothing has
 * happened, and this model's values can only be observed on the host. */
qb_status qb_collect(qb_ctx *cx, const qb_collect_options *options, qb_gather *gather, bool *begun,
                     qb_stream_result *out);
#endif
