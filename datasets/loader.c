/* Decode threads that run ahead of the consumer.
 *
 * A sample passes through a cell of a ring. Threads claim samples in order and decode them in any
 * order; only then is it known which samples are skipped. The frontier follows in order: it gives
 * each good sample the next row of the batch that is being filled, so batches have no holes and do
 * not depend on the number of threads. A placed sample is then preprocessed straight into its row,
 * by whichever thread is free; tensors need no more work and move as they are. Memory: prefetch + 1
 * batches, and the decoded samples in the ring. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"
#include "datasets_internal.h"
#include "kernels/ref.h"

typedef enum cell_state {
    CELL_FREE,
    CELL_DECODING,
    CELL_DECODED, /* or failed, see `error`: waits for the frontier */
    CELL_PLACED,  /* has a row: waits for a thread */
    CELL_PREPROCESSING
} cell_state;

typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_FULL, SLOT_HELD } slot_state;

typedef struct slot {
    slot_state state;
    int64_t sequence;   /* number of the batch */
    int32_t n;          /* rows given away */
    int32_t unfinished; /* of which not preprocessed yet */
    char *data;         /* of all rows, when they have one size */
    qb_tensor *input;   /* [batch x n_inputs]; views of `data`, else with memory of their own */
    qb_hash *hash;
    uint64_t *key;
    int64_t *index;
    int32_t *label;
    int64_t skipped; /* samples skipped before its last one */
    int64_t blank;   /* blank images among its rows */
} slot;

typedef struct cell {
    cell_state state;
    int64_t sample;
    qb_image image;
    qb_tensor *input; /* [n_inputs], of a sample of tensors */
    qb_hash hash;
    uint64_t key;
    bool blank;
    qb_ctx error; /* of decoding; code QB_OK when it went well */
    slot *slot;
    qb_tensor *row;
} cell;

typedef struct worker {
    qb_loader *loader;
    qb_ctx cx;
    pthread_t thread;
} worker;

struct qb_loader {
    qb_loader_options options;
    int64_t total;      /* samples */
    bool tensors;       /* or images */
    size_t sample_size; /* bytes of an image; 0: each has its own size, as tensors do */
    qb_dtype dtype;     /* of images */
    int32_t n_inputs;
    int32_t n_cells, n_slots, n_workers;
    cell *cells;
    slot *slots;
    worker *workers;
    qb_ctx cx; /* for warnings from the frontier */
    bool ready_made;

    pthread_mutex_t lock; /* guards everything below and the states above */
    pthread_cond_t work;  /* threads: something may be claimed or preprocessed */
    pthread_cond_t ready; /* consumers: a batch may be complete */
    int64_t claimed;      /* samples taken by threads */
    int64_t placed;       /* the frontier: samples before it have a row or were skipped */
    slot *filling;
    int64_t opened, delivered; /* batches */
    int64_t skipped, usable;
    qb_loader_progress progress; /* of what was delivered */
    qb_ctx error;                /* ends the work */
    bool broken; /* the error left a row of some batch unwritten: nothing more is delivered */
    bool stop;
};

/* Damage of one sample's data; everything else (memory, a wrong configuration) concerns all. */
static bool is_skippable(qb_status status) {
    return status == QB_STATUS_FORMAT || status == QB_STATUS_UNSUPPORTED ||
           status == QB_STATUS_NOTFOUND || status == QB_STATUS_IO;
}

/* ---- called with the lock held ---- */

static void set_error(qb_loader *l, const qb_ctx *error) {
    qb_ctx_take(&l->error, error);
    pthread_cond_broadcast(&l->ready);
}

/* False when the failure ends everything. */
static bool skip_sample(qb_loader *l, cell *c) {
    const char *name = qb_dataset_sample_name(l->options.dataset, c->sample);
    if (l->options.strict || !is_skippable(c->error.code)) {
        qb_wrap(&c->error, "sample '%s'", name);
        set_error(l, &c->error);
        return false;
    }
    qb_warn(&l->cx, "skipped sample '%s': %s", name, c->error.message);
    qb_ctx_clear(&c->error);
    l->skipped++;
    c->state = CELL_FREE;
    return true;
}

