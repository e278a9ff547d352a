#include "fake_device.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device_internal.h"
#include "engine/timings.h"
#include "fake_stream.h"
#include "kernels/heads.h"
#include "kernels/stats.h"
#include "kernels/tactic.h"

bool fake_device_is_there = true;
const char *fake_device_hardware = "fake device", *fake_device_software = "driver 1";
const char *fake_device_last_hardware;
qb_status (*fake_device_on_launch)(qb_ctx *cx, int32_t device);
_Atomic int fake_device_allocations, fake_device_blocks, fake_device_recordings, fake_device_packs,
    fake_device_compilations, fake_device_waits;
size_t fake_device_odd_scratch;
bool fake_device_fuses, fake_device_attends, fake_device_has_library;
_Atomic uint32_t fake_device_clock;
int fake_device_fills_left = -1;
double (*fake_device_seconds)(const char *tactic, bool alone);
bool fake_device_has_dependent_launch, fake_device_dependent_is_nhwc,
    fake_device_dependent_is_wrong;
static _Thread_local int32_t current;
static double now;           /* by the clock of fake_device_seconds */
static const void *last_out; /* of the last launch */

/* ---- memory ---- */

static void *to_device(void *host) {
    return (void *)((uintptr_t)host | FAKE_BIT | FAKE_NUMBER(current));
}

/* Of the device that is the calling thread's. */
static bool is_device(const void *address) {
    return ((uintptr_t)address & FAKE_BITS) == (FAKE_BIT | FAKE_NUMBER(current));
}

static qb_status open_device(qb_ctx *cx, int32_t ordinal, qb_device_identity *identity) {
    if (!fake_device_is_there) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no device is plugged in");
    if (ordinal < 0 || ordinal >= FAKE_DEVICES)
        return qb_fail(cx, QB_STATUS_INVALID, "fake device: expected 0 to %d, got %d",
                       FAKE_DEVICES - 1, (int)ordinal);
    current = ordinal;
    if (!identity) return QB_OK;
    const bool odd = fake_device_last_hardware && ordinal == FAKE_DEVICES - 1;
    snprintf(identity->hardware, sizeof identity->hardware, "%s",
             odd ? fake_device_last_hardware : fake_device_hardware);
    snprintf(identity->software, sizeof identity->software, "%s", fake_device_software);
    return QB_OK;
}

static void select_device(int32_t ordinal) { current = ordinal; }

static qb_status alloc(qb_ctx *cx, size_t bytes, void **out) {
    void *memory = qb_alloc_aligned(cx, bytes, 1);
    if (!memory) return cx->code;
    memset(memory, 0xa5, bytes);
    fake_device_allocations++;
    fake_device_blocks++;
    *out = to_device(memory);
    return QB_OK;
}

static void release(void *memory) {
    if (memory) fake_device_blocks--;
    qb_free(fake_to_host(memory));
}

/* A launch reports nothing: the device has memory where one allocation fails
 * (fuzz/failing_alloc.h). */
static void *take(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) memory = malloc(bytes);
    if (!memory) abort();
    return memory;
}

/* ---- streams and graphs ---- */

typedef struct work {
    void (*run)(const void *args);
    struct work *next;
    max_align_t args[];
} work;

/* Recorded work, in order. */
typedef struct graph {
    work *first, **last;
} graph;

typedef struct stream {
    fake_stream base;
    graph *recording;
} stream;

static void submit(fake_stream *base, void (*run)(const void *args), const void *args, size_t n) {
    stream *s = (stream *)base;
    if (!s->recording) {
        run(args);
        return;
    }
    work *w = take(sizeof *w + n);
    *w = (work){.run = run};
    memcpy(w->args, args, n);
    *s->recording->last = w;
    s->recording->last = &w->next;
}

static qb_status stream_open(qb_ctx *cx, void **out) {
    stream *s = qb_alloc(cx, 1, sizeof *s);
    if (!s) return cx->code;
    s->base.submit = submit;
    *out = s;
    return QB_OK;
}

