/* Files of several callers in one batch, without a thread of its own: whoever comes and finds a
 * lane free decodes all that wait in it, his own among them. While lanes are busy the next batch
 * grows. */
#include "datasets/decoder.h"

#include <pthread.h>
#include <string.h>

#include "datasets_internal.h"

#define LANES 2 /* pixels of one batch come back while the next one is decoded */

typedef struct lane {
    void *own;
    int32_t users; /* who decodes in it, or has not fetched his pixels yet */
} lane;

typedef struct request {
    qb_jpeg_job job;
    qb_ctx *cx; /* the caller's */
    lane *lane; /* that it was decoded in */
    bool taken, done;
    qb_status status;
    struct request *next;
} request;

struct qb_decoder {
    const qb_jpeg_batch_api *api;
    lane lane[LANES];
    pthread_mutex_t lock; /* guards what follows and the lanes' users */
    pthread_cond_t news;
    request *first, **last; /* who waits, in order */
};

qb_status qb_decoder_find(qb_ctx *cx, const char *name, const qb_jpeg_batch_api **out) {
    *out = NULL;
    if (strcmp(name, "cpu") == 0) return QB_OK;
    if (strcmp(name, "nvjpeg") != 0)
        return qb_fail(cx, QB_STATUS_USAGE, "decoder '%s': expected cpu or nvjpeg", name);
#ifdef QB_HAVE_CUDA
    *out = &qb_nvjpeg_api;
    return QB_OK;
#else
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "decoder nvjpeg: this qbench was built without CUDA");
#endif
}

qb_status qb_decoder_open(qb_ctx *cx, const qb_jpeg_batch_api *api, int32_t device,
                          qb_decoder **out) {
    qb_decoder *d = QB_NEW(cx, qb_alloc(cx, 1, sizeof *d));
    d->api = api;
    d->last = &d->first;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->news, NULL);
    qb_status status = QB_OK;
    for (int32_t i = 0; i < LANES && status == QB_OK; i++)
        status = api->open(cx, device, &d->lane[i].own);
    if (status == QB_OK) {
        *out = d;
        return QB_OK;
    }
    qb_decoder_close(d);
    return qb_wrap(cx, "decoder %s", api->name);
}

void qb_decoder_close(qb_decoder *d) {
    if (!d) return;
    for (int32_t i = 0; i < LANES; i++) d->api->close(d->lane[i].own);
    pthread_cond_destroy(&d->news);
    pthread_mutex_destroy(&d->lock);
    qb_free(d);
}

const char *qb_decoder_name(const qb_decoder *d) { return d ? d->api->name : "cpu"; }

/* ---- called with the lock held ---- */

static lane *free_lane(qb_decoder *d) {
    for (int32_t i = 0; i < LANES; i++)
        if (d->lane[i].users == 0) return &d->lane[i];
    return NULL;
}

static size_t pixel_bytes(const qb_jpeg_job *job) {
    const size_t bytes = (size_t)job->width * (size_t)job->height * 3;
    return bytes + QB_JPEG_ALIGNMENT;
}

/* The first that wait, as many as fit. */
static int32_t take_batch(qb_decoder *d, request **batch) {
    int32_t n = 0;
    size_t bytes = 0;
    while (d->first && n < QB_JPEG_BATCH) {
        bytes += pixel_bytes(&d->first->job);
        if (bytes > QB_JPEG_BATCH_BYTES) break;
        batch[n] = d->first;
        batch[n++]->taken = true;
        d->first = d->first->next;
    }
    if (!d->first) d->last = &d->first;
    return n;
}

/* Decodes a batch in a free lane; the lock is open meanwhile. */
static void lead(qb_decoder *d, lane *l) {
    request *batch[QB_JPEG_BATCH];
    qb_jpeg_job job[QB_JPEG_BATCH];
    qb_ctx cx;
    const int32_t n = take_batch(d, batch);
    l->users = n;
    pthread_mutex_unlock(&d->lock);
    qb_ctx_child(batch[0]->cx, &cx);
    for (int32_t i = 0; i < n; i++) job[i] = batch[i]->job;
    const qb_status status = d->api->decode(&cx, l->own, job, n);
    pthread_mutex_lock(&d->lock);
    for (int32_t i = 0; i < n; i++) {
        batch[i]->job = job[i];
        batch[i]->lane = l;
        batch[i]->status = status;
        batch[i]->done = true;
        if (status != QB_OK) qb_ctx_take(batch[i]->cx, &cx);
    }
    pthread_cond_broadcast(&d->news);
}

/* ---- */

/* Waits until the request is done, or does it. */
static void join(qb_decoder *d, request *r) {
    pthread_mutex_lock(&d->lock);
    *d->last = r;
    d->last = &r->next;
    while (!r->done) {
        lane *l = r->taken ? NULL : free_lane(d);
        if (l)
            lead(d, l);
        else
            pthread_cond_wait(&d->news, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
}

static void leave(qb_decoder *d, const request *r) {
    pthread_mutex_lock(&d->lock);
    if (--r->lane->users == 0) pthread_cond_broadcast(&d->news);
    pthread_mutex_unlock(&d->lock);
}

/* *done is false for a file that the device does not take. */
static qb_status decode_there(qb_ctx *cx, qb_decoder *d, const char *name, const uint8_t *data,
                              size_t size, qb_image *out, bool *done) {
    request r = {.cx = cx};
    qb_image image;
    *done = false;
    if (!qb_jpeg_plain(data, size, &r.job) || pixel_bytes(&r.job) > QB_JPEG_BATCH_BYTES)
        return QB_OK;
    QB_TRY(qb_image_create(cx, name, r.job.width, r.job.height, 3, &image));
    join(d, &r);
    *done = r.status == QB_OK && r.job.pixel;
    if (*done)
        memcpy(image.pixel, r.job.pixel,
               (size_t)image.width * (size_t)image.height * (size_t)image.channels);
    leave(d, &r);
    if (*done)
        *out = image;
    else
        qb_image_release(&image);
    return r.status == QB_OK ? QB_OK : qb_wrap(cx, "%s: decoder %s", name, d->api->name);
}

qb_status qb_decoder_decode(qb_ctx *cx, qb_decoder *d, const char *name, const uint8_t *data,
                            size_t size, qb_image *out) {
    bool done = false;
    if (d) QB_TRY(decode_there(cx, d, name, data, size, out, &done));
    return done ? QB_OK : qb_image_decode(cx, name, data, size, out);
}