static slot *open_slot(qb_loader *l) {
    for (int32_t i = 0; i < l->n_slots; i++) {
        slot *s = &l->slots[i];
        if (s->state != SLOT_FREE) continue;
        s->state = SLOT_FILLING;
        s->sequence = l->opened++;
        s->n = s->unfinished = 0;
        s->blank = 0;
        return s;
    }
    return NULL;
}

static void place_sample(qb_loader *l, cell *c) {
    slot *s = l->filling;
    c->slot = s;
    c->row = s->input + (size_t)s->n * (size_t)l->n_inputs;
    s->index[s->n] = c->sample;
    s->label[s->n] = qb_dataset_label(l->options.dataset, c->sample);
    s->hash[s->n] = c->hash;
    s->key[s->n] = c->key;
    s->skipped = l->skipped;
    s->blank += c->blank;
    s->n++;
    l->usable++;
    if (l->tensors) {
        memcpy(c->row, c->input, (size_t)l->n_inputs * sizeof *c->input);
        memset(c->input, 0, (size_t)l->n_inputs * sizeof *c->input);
        c->state = CELL_FREE;
    } else {
        c->state = CELL_PLACED;
        s->unfinished++;
    }
    if (s->n < l->options.batch) return;
    s->state = SLOT_FULL;
    l->filling = NULL;
}

static void advance_frontier(qb_loader *l) {
    while (l->placed < l->claimed && l->error.code == QB_OK) {
        cell *c = &l->cells[l->placed % l->n_cells];
        if (c->state != CELL_DECODED) break;
        if (c->error.code != QB_OK) {
            if (!skip_sample(l, c)) break;
        } else {
            if (!l->filling) l->filling = open_slot(l);
            if (!l->filling) break; /* goes on when a batch is given back */
            place_sample(l, c);
        }
        l->placed++;
    }
    if (l->placed == l->total && l->filling) { /* the last batch is as full as it gets */
        l->filling->state = SLOT_FULL;
        l->filling = NULL;
    }
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
}

static cell *find_placed(qb_loader *l) {
    cell *first = NULL;
    for (int32_t i = 0; i < l->n_cells; i++) {
        cell *c = &l->cells[i];
        if (c->state == CELL_PLACED && (!first || c->sample < first->sample)) first = c;
    }
    return first;
}

static cell *claim_sample(qb_loader *l) {
    if (l->claimed == l->total || l->error.code != QB_OK) return NULL;
    cell *c = &l->cells[l->claimed % l->n_cells];
    if (c->state != CELL_FREE) return NULL;
    c->sample = l->claimed++;
    c->state = CELL_DECODING;
    return c;
}

/* The next batch in order if it is complete. */
static slot *find_complete(qb_loader *l) {
    for (int32_t i = 0; i < l->n_slots; i++) {
        slot *s = &l->slots[i];
        if (s->state == SLOT_FULL && s->sequence == l->delivered && s->unfinished == 0) return s;
    }
    return NULL;
}

/* ---- the threads ---- */

static uint64_t key_of(const qb_hash *hash) {
    uint64_t key = 0;
    for (int i = 0; i < 8; i++) key = key << 8 | hash->byte[i];
    return key;
}

/* Of the pixels, so that an image that was packed anew is known again. Other decoders round JPEG in
 * their own ways. */
static uint64_t key_of_image(const qb_dataset *dataset, const qb_image *image,
                             const qb_hash *stored) {
    const bool cpu = strcmp(qb_dataset_decoder(dataset), "cpu") == 0;
    const qb_hash hash = cpu ? qb_image_hash(image) : *stored;
    return key_of(&hash);
}

static qb_status decode_image(qb_ctx *cx, const qb_loader_options *o, cell *c) {
    QB_TRY(qb_dataset_read(cx, o->dataset, c->sample, &c->image, &c->hash));
    c->key = key_of_image(o->dataset, &c->image, &c->hash);
    c->blank = qb_image_is_blank(&c->image);
    qb_status status = qb_preprocess_check(cx, &o->preprocess, &c->image, o->height, o->width);
    if (status != QB_OK) qb_image_release(&c->image);
    return status;
}

static qb_status decode_tensors(qb_ctx *cx, const qb_loader_options *o, cell *c) {
    QB_RELEASED(qb_tensors_release) qb_tensors tensors = {0};
    QB_TRY(qb_dataset_read_tensors(cx, o->dataset, c->sample, &tensors));
    QB_TRY(qb_tensors_bind(cx, o->input, o->n_inputs, &tensors, c->input));
    c->hash = qb_tensors_hash(c->input, o->n_inputs);
    c->key = key_of(&c->hash);
    return QB_OK;
}