static void stream_close(void *s) { qb_free(s); }

static qb_status capture_begin(qb_ctx *cx, void *on) {
    stream *s = on;
    fake_device_recordings++;
    s->recording = qb_alloc(cx, 1, sizeof *s->recording);
    if (!s->recording) return cx->code;
    s->recording->last = &s->recording->first;
    return QB_OK;
}

static qb_status capture_end(qb_ctx *cx, void *on, void **out) {
    (void)cx;
    stream *s = on;
    *out = s->recording;
    s->recording = NULL;
    return QB_OK;
}

static qb_status graph_launch(qb_ctx *cx, void *recorded, void *on) {
    (void)cx;
    (void)on;
    for (const work *w = ((graph *)recorded)->first; w; w = w->next) w->run(w->args);
    return QB_OK;
}

static void graph_close(void *recorded) {
    if (!recorded) return;
    for (work *w = ((graph *)recorded)->first, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    qb_free(recorded);
}

/* ---- copies, events ---- */

static qb_status upload(qb_ctx *cx, void *to, const void *from, size_t bytes, void *on) {
    (void)on;
    const bool from_host = ((uintptr_t)from & FAKE_BITS) == 0;
    if (!is_device(to) || !(from_host || is_device(from)))
        return qb_fail(cx, QB_STATUS_INTERNAL, "upload: expected host or device to device");
    memcpy(fake_to_host(to), fake_to_host(from), bytes);
    return QB_OK;
}

static qb_status download(qb_ctx *cx, void *to, const void *from, size_t bytes, void *on) {
    (void)on;
    if (is_device(to) || !is_device(from))
        return qb_fail(cx, QB_STATUS_INTERNAL, "download: expected device to host");
    memcpy(to, fake_to_host(from), bytes);
    return QB_OK;
}

static qb_status host_alloc(qb_ctx *cx, size_t bytes, void **out) {
    *out = qb_alloc_aligned(cx, bytes, 1);
    return *out ? QB_OK : cx->code;
}

static void host_release(void *memory) { qb_free(memory); }

static qb_status fill(qb_ctx *cx, void *to, int byte, size_t bytes, void *on) {
    (void)on;
    if (fake_device_fills_left == 0) return qb_fail(cx, QB_STATUS_INTERNAL, "fake device: no fill");
    if (fake_device_fills_left > 0) fake_device_fills_left--;
    memset(fake_to_host(to), byte, bytes);
    return QB_OK;
}

/* Work is done as soon as it is there. */
static qb_status nothing(qb_ctx *cx, void *on) {
    (void)cx;
    (void)on;
    return QB_OK;
}

static qb_status sync_stream(qb_ctx *cx, void *on) {
    fake_device_waits++;
    return nothing(cx, on);
}

static qb_status event_open(qb_ctx *cx, void **event) {
    *event = qb_alloc(cx, 1, sizeof now);
    return *event ? QB_OK : cx->code;
}

static void event_close(void *event) { qb_free(event); }

static qb_status event_record(qb_ctx *cx, void *event, void *on) {
    if (fake_device_seconds) *(double *)event = now;
    return nothing(cx, on);
}

static qb_status event_elapsed(qb_ctx *cx, void *from, void *to, float *milliseconds) {
    if (fake_device_seconds) {
        *milliseconds = (float)((*(double *)to - *(double *)from) * 1e3);
        return QB_OK;
    }
    fake_device_clock = fake_device_clock * 1664525 + 1013904223;
    *milliseconds = 0.5f + 0.5f * (float)(fake_device_clock >> 8) / (1 << 24);
    return nothing(cx, to);
}

static qb_status stream_wait(qb_ctx *cx, void *on, void *event) {
    (void)event;
    return nothing(cx, on);
}

static bool remark(const qb_kernel *kernel, char *text, size_t n) {
    const qb_problem *p = &kernel->problem;
    if (p->kind != QB_KIND_CONV || p->in[0].shape.dim[1] != 3) return false;
    snprintf(text, n, "C=3: no tile");
    return true;
}

/* ---- observers ---- */

static bool takes(const qb_desc *desc) { return desc->dtype == QB_DTYPE_F32; }

static qb_status reset(qb_ctx *cx, void *state, void *on) {
    (void)on;
    if (!is_device(state)) return qb_fail(cx, QB_STATUS_INTERNAL, "reset: not on the device");
    qb_stats_init(fake_to_host(state));
    return QB_OK;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Extremes are kept as they are; all ones, which are no number, where there are none. */
static qb_status observe(qb_ctx *cx, const qb_desc *desc, const void *data, int64_t n_items,
                         void *state, void *scratch, uint32_t *low, uint32_t *high, void *on) {
    (void)on;
    if (!is_device(data) || !is_device(state) || !is_device(scratch) || !is_device(low))
        return qb_fail(cx, QB_STATUS_INTERNAL, "observe: not on the device");
    qb_tensor item = {.desc = *desc, .data = fake_to_host(data)};
    uint32_t *lows = fake_to_host(low), *highs = fake_to_host(high);
    qb_stats *own = qb_alloc(cx, 1, sizeof *own);
    if (!own) return cx->code;
    item.desc.shape.dim[0] = 1;
    for (int64_t i = 0; i < n_items; i++) {
        qb_stats_init(own);
        qb_stats_add_tensor(own, &item, -1);
        qb_stats_merge(fake_to_host(state), own);
        if (own->count > 0) lows[i] = bits_of(own->min);
        if (own->count > 0) highs[i] = bits_of(own->max);
        item.data = (char *)item.data + qb_desc_bytes(&item.desc);
    }
    qb_free(own);
    return QB_OK;
}

static float number_of(uint32_t bits, float none) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return bits == UINT32_MAX ? none : value;
}

static void extremes(uint32_t low_key, uint32_t high_key, float *low, float *high) {
    *low = number_of(low_key, INFINITY);
    *high = number_of(high_key, -INFINITY);
}

static const qb_device_observers observers = {.state_bytes = sizeof(qb_stats),
                                              .scratch_bytes = 1,
                                              .takes = takes,
                                              .reset = reset,
                                              .observe = observe,
                                              .extremes = extremes};

static const qb_device_api fake = {.backend = "cuda",
                                   .open = open_device,
                                   .select = select_device,
                                   .alloc = alloc,
                                   .release = release,
                                   .upload = upload,
                                   .download = download,
                                   .fill = fill,
                                   .stream_open = stream_open,
                                   .stream_close = stream_close,
                                   .sync = sync_stream,
                                   .event.open = event_open,
                                   .event.close = event_close,
                                   .event.record = event_record,
                                   .event.mark = event_record,
                                   .event.elapsed = event_elapsed,
                                   .capture_begin = capture_begin,
                                   .fence = nothing,
                                   .capture_end = capture_end,
                                   .graph_launch = graph_launch,
                                   .graph_close = graph_close,
                                   .host_alloc = host_alloc,
                                   .host_release = host_release,
                                   .event.wait = sync_stream,
                                   .stream_wait = stream_wait,
                                   .observers = &observers,
                                   .remark = remark};

/* ---- tactics ---- */

typedef struct launch_args {
    const qb_kernel *kernel;
    const void *in[QB_MAX_INPUTS];
    void *out, *workspace;
    void *more[2];
} launch_args;

typedef qb_status (*launch_fn)(qb_ctx *, const qb_kernel *, const qb_launch *);
static _Atomic(launch_fn) real_launch[QB_KIND_COUNT]; /* engines are built on several threads */

/* Reference convolutions read floats in rows alone: the same problem of those. */
static void make_plain(qb_desc *desc) {
    if (desc->dtype == QB_DTYPE_F16) desc->dtype = QB_DTYPE_F32;
    if (desc->layout == QB_LAYOUT_NHWC) desc->layout = QB_LAYOUT_ROW;
}

static qb_problem plain_of(const qb_problem *problem, qb_desc *in) {
    qb_problem plain = *problem;
    plain.in = in;
    for (int32_t i = 0; i < problem->n_in; i++) {
        in[i] = problem->in[i];
        make_plain(&in[i]);
    }
    make_plain(&plain.out);
    return plain;
}

static bool is_plain(const qb_desc *desc) {
    return desc->dtype != QB_DTYPE_F16 && desc->layout != QB_LAYOUT_NHWC;
}

static bool is_other_conv(const qb_problem *problem) {
    return problem->kind == QB_KIND_CONV && !is_plain(&problem->in[0]);
}

/* Where element i of the rows lies. */
static int64_t place_of(const qb_desc *desc, int64_t i) {
    if (desc->layout != QB_LAYOUT_NHWC) return i;
    const int64_t channels = desc->shape.dim[1];
    const int64_t plane = qb_shape_count(&desc->shape) / desc->shape.dim[0] / channels;
    return (i / (plane * channels) * plane + i % plane) * channels + i / plane % channels;
}

/* `data`: NULL, nothing is known. */
static float *to_plain(const qb_desc *desc, const void *data) {
    const int64_t n = qb_shape_count(&desc->shape);
    float *plain = take((size_t)n * sizeof *plain);
    for (int64_t i = 0; data && i < n; i++) {
        const int64_t at = place_of(desc, i);
        plain[i] = desc->dtype == QB_DTYPE_F16 ? qb_f16_to_f32(((const uint16_t *)data)[at])
                                               : ((const float *)data)[at];
    }
    return plain;
}

static void from_plain(const qb_desc *desc, const float *plain, void *data) {
    for (int64_t i = 0, n = qb_shape_count(&desc->shape); i < n; i++) {
        const int64_t at = place_of(desc, i);
        if (desc->dtype == QB_DTYPE_F16)
            ((uint16_t *)data)[at] = qb_f32_to_f16(plain[i]);
        else
            ((float *)data)[at] = plain[i];
    }
}

static void run_other(qb_ctx *cx, launch_fn run, const launch_args *a) {
    const qb_problem *p = &a->kernel->problem;
    qb_desc in[QB_MAX_INPUTS];
    qb_kernel plain = *a->kernel;
    const void *data[QB_MAX_INPUTS];
    plain.problem = plain_of(p, in);
    for (int32_t i = 0; i < p->n_in; i++)
        data[i] = a->in[i] && !is_plain(&p->in[i]) ? to_plain(&p->in[i], a->in[i]) : a->in[i];
    float *out = is_plain(&p->out) ? a->out : to_plain(&p->out, NULL);
    run(cx, &plain, &(qb_launch){.in = data, .out = out});
    if (out != a->out) from_plain(&p->out, out, a->out);
    for (int32_t i = 0; i < p->n_in; i++)
        if (data[i] != a->in[i]) free((void *)(uintptr_t)data[i]);
    if (out != a->out) free(out);
}

/* Every seventh result is one off, or two quantized values. */
static void spoil(const qb_desc *desc, void *data) {
    for (int64_t i = 0, n = qb_shape_count(&desc->shape); i < n; i += 7)
        if (desc->dtype == QB_DTYPE_F32)
            ((float *)data)[i] += 1;
        else if (desc->dtype == QB_DTYPE_F16)
            ((uint16_t *)data)[i] = qb_f32_to_f16(qb_f16_to_f32(((uint16_t *)data)[i]) + 1);
        else
            ((uint8_t *)data)[i] ^= 2;
}

static bool is_wrong(const qb_tactic *tactic) {
    return fake_device_dependent_is_wrong && strcmp(tactic->name, "cuda.fake_conv_dependent") == 0;
}

static void run_kernel(const void *args) {
    const launch_args *a = args;
    const qb_launch launch = {
        .in = a->in, .out = a->out, .more = a->more, .workspace = a->workspace};
    qb_ctx cx;
    qb_ctx_init(&cx);
    const launch_fn run = atomic_load(&real_launch[a->kernel->problem.kind]);
    if (fake_device_seconds)
        now += fake_device_seconds(a->kernel->tactic->name, a->out == last_out);
    if (fake_device_seconds) last_out = a->out;
    if (is_other_conv(&a->kernel->problem))
        run_other(&cx, run, a);
    else
        run(&cx, a->kernel, &launch);
    if (is_wrong(a->kernel->tactic)) spoil(&a->kernel->problem.out, a->out);
    assert(cx.code == QB_OK);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    launch_args a = {.kernel = kernel,
                     .out = fake_to_host(args->out),
                     .workspace = fake_to_host(args->workspace)};
    if (fake_device_on_launch) QB_TRY(fake_device_on_launch(cx, current));
    for (int32_t i = 0; i < kernel->problem.n_in; i++) {
        if (args->in[i] && !is_device(args->in[i]))
            return qb_fail(cx, QB_STATUS_INTERNAL, "input %d is not on the device", (int)i);
        a.in[i] = fake_to_host(args->in[i]);
    }
    if (kernel->packed_inputs) {
        if (!is_device(args->packed))
            return qb_fail(cx, QB_STATUS_INTERNAL, "packed constants are not on the device");
        a.in[QB_IN_WEIGHT] = fake_to_host(args->packed);
    }
    if (!is_device(args->out)) return qb_fail(cx, QB_STATUS_INTERNAL, "output not on the device");
    for (int32_t i = 0; args->more && i < qb_kind_outputs(kernel->problem.kind) - 1; i++) {
        if (!args->more[i]) continue; /* nobody wants it */
        if (!is_device(args->more[i]))
            return qb_fail(cx, QB_STATUS_INTERNAL, "output %d not on the device", (int)i + 1);
        a.more[i] = fake_to_host(args->more[i]);
    }
    fake_stream *s = args->stream;
    s->submit(s, run_kernel, &a, sizeof a);
    return QB_OK;
}

static const qb_tactic *twin_of(qb_kind kind) {
    static const struct {
        qb_kind kind;
        const char *name;
    } rows[] = {{QB_KIND_CONV, "ref.conv"},           {QB_KIND_POOL, "ref.pool"},
                {QB_KIND_CONV_POOL, "ref.conv_pool"}, {QB_KIND_UNARY, "ref.unary"},
                {QB_KIND_BINARY, "ref.binary"},       {QB_KIND_COPY, "ref.copy"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind == kind) return qb_tactic_find(rows[i].name);
    return NULL;
}

static bool supports(qb_kind kind, const qb_problem *problem, const bool *constant) {
    qb_desc in[QB_MAX_INPUTS];
    if (kind == QB_KIND_CONV_POOL && !fake_device_fuses) return false;
    if (!is_other_conv(problem)) return qb_tactic_takes(twin_of(kind), problem, constant);
    const qb_problem plain = plain_of(problem, in);
    return qb_tactic_takes(twin_of(kind), &plain, constant);
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    fake_device_packs++;
    memcpy(packed, constants[QB_IN_WEIGHT], kernel->packed_bytes);
    return QB_OK;
}

/* As a library would that compiles a kernel for each problem: nothing where it has been done. */
static qb_status compile(qb_ctx *cx, const qb_problem *problem, const bool *constant,
                         qb_kernel *kernel) {
    char *text;
    size_t bytes;
    if (!problem->compiled) return QB_OK;
    QB_TRY(qb_problem_key(cx, problem, constant, &text));
    qb_status status = QB_OK;
    kernel->compiled = qb_hash_bytes(text, strlen(text));
    if (!qb_compiled_find(problem->compiled, kernel->compiled, &bytes)) {
        fake_device_compilations++;
        status = qb_compiled_add(cx, problem->compiled, kernel->compiled, text, strlen(text));
    }
    qb_free(text);
    return status;
}

/* What the plain problem's kernel does not say. */
static void keep_form(const qb_desc *from, qb_desc *to) {
    to->dtype = from->dtype;
    if (from->layout == QB_LAYOUT_NHWC) to->layout = from->layout;
}

/* Weights of convolutions are packed: as they are. */
static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_desc in[QB_MAX_INPUTS];
    const qb_problem plain = plain_of(problem, in);
    const bool other = is_other_conv(problem);
    QB_TRY(twin_of(tactic->kind)
               ->create(cx, tactic, other ? &plain : problem, constant, threads, out));
    for (int32_t i = 0; other && i < problem->n_in; i++)
        keep_form(&problem->in[i], (qb_desc *)(uintptr_t)(*out)->problem.in + i);
    if (other) keep_form(&problem->out, &(*out)->problem.out);
    atomic_store(&real_launch[tactic->kind], (*out)->launch);
    (*out)->launch = launch;
    const bool weight = tactic->kind == QB_KIND_CONV || tactic->kind == QB_KIND_CONV_POOL;
    if (!weight || !constant[QB_IN_WEIGHT]) return QB_OK;
    if (problem->out.shape.dim[3] % 2 == 1) (*out)->workspace_bytes += fake_device_odd_scratch;
    (*out)->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    (*out)->packed_bytes = qb_desc_bytes(&problem->in[QB_IN_WEIGHT]);
    (*out)->packing_id = 1;
    (*out)->pack = pack;
    const qb_status status = compile(cx, problem, constant, *out);
    if (status == QB_OK) return QB_OK;
    qb_kernel_free(*out);
    *out = NULL;
    return status;
}

#define FAKE(NAME, KIND)                                                                           \
    static bool supports_##NAME(const qb_problem *p, const bool *constant) {                       \
        return supports(KIND, p, constant);                                                        \
    }                                                                                              \
    static const qb_tactic fake_##NAME = {.name = "cuda.fake_" #NAME,                              \
                                          .backend = "cuda",                                       \
                                          .kind = KIND,                                            \
                                          .device_memory = true,                                   \
                                          .supports = supports_##NAME,                             \
                                          .create = create};
