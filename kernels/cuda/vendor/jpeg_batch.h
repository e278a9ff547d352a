/* Decoders that take JPEG files in batches: those of a device. */
#ifndef QB_CUDA_JPEG_BATCH_H
#define QB_CUDA_JPEG_BATCH_H

#include <stdint.h>

#include "base/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_JPEG_BATCH 32 /* files that are decoded together at most ... */
#define QB_JPEG_BATCH_BYTES                                                                        \
    ((size_t)64 << 20)                  /* ... and bytes of their pixels, each file's from ... */
#define QB_JPEG_ALIGNMENT ((size_t)256) /* ... a multiple of this on */

typedef struct qb_jpeg_job {
    const uint8_t *data; /* the file */
    size_t size;
    int32_t width, height; /* as its header says */
    const uint8_t *pixel;  /* out: interleaved RGB in memory of the host that is the lane's, until
                              its next batch; NULL: the device does not take the file */
} qb_jpeg_job;

/* Lanes are independent of each other; one thread at a time uses one. */
typedef struct qb_jpeg_batch_api {
    const char *name;
    /* Fails with one line where the device or its library is not there (QB_STATUS_UNSUPPORTED). */
    qb_status (*open)(qb_ctx *cx, int32_t device, void **lane);
    void (*close)(void *lane); /* accepts NULL */
    /* Decodes 1 to QB_JPEG_BATCH files. The pixels of a file are the same whatever else is in the
     * batch, and so is the verdict that the device does not take it. Fails only when the device
     * itself does. */
    qb_status (*decode)(qb_ctx *cx, void *lane, qb_jpeg_job *job, int32_t n);
} qb_jpeg_batch_api;

/* The JPEG engines of NVIDIA's GPUs through nvJPEG. Only in builds with CUDA. */
extern const qb_jpeg_batch_api qb_nvjpeg_api;

#ifdef __cplusplus
}
#endif
#endif