static void decode_sample(worker *w, cell *c) {
    qb_loader *l = w->loader;
    const qb_loader_options *o = &l->options;
    pthread_mutex_unlock(&l->lock);
    qb_ctx_clear(&w->cx);
    qb_status status = l->tensors ? decode_tensors(&w->cx, o, c) : decode_image(&w->cx, o, c);
    if (status != QB_OK) qb_ctx_take(&c->error, &w->cx);
    pthread_mutex_lock(&l->lock);
    c->state = CELL_DECODED;
    advance_frontier(l);
}

/* Prepared in f32, rounded once. */
static qb_status preprocess_narrow(qb_ctx *cx, const qb_preprocess *p, const qb_image *image,
                                   int32_t height, int32_t width, const qb_tensor *out) {
    const int64_t n = qb_shape_count(&out->desc.shape);
    QB_FREED float *wide = QB_NEW(cx, qb_alloc_aligned(cx, (size_t)n, sizeof *wide));
    QB_TRY(qb_preprocess_image(cx, p, image, height, width, wide));
    for (int64_t i = 0; i < n; i++) qb_number_put(out->desc.dtype, out->data, i, (double)wide[i]);
    return QB_OK;
}

/* An image whose size is open gets memory of its own. */
static qb_status preprocess_image(qb_ctx *cx, const qb_loader *l, cell *c) {
    const qb_preprocess *p = &l->options.preprocess;
    int32_t width = c->image.width, height = c->image.height;
    QB_TRY(qb_preprocess_size(cx, p, &width, &height));
    if (l->sample_size == 0) {
        *c->row = qb_tensor_of(l->dtype, qb_preprocess_shape(p, height, width), NULL);
        QB_TRY_NEW(cx, c->row->data = qb_alloc_aligned(cx, 1, qb_desc_bytes(&c->row->desc)));
    }
    if (l->dtype != QB_DTYPE_F32) return preprocess_narrow(cx, p, &c->image, height, width, c->row);
    return qb_preprocess_image(cx, p, &c->image, height, width, c->row->data);
}

static void preprocess_sample(worker *w, cell *c) {
    qb_loader *l = w->loader;
    c->state = CELL_PREPROCESSING;
    pthread_mutex_unlock(&l->lock);
    qb_ctx_clear(&w->cx);
    qb_status status = preprocess_image(&w->cx, l, c);
    qb_image_release(&c->image);
    pthread_mutex_lock(&l->lock);
    if (status != QB_OK) {
        l->broken = true;
        set_error(l, &w->cx);
    }
    c->state = CELL_FREE;
    c->slot->unfinished--;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
}

