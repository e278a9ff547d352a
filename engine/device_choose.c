/* Which of a device's tactics runs a problem: the fastest, by timing it there. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "device_choose_internal.h"
#include "kernels/sources.h"
#include "plans_internal.h"

#define NOISE_BYTES ((size_t)4 << 20)
#define REPLAYS 5
#define LAUNCHES_MAX 16
#define GRAPH_SECONDS 2e-3 /* aimed at for one replay */
#define HOPELESS 4.0       /* times the best so far: not measured further */
#define TIE 0.98           /* a later tactic must be faster than this share of the best */

/* ---- scratch memory on the device ------------------------------------------------------------ */

/* A block that only grows. */
typedef struct block {
    char *data;
    size_t bytes;
} block;

struct qb_scratch {
    const qb_device_api *device;
    void *stream, *begin, *end;
    char *noise_pattern;      /* on the host, NOISE_BYTES */
    block noise, zeros, work; /* inputs, inputs that index, and all that is written */
};

qb_status qb_scratch_create(qb_ctx *cx, const qb_device_api *device, qb_scratch **out) {
    qb_status status = QB_OK;
    qb_scratch *s = qb_alloc(cx, 1, sizeof *s);
    if (!s) return cx->code;
    s->device = device;
    s->noise_pattern = qb_alloc(cx, NOISE_BYTES, 1);
    if (!s->noise_pattern) QB_GO(cx->code);
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    /* finite and below 2 as halves and as floats, varied as bytes */
    for (size_t i = 0; i < NOISE_BYTES; i += 2) {
        uint64_t bits = qb_rng_below(&rng, 1 << 16);
        s->noise_pattern[i] = (char)(bits & 0xff);
        s->noise_pattern[i + 1] = (char)((bits >> 8 & 0x83) | (0x2c + 4 * (bits >> 10 & 3)));
    }
    QB_GO(device->stream_open(cx, &s->stream));
    QB_GO(device->event_open(cx, &s->begin));
    QB_GO(device->event_open(cx, &s->end));
    *out = s;
    s = NULL;
out:
    qb_scratch_free(s);
    return status;
}

void qb_scratch_free(qb_scratch *s) {
    if (!s) return;
    s->device->release(s->noise.data);
    s->device->release(s->zeros.data);
    s->device->release(s->work.data);
    s->device->event_close(s->begin);
    s->device->event_close(s->end);
    s->device->stream_close(s->stream);
    qb_free(s->noise_pattern);
    qb_free(s);
}

/* *grown: the block is new. */
static qb_status grow(qb_ctx *cx, qb_scratch *s, block *b, size_t bytes, bool *grown) {
    *grown = bytes > b->bytes;
    if (!*grown) return QB_OK;
    s->device->release(b->data);
    *b = (block){0};
    void *data;
    QB_TRY(s->device->alloc(cx, bytes, &data));
    *b = (block){data, bytes};
    return QB_OK;
}

static qb_status grow_noise(qb_ctx *cx, qb_scratch *s, size_t bytes) {
    bool grown;
    QB_TRY(grow(cx, s, &s->noise, bytes, &grown));
    for (size_t at = 0; grown && at < s->noise.bytes; at += NOISE_BYTES) {
        size_t left = s->noise.bytes - at, n = left < NOISE_BYTES ? left : NOISE_BYTES;
        QB_TRY(s->device->upload(cx, s->noise.data + at, s->noise_pattern, n, s->stream));
    }
    return QB_OK;
}

static qb_status grow_zeros(qb_ctx *cx, qb_scratch *s, size_t bytes) {
    bool grown;
    QB_TRY(grow(cx, s, &s->zeros, bytes, &grown));
    return grown ? s->device->fill(cx, s->zeros.data, 0, bytes, s->stream) : QB_OK;
}

/* Integers of more than 8 bits may index something: zero is always in range. */
static bool is_index(const qb_desc *d) {
    return !qb_dtype_is_float(d->dtype) && qb_dtype_size(d->dtype) > 1;
}

static bool is_read(const qb_kernel *kernel, int32_t i) {
    return qb_problem_has(&kernel->problem, i) && !(kernel->packed_inputs >> i & 1);
}