FAKE(pool, QB_KIND_POOL)
FAKE(conv_pool, QB_KIND_CONV_POOL)
FAKE(unary, QB_KIND_UNARY)
FAKE(binary, QB_KIND_BINARY)
FAKE(copy, QB_KIND_COPY)

static bool supports_conv(const qb_problem *p, const bool *constant) {
    return p->in[0].layout != QB_LAYOUT_NHWC && supports(QB_KIND_CONV, p, constant);
}
static const qb_tactic fake_conv = {.name = "cuda.fake_conv",
                                    .backend = "cuda",
                                    .kind = QB_KIND_CONV,
                                    .device_memory = true,
                                    .supports = supports_conv,
                                    .create = create};

static bool supports_dependent(const qb_problem *p, const bool *constant) {
    const bool pixels = p->in[0].layout == QB_LAYOUT_NHWC;
    return fake_device_has_dependent_launch && pixels == fake_device_dependent_is_nhwc &&
           supports(QB_KIND_CONV, p, constant);
}
static const qb_tactic fake_dependent = {.name = "cuda.fake_conv_dependent",
                                         .backend = "cuda",
                                         .kind = QB_KIND_CONV,
                                         .device_memory = true,
                                         .supports = supports_dependent,
                                         .create = create};

static bool supports_library(const qb_problem *p, const bool *constant) {
    return fake_device_has_library && supports_conv(p, constant);
}
static const qb_tactic fake_library = {.name = "cuda.fake_conv.cudnn",
                                       .backend = "cuda",
                                       .kind = QB_KIND_CONV,
                                       .device_memory = true,
                                       .supports = supports_library,
                                       .create = create};