static void *worker_main(void *argument) {
    worker *w = argument;
    qb_loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        cell *c = find_placed(l);
        if (c)
            preprocess_sample(w, c);
        else if ((c = claim_sample(l)))
            decode_sample(w, c);
        else
            pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- making and freeing ---- */

qb_dtype qb_image_type(qb_dtype input) {
    if (input == QB_DTYPE_NONE) return QB_DTYPE_F32;
    return input == QB_DTYPE_F32 || qb_dtype_is_16bit_float(input) || input == QB_DTYPE_U8 ||
                   input == QB_DTYPE_S8
               ? input
               : QB_DTYPE_NONE;
}

static qb_status check_options(qb_ctx *cx, const qb_loader_options *o, size_t *sample_size) {
    *sample_size = 0;
    const bool tensors = qb_dataset_has_tensors(o->dataset);
    const int32_t least = o->any_size ? 0 : 1;
    if (tensors && (o->n_inputs < 1 || o->n_inputs > QB_INPUTS_MAX))
        return qb_fail(cx, QB_STATUS_INVALID, "loader: expected 1 to %d inputs, got %d",
                       QB_INPUTS_MAX, o->n_inputs);
    if (o->batch < 1 || o->threads < 1 || o->prefetch < 1 ||
        (!tensors && (o->height < least || o->width < least)))
        return qb_fail(
            cx, QB_STATUS_INVALID,
            "loader: expected at least 1 of each, got batch %d, threads %d, prefetch %d, "
            "height %d, width %d",
            o->batch, o->threads, o->prefetch, o->height, o->width);
    if (tensors) return QB_OK;
    QB_TRY(qb_preprocess_validate(cx, &o->preprocess));
    if (!qb_image_type(o->dtype))
        return qb_fail(cx, QB_STATUS_INVALID, "loader: images as %s", qb_dtype_text(o->dtype));
    if (o->height == 0 || o->width == 0) return QB_OK;
    QB_TRY(qb_image_check_size(cx, "model input", o->width, o->height));
    *sample_size = (size_t)o->height * (size_t)o->width *
                   (size_t)qb_preprocess_channels(&o->preprocess) *
                   qb_dtype_size(qb_image_type(o->dtype));
    return QB_OK;
}

static qb_status make_slot(qb_ctx *cx, const qb_loader *l, slot *s) {
    const size_t batch = (size_t)l->options.batch;
    QB_TRY_NEW(cx, s->index = qb_alloc(cx, batch, sizeof *s->index));
    QB_TRY_NEW(cx, s->label = qb_alloc(cx, batch, sizeof *s->label));
    QB_TRY_NEW(cx, s->hash = qb_alloc(cx, batch, sizeof *s->hash));
    QB_TRY_NEW(cx, s->key = qb_alloc(cx, batch, sizeof *s->key));
    QB_TRY_NEW(cx, s->input = qb_alloc(cx, batch * (size_t)l->n_inputs, sizeof *s->input));
    if (l->sample_size == 0) return QB_OK;
    QB_TRY_NEW(cx, s->data = qb_alloc_aligned(cx, batch, l->sample_size));
    const qb_shape shape =
        qb_preprocess_shape(&l->options.preprocess, l->options.height, l->options.width);
    for (size_t i = 0; i < batch; i++)
        s->input[i] = qb_tensor_of(l->dtype, shape, s->data + i * l->sample_size);
    return QB_OK;
}

/* Frees what the samples of a slot own. */
static void empty_slot(const qb_loader *l, slot *s) {
    for (int32_t i = 0; !s->data && s->input && i < s->n * l->n_inputs; i++) {
        qb_free(QB_MOVE(s->input[i].data));
    }
}

static qb_status make_buffers(qb_ctx *cx, qb_loader *l) {
    QB_TRY_NEW(cx, l->cells = qb_alloc(cx, (size_t)l->n_cells, sizeof *l->cells));
    QB_TRY_NEW(cx, l->slots = qb_alloc(cx, (size_t)l->n_slots, sizeof *l->slots));
    QB_TRY_NEW(cx, l->workers = qb_alloc(cx, (size_t)l->options.threads, sizeof *l->workers));
    for (int32_t i = 0; i < l->n_slots; i++) QB_TRY(make_slot(cx, l, &l->slots[i]));
    for (int32_t i = 0; l->tensors && i < l->n_cells; i++)
        QB_TRY_NEW(cx, l->cells[i].input = qb_alloc(cx, (size_t)l->n_inputs, sizeof(qb_tensor)));
    return QB_OK;
}

static qb_status start_threads(qb_ctx *cx, qb_loader *l) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, &attributes);
    pthread_condattr_destroy(&attributes);
    l->ready_made = true;
    for (int32_t i = 0; i < l->options.threads; i++) {
        worker *w = &l->workers[i];
        w->loader = l;
        qb_ctx_child(cx, &w->cx);
        int error = qb_thread_start(&w->thread, worker_main, w);
        if (error == 0) {
            l->n_workers++;
        } else if (i == 0) {
            errno = error;
            return qb_fail_errno(cx, "loader: start a decode thread");
        } else {
            qb_warn(cx, "loader: %d decode threads instead of %d: %s", i, l->options.threads,
                    strerror(error));
            break;
        }
    }
    return QB_OK;
}