/* Memory for one launch of a kernel; in[] as for launch. */
static qb_status place(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel, const void **in,
                       qb_launch *launch) {
    const qb_problem *p = &kernel->problem;
    size_t need[2] = {0, 0}, at[2] = {0, 0};
    for (int32_t i = 0; i < p->n_in; i++)
        if (is_read(kernel, i))
            need[is_index(&p->in[i])] +=
                qb_device_aligned(qb_desc_bytes(&p->in[i]) + QB_BUFFER_SLACK);
    QB_TRY(grow_noise(cx, s, need[0]));
    QB_TRY(grow_zeros(cx, s, need[1]));
    for (int32_t i = 0; i < p->n_in; i++) {
        in[i] = NULL;
        if (!is_read(kernel, i)) continue;
        int which = is_index(&p->in[i]);
        in[i] = (which ? s->zeros.data : s->noise.data) + at[which];
        at[which] += qb_device_aligned(qb_desc_bytes(&p->in[i]) + QB_BUFFER_SLACK);
    }
    size_t out = qb_device_aligned(qb_desc_bytes(&p->out) + QB_BUFFER_SLACK);
    size_t packed = qb_device_aligned(kernel->packed_bytes),
           total = out + packed + kernel->workspace_bytes;
    bool grown;
    QB_TRY(grow(cx, s, &s->work, total, &grown));
    *launch = (qb_launch){.in = in,
                          .out = s->work.data,
                          .packed = s->work.data + out,
                          .workspace = kernel->workspace_bytes ? s->work.data + out + packed : NULL,
                          .stream = s->stream};
    if (kernel->in_place_required)
        for (int32_t i = 0; i < p->n_in; i++)
            if (kernel->in_place_inputs >> i & 1) launch->out = (void *)(uintptr_t)in[i];
    return QB_OK;
}

static qb_status bring_constants(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel,
                                 const void *const *constants, const qb_launch *launch) {
    if (!kernel->pack || kernel->packed_bytes == 0) return QB_OK;
    void *packed = qb_alloc_aligned(cx, kernel->packed_bytes, 1);
    if (!packed) return cx->code;
    qb_status status = kernel->pack(cx, kernel, constants, packed);
    if (status == QB_OK)
        status = s->device->upload(cx, (void *)(uintptr_t)launch->packed, packed,
                                   kernel->packed_bytes, s->stream);
    if (status == QB_OK) status = s->device->sync(cx, s->stream);
    qb_free(packed);
    return status;
}