/* Attention of heads that lie anywhere. */
static bool supports_attention(const qb_problem *p, const bool *constant) {
    (void)constant;
    return fake_device_attends && p->n_in == 3 && p->in[0].dtype == QB_DTYPE_F16 &&
           p->out.dtype == QB_DTYPE_F16;
}

static double real(const void *data, int64_t at) {
    return (double)qb_f16_to_f32(((const uint16_t *)data)[at]);
}

/* The result of one query of a head. */
static void attend(const qb_attention *a, const qb_launch *args, double scale, int64_t n,
                   int64_t head, int64_t query) {
    const int64_t q = qb_token_at(&a->in[0], n, head, query),
                  out = qb_token_at(&a->out, n, head, query);
    double sum = 0, *weight = malloc((size_t)a->keys * sizeof *weight);
    assert(weight);
    for (int64_t t = 0; t < a->keys; t++) {
        const int64_t k = qb_token_at(&a->in[1], n, head, t);
        double score = 0;
        for (int64_t i = 0; i < a->size; i++)
            score += real(args->in[0], q + i) * real(args->in[1], k + i);
        sum += weight[t] = exp(scale * score);
    }
    for (int64_t i = 0; i < a->value_size; i++) {
        double y = 0;
        for (int64_t t = 0; t < a->keys; t++)
            y += weight[t] * real(args->in[2], qb_token_at(&a->in[2], n, head, t) + i);
        ((uint16_t *)args->out)[out + i] = qb_f32_to_f16((float)(y / sum));
    }
    free(weight);
}