qb_status qb_loader_create(qb_ctx *cx, const qb_loader_options *options, qb_loader **out) {
    size_t sample_size = 0;
    QB_TRY(check_options(cx, options, &sample_size));
    QB_RELEASED(qb_loader_free_at) qb_loader *l = QB_NEW(cx, qb_alloc(cx, 1, sizeof *l));
    l->options = *options;
    l->total = qb_dataset_count(options->dataset);
    l->tensors = qb_dataset_has_tensors(options->dataset);
    l->n_inputs = l->tensors ? options->n_inputs : 1;
    l->progress = options->start;
    l->claimed = l->placed = options->start.next;
    l->skipped = options->start.skipped;
    l->usable = options->start.samples;
    if (strcmp(qb_dataset_decoder(options->dataset), "cpu") != 0)
        l->options.threads += QB_DECODER_CALLERS;
    /* More threads than samples have nothing to do. */
    if (l->options.threads > l->total) l->options.threads = (int32_t)l->total;
    l->sample_size = sample_size;
    l->dtype = qb_image_type(options->dtype);
    l->n_cells = 2 * l->options.threads + 1;
    l->n_slots = options->prefetch + 1;
    qb_ctx_child(cx, &l->cx);
    QB_TRY(make_buffers(cx, l));
    QB_TRY(start_threads(cx, l));
    *out = QB_MOVE(l);
    return QB_OK;
}

void qb_loader_free(qb_loader *l) {
    if (!l) return;
    if (l->ready_made) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->work);
        pthread_mutex_unlock(&l->lock);
        for (int32_t i = 0; i < l->n_workers; i++) pthread_join(l->workers[i].thread, NULL);
        pthread_cond_destroy(&l->ready);
        pthread_cond_destroy(&l->work);
        pthread_mutex_destroy(&l->lock);
    }
    for (int32_t i = 0; l->cells && i < l->n_cells; i++) {
        cell *c = &l->cells[i];
        qb_image_release(&c->image);
        for (int32_t k = 0; c->input && k < l->n_inputs; k++) qb_free(c->input[k].data);
        qb_free(c->input);
    }
    for (int32_t i = 0; l->slots && i < l->n_slots; i++) {
        slot *s = &l->slots[i];
        empty_slot(l, s);
        QB_FREE_ALL(s->data, s->input, s->hash, s->key, s->index, s->label);
    }
    QB_FREE_ALL(l->cells, l->slots, l->workers, l);
}

/* ---- the consumer's side ---- */

/* Waits for news, at most 50 ms, so that a wish to stop is noticed. */
static qb_status wait_ready(qb_ctx *cx, qb_loader *l) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 50000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&l->ready, &l->lock, &until);
    return qb_check_cancel(cx);
}

static void deliver(qb_loader *l, slot *s, qb_batch *out) {
    size_t rest = (size_t)(l->options.batch - s->n);
    if (rest && s->data) memset(s->data + (size_t)s->n * l->sample_size, 0, rest * l->sample_size);
    s->state = SLOT_HELD;
    l->delivered++;
    for (int32_t i = 0; i < s->n; i++) {
        qb_hash_sum(&l->progress.sum, s->hash[i]);
        if (l->options.seen) l->options.seen[s->index[i]] = key_of(&s->hash[i]);
    }
    l->progress.samples += s->n;
    l->progress.skipped = s->skipped;
    l->progress.blank += s->blank;
    l->progress.next = s->index[s->n - 1] + 1;
    *out = (qb_batch){.n = s->n,
                      .n_inputs = l->n_inputs,
                      .input = s->input,
                      .data = l->dtype == QB_DTYPE_F32 ? (float *)(void *)s->data : NULL,
                      .key = s->key,
                      .index = s->index,
                      .label = s->label,
                      .slot = s};
    pthread_cond_broadcast(&l->ready); /* another consumer may wait for the batch after this one */
}

static qb_status next_locked(qb_ctx *cx, qb_loader *l, qb_batch *out) {
    for (;;) {
        QB_TRY(qb_check_cancel(cx));
        slot *s = l->broken ? NULL : find_complete(l);
        if (s) {
            deliver(l, s, out);
            return QB_OK;
        }
        /* After an error the batches that were filled before it still come, in order. */
        bool open = l->delivered < l->opened - (l->filling ? 1 : 0);
        if (l->error.code != QB_OK && (!open || l->broken))
            return qb_fail(cx, l->error.code, "%s", l->error.message);
        if (l->placed == l->total && l->delivered == l->opened) {
            if (l->usable > 0) return QB_OK;
            return qb_fail(cx, QB_STATUS_FORMAT,
                           "%s: no usable sample: all %lld could not be read (see the warnings)",
                           l->options.dataset->path, (long long)l->total);
        }
        QB_TRY(wait_ready(cx, l));
    }
}