static qb_status elapsed(qb_ctx *cx, qb_scratch *s, double *seconds) {
    float ms = 0;
    QB_TRY(s->device->event_record(cx, s->end, s->stream));
    QB_TRY(s->device->sync(cx, s->stream));
    QB_TRY(s->device->event_elapsed(cx, s->begin, s->end, &ms));
    *seconds = (double)ms * 1e-3;
    return QB_OK;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over replays of a graph of `launches` launches. */
static qb_status replay(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel, const qb_launch *launch,
                        int launches, double *seconds) {
    double took[REPLAYS];
    void *graph = NULL;
    qb_status status = s->device->capture_begin(cx, s->stream), ended;
    if (status != QB_OK) return status;
    for (int i = 0; i < launches && status == QB_OK; i++)
        status = kernel->launch(cx, kernel, launch);
    ended = s->device->capture_end(cx, s->stream, &graph); /* a stream must not stay captured */
    if (status == QB_OK) status = ended;
    if (status != QB_OK) goto out;
    QB_GO(s->device->graph_launch(cx, graph, s->stream));
    for (int i = 0; i < REPLAYS; i++) {
        QB_GO(s->device->event_record(cx, s->begin, s->stream));
        QB_GO(s->device->graph_launch(cx, graph, s->stream));
        QB_GO(elapsed(cx, s, &took[i]));
    }
    qsort(took, REPLAYS, sizeof *took, ascending);
    *seconds = took[REPLAYS / 2] / launches;
out:
    s->device->graph_close(graph);
    return status;
}

qb_status qb_scratch_time(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel,
                          const void *const *constants, double best, double *seconds) {
    const void *in[QB_MAX_INPUTS];
    qb_launch launch;
    QB_TRY(place(cx, s, kernel, in, &launch));
    QB_TRY(bring_constants(cx, s, kernel, constants, &launch));
    QB_TRY(kernel->launch(cx, kernel, &launch)); /* loads code */
    QB_TRY(s->device->sync(cx, s->stream));
    QB_TRY(s->device->event_record(cx, s->begin, s->stream));
    QB_TRY(kernel->launch(cx, kernel, &launch));
    QB_TRY(elapsed(cx, s, seconds));
    if (*seconds > HOPELESS * best + 50e-6) return QB_OK;
    int launches = (int)(GRAPH_SECONDS / (*seconds + 1e-6));
    launches = launches < 1 ? 1 : launches > LAUNCHES_MAX ? LAUNCHES_MAX : launches;
    return replay(cx, s, kernel, &launch, launches, seconds);
}

/* ---- choosing ---------------------------------------------------------------------------------
 */

/* A tactic that took a form. */
typedef struct entrant {
    qb_rival as_rival;
    int32_t form;
} entrant;

/* A choice in the making. */
typedef struct contest {
    qb_builder *b;
    const qb_problem *forms;
    int32_t n_forms;
    const bool *constant;
    const int32_t *values;
    qb_kernel *kernel; /* of the best, or NULL where its time was known */
    const qb_tactic *best;
    int32_t best_form, best_variant;
    double best_total, best_seconds; /* with and without the copies around */
    qb_choice choice;
    entrant *entrants;
    size_t n_entrants, capacity;
} contest;

bool qb_device_has(const qb_builder *b, const qb_tactic *tactic, qb_kind kind) {
    return strcmp(tactic->backend, b->engine->device->backend) == 0 && tactic->kind == kind &&
           !(qb_tactic_source(tactic) & b->engine->without);
}

static qb_status copy_seconds(qb_builder *b, const qb_desc *from, const qb_desc *to,
                              double *seconds) {
    qb_problem copy = {.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
    bool constant = false;
    qb_kernel *kernel;
    qb_choice choice = {0};
    QB_TRY(qb_device_kernel(b, &copy, 1, &constant, NULL, &kernel, &choice));
    qb_kernel_free(kernel);
    *seconds += choice.seconds;
    return QB_OK;
}

/* What a form costs besides: inputs that are there in another form only, and a result that must
 * then be copied to its place in a larger tensor. */
static qb_status surroundings(const contest *c, const qb_problem *form, double *seconds) {
    qb_builder *b = c->b;
    *seconds = 0;
    if (!c->values || !b->image_of) return QB_OK;
    for (int32_t i = 0; i < form->n_in; i++) {
        const qb_desc *want = &form->in[i];
        if (c->values[i] < 0 || c->constant[i] || want->dtype == QB_DTYPE_NONE ||
            want->layout == QB_LAYOUT_ANY)
            continue;
        qb_desc have;
        if (qb_build_needs_copy(b, c->values[i], want, &have))
            QB_TRY(copy_seconds(b, &have, want, seconds));
    }
    if (c->forms->out.channel_total > 0 && form->out.channel_total == 0 &&
        form->out.layout != QB_LAYOUT_ANY)
        QB_TRY(copy_seconds(b, &form->out, &c->forms->out, seconds));
    return QB_OK;
}

static void constants_of(const contest *c, int32_t n, const void **constants) {
    for (int32_t i = 0; i < n; i++)
        constants[i] =
            c->values && c->values[i] >= 0 ? c->b->graph->values[c->values[i]].data : NULL;
}

/* Creates and times; timing->seconds < 0 when the tactic does not take it after all. */
static qb_status measure(contest *c, const qb_tactic *tactic, const qb_problem *form,
                         qb_kernel **kernel, qb_timing *timing) {
    qb_ctx *cx = c->b->cx;
    const void *constants[QB_MAX_INPUTS];
    constants_of(c, form->n_in, constants);
    qb_problem problem = *form;
    problem.compiled = c->b->compiled;
    *kernel = NULL;
    *timing = (qb_timing){.seconds = -1};
    const double start = qb_now();
    qb_status status = tactic->compete
                           ? tactic->compete(cx, tactic, &problem, c->constant,
                                             c->best ? c->best_seconds : 0, kernel)
                           : tactic->create(cx, tactic, &problem, c->constant, 1, kernel);
    const double made = qb_now() - start;
    if (status == QB_OK) timing->variant = (*kernel)->problem.variant;
    if (status == QB_OK && !qb_build_within_limit(c->b, *kernel))
        status = qb_fail(cx, QB_STATUS_UNSUPPORTED, "it wants %zu bytes of workspace",
                         (*kernel)->workspace_bytes);
    if (status == QB_OK)
        status = qb_scratch_time(cx, c->b->scratch, *kernel, constants,
                                 c->best ? c->best_seconds : 1e30, &timing->seconds);
    else if (status != QB_STATUS_UNSUPPORTED)
        return qb_wrap(cx, "tactic %s", tactic->name);
    qb_debug(cx, "%s: made in %.3g ms, timed in %.3g ms", tactic->name, made * 1e3,
             (qb_now() - start - made) * 1e3);
    if (status == QB_OK) return QB_OK;
    if (status == QB_STATUS_UNSUPPORTED)
        qb_debug(cx, "%s: %s", tactic->name, cx->message);
    else if (status == QB_STATUS_NOMEM || status == QB_STATUS_CANCELLED)
        return status;
    else
        qb_warn(cx, "%s is left out: %s", tactic->name, cx->message);
    c->choice.why_not = qb_arena_strdup(cx, c->b->engine->arena, cx->message);
    qb_ctx_clear(cx);
    qb_kernel_free(*kernel);
    *kernel = NULL;
    *timing = (qb_timing){.seconds = -1};
    return QB_OK;
}

static qb_status note_entrant(contest *c, const qb_tactic *tactic, int32_t form,
                              const qb_timing *timing) {
    QB_TRY(qb_grow(c->b->cx, &c->entrants, &c->capacity, c->n_entrants + 1, sizeof *c->entrants));
    c->entrants[c->n_entrants++] = (entrant){{tactic, timing->seconds, timing->variant}, form};
    return QB_OK;
}

/* Enters the tactic with the first form that it takes. */
static qb_status enter(contest *c, const qb_tactic *tactic) {
    qb_builder *b = c->b;
    for (int32_t f = 0; f < c->n_forms; f++) {
        const qb_problem *form = &c->forms[f];
        if (!tactic->supports(form, c->constant)) continue;
        qb_kernel *kernel = NULL;
        qb_timing timing;
        double besides;
        char *key;
        QB_TRY(qb_problem_key(b->cx, form, c->constant, &key));
        qb_status status = QB_OK;
        /* a limit of workspace needs the kernel itself */
        if (b->workspace_limit || !qb_timings_find(b->timings, tactic->name, key, &timing)) {
            status = measure(c, tactic, form, &kernel, &timing);
            if (status == QB_OK)
                status = qb_timings_add(b->cx, b->timings, tactic->name, key, &timing);
        }
        qb_free(key);
        if (status == QB_OK && timing.seconds < 0) continue;
        if (status == QB_OK) status = note_entrant(c, tactic, f, &timing);
        if (status == QB_OK) status = surroundings(c, form, &besides);
        if (status != QB_OK || (c->best && timing.seconds + besides > TIE * c->best_total)) {
            qb_kernel_free(kernel);
            return status;
        }
        qb_kernel_free(c->kernel);
        c->kernel = kernel;
        c->best = tactic;
        c->best_form = f;
        c->best_variant = timing.variant;
        c->best_seconds = timing.seconds;
        c->best_total = timing.seconds + besides;
        return QB_OK;
    }
    return QB_OK;
}

/* The kernel with one of its library's algorithms, without trying them. */
static qb_status create_variant(const contest *c, const qb_tactic *tactic, int32_t form,
                                int32_t variant, qb_kernel **out) {
    qb_problem problem = c->forms[form];
    problem.variant = variant;
    problem.compiled = c->b->compiled;
    return tactic->create(c->b->cx, tactic, &problem, c->constant, 1, out);
}

/* Takes the tactic if it takes any form, without looking at the time. */
static qb_status take(contest *c, const qb_tactic *tactic, int32_t variant) {
    qb_ctx *cx = c->b->cx;
    for (int32_t f = 0; f < c->n_forms && !c->best; f++) {
        if (!tactic->supports(&c->forms[f], c->constant)) continue;
        qb_status status = create_variant(c, tactic, f, variant, &c->kernel);
        if (status != QB_OK && status != QB_STATUS_UNSUPPORTED)
            return qb_wrap(cx, "tactic %s", tactic->name);
        if (status == QB_OK && qb_build_within_limit(c->b, c->kernel)) {
            c->best = tactic;
        } else {
            qb_kernel_free(c->kernel);
            c->kernel = NULL;
        }
        qb_ctx_clear(cx);
    }
    return QB_OK;
}

/* What was the fastest at the usual shapes, if it takes these. The algorithms of a library are
 * numbered anew for each shape: elsewhere its own first choice. */
static qb_status take_hinted(contest *c) {
    const qb_hint *hint = qb_hints_find(c->b->hints, qb_build_group_name(c->b));
    if (!hint || !hint->tactic || hint->tactic->kind == QB_KIND_COPY ||
        !qb_device_has(c->b, hint->tactic, c->forms->kind))
        return QB_OK;
    return take(c, hint->tactic, c->b->usual ? hint->variant : 1);
}

/* All that were timed, and those with the form of the best: a form that leaves the layout open may
 * become another one. */
static qb_status keep_entrants(contest *c) {
    const size_t n = c->n_entrants;
    qb_arena *arena = c->b->engine->arena;
    qb_step_alternative *all = qb_arena_alloc(c->b->cx, arena, n, sizeof *all);
    qb_rival *rivals = qb_arena_alloc(c->b->cx, arena, n, sizeof *rivals);
    if (!all || !rivals) return c->b->cx->code;
    for (size_t i = 0; i < n; i++) {
        const qb_rival *r = &c->entrants[i].as_rival;
        all[i] = (qb_step_alternative){r->tactic->name, r->seconds};
        if (r->tactic != c->best && c->entrants[i].form == c->best_form)
            rivals[c->choice.n_rivals++] = *r;
    }
    c->choice.alternatives = all;
    c->choice.n_alternatives = (int32_t)n;
    c->choice.rivals = rivals;
    return QB_OK;
}

qb_status qb_device_kernel(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                           const bool *constant, const int32_t *values, qb_kernel **out,
                           qb_choice *choice) {
    contest c = {
        .b = b, .forms = forms, .n_forms = n_forms, .constant = constant, .values = values};
    qb_status status = QB_OK;
    bool any = false;
    *out = NULL;
    if (b->hints) status = take_hinted(&c);
    for (const qb_tactic *const *t = qb_tactics(); *t && status == QB_OK; t++) {
        if (!qb_device_has(b, *t, forms->kind)) continue;
        any = true;
        if (!b->first_tactic && !b->hints)
            status = enter(&c, *t);
        else if (!c.best)
            status = take(&c, *t, 1);
    }
    if (status == QB_OK && c.best && !c.kernel)
        status = create_variant(&c, c.best, c.best_form, c.best_variant, &c.kernel);
    if (status == QB_OK) status = keep_entrants(&c);
    qb_free(c.entrants);
    if (status != QB_OK) {
        qb_kernel_free(c.kernel);
        return status;
    }
    if (!c.best && !c.choice.why_not)
        c.choice.why_not = any ? "no tactic takes its types, layout or shape" : "no tactic for it";
    if (c.best) c.choice.why_not = NULL;
    c.choice.seconds = c.best ? c.best_seconds : 0;
    *choice = c.choice;
    *out = c.kernel;
    return QB_OK;
}

qb_status qb_device_remark(qb_ctx *cx, const qb_engine *e, const qb_kernel *kernel,
                           qb_choice *choice) {
    char text[96];
    choice->note = NULL;
    if (!kernel || !e->device->remark || !e->device->remark(kernel, text, sizeof text))
        return QB_OK;
    choice->note = qb_arena_strdup(cx, e->arena, text);
    return choice->note ? QB_OK : cx->code;
}

qb_status qb_device_decide(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                           const bool *constant, const int32_t *values, qb_kernel **out,
                           qb_choice *choice) {
    if (b->replay)
        QB_TRY(qb_build_again(b, forms, n_forms, constant, true, out));
    else
        QB_TRY(qb_device_kernel(b, forms, n_forms, constant, values, out, choice));
    if (b->replay && !*out) choice->why_not = "as it was when the file was built";
    choice->recorded = b->engine->n_recorded;
    qb_status status = qb_build_record(b, *out);
    if (status == QB_OK) status = qb_device_remark(b->cx, b->engine, *out, choice);
    if (status == QB_OK) return QB_OK;
    qb_kernel_free(*out);
    *out = NULL;
    return status;
}

bool qb_device_copies(const qb_builder *b, const qb_desc *from, const qb_desc *to) {
    qb_problem copy = {.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
    bool constant = false;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (qb_device_has(b, *t, QB_KIND_COPY) && (*t)->supports(&copy, &constant)) return true;
    return false;
}