static qb_status run_attention(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_problem *p = &kernel->problem;
    qb_attention a;
    if (!qb_attention_of(p, &a)) return qb_fail(cx, QB_STATUS_INTERNAL, "no attention");
    for (int64_t n = 0; n < a.batch; n++)
        for (int64_t head = 0; head < p->group; head++)
            for (int64_t t = 0; t < a.rows; t++) attend(&a, args, (double)p->scale, n, head, t);
    return QB_OK;
}

static qb_status create_attention(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                  const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    (void)threads;
    QB_TRY(qb_kernel_alloc(cx, tactic, problem, out));
    atomic_store(&real_launch[QB_KIND_ATTENTION], run_attention);
    (*out)->launch = launch;
    return QB_OK;
}
static const qb_tactic fake_attention = {.name = "cuda.fake_attention",
                                         .backend = "cuda",
                                         .kind = QB_KIND_ATTENTION,
                                         .device_memory = true,
                                         .supports = supports_attention,
                                         .create = create_attention};

/* Nodes by their operator's own evaluation. */
static qb_status run_node(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_problem *p = &kernel->problem;
    const bool product = p->kind == QB_KIND_MATMUL_INTEGER;
    int32_t ids[] = {0, 1, 2, 3}, outputs[] = {0, args->more[0] ? 1 : -1, args->more[1] ? 2 : -1};
    const qb_node node = {.op = qb_op_find(product ? "MatMulInteger" : "DynamicQuantizeLinear", ""),
                          .n_in = p->n_in,
                          .n_out = qb_kind_outputs(p->kind),
                          .in = ids,
                          .out = outputs};
    qb_tensor in[4] = {{.data = NULL}}, out[3] = {{.desc = p->out, .data = args->out}};
    for (int32_t i = 0; i < p->n_in; i++)
        in[i] = (qb_tensor){.desc = p->in[i], .data = (void *)(uintptr_t)args->in[i]};
    for (int32_t i = 1; i < node.n_out; i++) out[i].data = args->more[i - 1];
    return node.op->eval(cx, &node, in, out);
}