qb_status qb_loader_next(qb_ctx *cx, qb_loader *loader, qb_batch *out) {
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&loader->lock);
    qb_status status = next_locked(cx, loader, out);
    pthread_mutex_unlock(&loader->lock);
    return status;
}

void qb_loader_give_back(qb_loader *loader, qb_batch *batch) {
    if (!batch->slot) return;
    slot *s = batch->slot;
    empty_slot(loader, s);
    pthread_mutex_lock(&loader->lock);
    s->state = SLOT_FREE;
    advance_frontier(loader);
    pthread_mutex_unlock(&loader->lock);
    memset(batch, 0, sizeof *batch);
}

int64_t qb_loader_skipped(const qb_loader *loader) {
    qb_loader *l = (qb_loader *)loader; /* the lock is not part of what a reader promises to keep */
    pthread_mutex_lock(&l->lock);
    int64_t skipped = l->skipped;
    pthread_mutex_unlock(&l->lock);
    return skipped;
}

void qb_loader_progress_of(const qb_loader *loader, qb_loader_progress *out) {
    qb_loader *l = (qb_loader *)loader;
    pthread_mutex_lock(&l->lock);
    *out = l->progress;
    pthread_mutex_unlock(&l->lock);
}

qb_hash qb_loader_progress_hash(const qb_loader_progress *progress) {
    struct {
        qb_hash sum;
        uint8_t count[8];
    } content = {progress->sum, {0}};
    for (int i = 0; i < 8; i++)
        content.count[i] = (uint8_t)((uint64_t)progress->samples >> (8 * i));
    return progress->samples > 0 ? qb_hash_bytes(&content, sizeof content) : (qb_hash){{0}};
}

qb_hash qb_loader_hash(const qb_loader *loader) {
    qb_loader_progress progress;
    qb_loader_progress_of(loader, &progress);
    return qb_loader_progress_hash(&progress);
}

/* ---- what was seen before ---- */

static void free_inputs(qb_tensor input[QB_INPUTS_MAX]) {
    for (int32_t i = 0; i < QB_INPUTS_MAX; i++) qb_free(input[i].data);
}

qb_status qb_loader_sample_hash(qb_ctx *cx, const qb_loader_options *options, int64_t index,
                                qb_hash *out) {
    qb_tensor input[QB_INPUTS_MAX] = {0};
    cell c = {.sample = index, .input = input};
    if (!qb_dataset_has_tensors(options->dataset))
        return qb_dataset_hash(cx, options->dataset, index, out);
    const qb_status status = decode_tensors(cx, options, &c);
    free_inputs(input);
    if (status == QB_OK) *out = c.hash;
    return status;
}

/* One that could not be used before must still be of no use: otherwise it would be left out for
 * what it no longer is. */
static qb_status check_skipped(qb_ctx *cx, const qb_loader_options *o, int64_t index) {
    qb_tensor input[QB_INPUTS_MAX] = {0};
    cell c = {.sample = index, .input = input};
    const bool tensors = qb_dataset_has_tensors(o->dataset);
    const qb_status status = tensors ? decode_tensors(cx, o, &c) : decode_image(cx, o, &c);
    free_inputs(input);
    if (status == QB_OK) {
        qb_image_release(&c.image);
        return qb_fail(cx, QB_STATUS_MISMATCH, "it could not be read before, and now it can");
    }
    if (!is_skippable(status)) return status;
    qb_ctx_clear(cx);
    return QB_OK;
}

static qb_status check_one(qb_ctx *cx, const qb_loader_options *o, int64_t index, uint64_t seen) {
    qb_hash hash;
    QB_TRY(qb_check_cancel(cx));
    if (seen == 0) return check_skipped(cx, o, index);
    QB_TRY(qb_loader_sample_hash(cx, o, index, &hash));
    if (key_of(&hash) == seen) return QB_OK;
    return qb_fail(cx, QB_STATUS_MISMATCH, "it is another one than when it was read");
}

qb_status qb_loader_check_seen(qb_ctx *cx, const qb_loader_options *options, const uint64_t *seen,
                               int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const qb_status status = check_one(cx, options, i, seen[i]);
        if (status == QB_STATUS_CANCELLED) return status;
        if (status != QB_OK)
            return qb_wrap(cx, "sample '%s'", qb_dataset_sample_name(options->dataset, i));
    }
    return QB_OK;
}