static bool supports_node(const qb_problem *p, const bool *constant) {
    (void)constant;
    return p->in[0].dtype != QB_DTYPE_F16 && p->in[0].q.n == 0;
}

static qb_status create_node(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                             const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    (void)threads;
    QB_TRY(qb_kernel_alloc(cx, tactic, problem, out));
    atomic_store(&real_launch[tactic->kind], run_node);
    (*out)->launch = launch;
    return QB_OK;
}
#define FAKE_NODE(NAME, KIND)                                                                      \
    static const qb_tactic fake_##NAME = {.name = "cuda.fake_" #NAME,                              \
                                          .backend = "cuda",                                       \
                                          .kind = KIND,                                            \
                                          .device_memory = true,                                   \
                                          .supports = supports_node,                               \
                                          .create = create_node};
FAKE_NODE(matmul_integer, QB_KIND_MATMUL_INTEGER)
FAKE_NODE(dynamic_quantize, QB_KIND_DYNAMIC_QUANTIZE)

/* ---- a wrong tactic of the processor ---- */

planted_tactic fake_planted_tactic;

static const qb_tactic *reference_conv(void);

static bool planted_supports(const qb_problem *p, const bool *constant) {
    return fake_planted_tactic != PLANTED_NONE && qb_tactic_takes(reference_conv(), p, constant);
}

static qb_status (*right_launch)(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args);

static qb_status wrong_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_status status = right_launch(cx, kernel, args);
    spoil(&kernel->problem.out, args->out);
    return status;
}

static qb_status launch_without_act(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    qb_kernel without = *kernel;
    without.problem.act = (qb_act){0};
    return right_launch(cx, &without, args);
}

static qb_status planted_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                const bool *constant, int threads, qb_kernel **out) {
    QB_TRY(reference_conv()->create(cx, tactic, problem, constant, threads, out));
    right_launch = (*out)->launch;
    (*out)->launch = fake_planted_tactic == PLANTED_EPILOGUE ? launch_without_act : wrong_launch;
    return QB_OK;
}

static const qb_tactic planted_conv = {.name = "cpu.planted_conv",
                                       .backend = "cpu",
                                       .kind = QB_KIND_CONV,
                                       .exactness = QB_EXACT,
                                       .supports = planted_supports,
                                       .create = planted_create};

/* ---- in place of the real ones ---- */

const qb_device_api *__wrap_qb_device_find(const char *backend);
const qb_tactic *const *__wrap_qb_tactics(void);
const qb_tactic *const *__real_qb_tactics(void);
const qb_tactic *__wrap_qb_tactic_find(const char *name);

const qb_device_api *__wrap_qb_device_find(const char *backend) {
    return strcmp(backend, "cuda") == 0 ? &fake : NULL;
}

static const qb_tactic *all_tactics[1024];

static void list_tactics(void) {
    static const qb_tactic *const fakes[] = {
        &fake_conv,      &fake_library,        &fake_dependent,        &fake_pool,
        &fake_conv_pool, &fake_unary,          &fake_binary,           &fake_copy,
        &fake_attention, &fake_matmul_integer, &fake_dynamic_quantize, &planted_conv};
    size_t n = 0;
    for (; n < sizeof fakes / sizeof *fakes; n++) all_tactics[n] = fakes[n];
    for (const qb_tactic *const *t = __real_qb_tactics(); *t; t++)
        if (!(*t)->device_memory) all_tactics[n++] = *t;
}

const qb_tactic *const *__wrap_qb_tactics(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, list_tactics);
    return all_tactics;
}

static const qb_tactic *reference_conv(void) { return __wrap_qb_tactic_find("ref.conv"); }

const qb_tactic *__wrap_qb_tactic_find(const char *name) {
    for (const qb_tactic *const *t = __wrap_qb_tactics(); *t; t++)
        if (strcmp((*t)->name, name) == 0) return *t;
    return NULL;
}
