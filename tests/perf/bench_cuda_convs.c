/* Times the CUDA convolutions on the fifteen convolution shapes of ResNet-50, beside cuDNN's best
 * plan and the floor.
 *
 *   bench_cuda_convs [--batch N] [--json FILE] [--replays N] [--only I] [--no-cudnn] [--quantized
 * values]
 *
 * Each launch of a captured graph works on its own set of buffers, together well beyond the L2
 * cache; a time is that of a replay divided by its launches, and the figure is the median of the
 * replays. Data are random. cuDNN gets s8 data and results (u8 is not for it) and the same
 * epilogue: scale per channel, bias, ReLU, requantize. Its time is that of the fastest of all plans
 * of all its heuristics and of all other engines that take the problem. The same in FP16, unless
 * --quantized values: ours, and cuDNN's with bias and ReLU. The JSON is written after each shape.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_timing.h"
#include "kernels/cuda/vendor/cudnn_graph.h"

#define FLOOR_OPS 1979e12  /* 8-bit operations a second, the H200's datasheet */
#define FLOOR_BYTES 4.3e12 /* bytes a second, measured by copies */
#define TRIAL_REPLAYS 15
#define MAX_TACTICS 32

typedef struct shape {
    int64_t in_c, side, out_c, kernel, stride;
    int count; /* occurrences in the network */
} shape;

static const shape shapes[] = {
    {64, 56, 64, 1, 1, 1},   {64, 56, 64, 3, 1, 3},    {64, 56, 256, 1, 1, 4},
    {256, 56, 64, 1, 1, 2},  {256, 56, 128, 1, 1, 1},  {128, 56, 128, 3, 2, 1},
    {128, 28, 512, 1, 1, 4}, {512, 28, 128, 1, 1, 3},  {128, 28, 128, 3, 1, 3},
    {256, 14, 256, 3, 1, 5}, {1024, 14, 256, 1, 1, 5}, {256, 14, 1024, 1, 1, 6},
    {512, 7, 512, 3, 1, 2},  {2048, 7, 512, 1, 1, 2},  {512, 7, 2048, 1, 1, 3}};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

typedef struct options {
    int64_t batch;
    int replays, only;
    bool cudnn, f16;
    const char *json;
} options;

typedef struct timing {
    const char *name;
    char impl[64];
    double us; /* 0: does not run this problem */
} timing;

typedef struct result {
    timing tactic[MAX_TACTICS];
    int n, best;
    double floor_us, ops, bytes;
    timing cudnn, f16, cudnn_f16; /* cuDNN on s8; the best of ours, and cuDNN, on f16 */
    int32_t plans, f16_plans;     /* of cuDNN, timed */
} result;

/* The problem of a shape and what it points to. */
typedef struct job {
    qb_problem problem;
    qb_desc in[4];
    bool constant[4];
    float scale[2], *weight_scale;
    int8_t *weight;
    int32_t *bias;
    float *f16_weight, *f16_bias; /* what f16 problems have instead */
} job;

static void set_desc(qb_desc *d, qb_dtype dtype, int64_t n, int64_t c, int64_t side,
                     const float *scale, int32_t n_scales) {
    *d = (qb_desc){
        .dtype = dtype,
        .layout = QB_LAYOUT_ANY,
        .shape = {.rank = 4, .dim = {n, c, side, side}},
        .q = {.dtype = dtype, .axis = n_scales > 1 ? 0 : -1, .n = n_scales, .scale = scale}};
}

static qb_status job_init(qb_ctx *cx, job *j, const shape *s, int64_t batch, qb_dtype dtype,
                          qb_rng *rng) {
    int64_t weights = s->out_c * s->in_c * s->kernel * s->kernel, pad = s->kernel / 2;
    *j = (job){.scale = {0.02f}};
    j->weight_scale = qb_alloc(cx, (size_t)s->out_c, sizeof(float));
    j->weight = qb_alloc(cx, (size_t)weights, 1);
    j->bias = qb_alloc(cx, (size_t)s->out_c, sizeof(int32_t));
    j->f16_weight = qb_alloc(cx, (size_t)weights, sizeof(float));
    j->f16_bias = qb_alloc(cx, (size_t)s->out_c, sizeof(float));
    if (!j->weight_scale || !j->weight || !j->bias || !j->f16_weight || !j->f16_bias)
        return QB_STATUS_NOMEM;
    for (int64_t i = 0; i < weights; i++) {
        j->weight[i] = (int8_t)((int)qb_rng_below(rng, 255) - 127);
        j->f16_weight[i] = (float)j->weight[i] / 1024.0f;
    }
    for (int64_t i = 0; i < s->out_c; i++) {
        j->weight_scale[i] = 0.002f + 0.002f * (float)qb_rng_uniform(rng);
        j->bias[i] = (int32_t)qb_rng_below(rng, 20001) - 10000;
    }
    j->scale[1] = (float)(sqrt((double)(weights / s->out_c)) * 90.0 * 74.0 * 0.02 * 0.003 / 60.0);
    int64_t out_side = (s->side - 1) / s->stride + 1;
    set_desc(&j->in[0], dtype, batch, s->in_c, s->side, &j->scale[0], 1);
    set_desc(&j->in[1], QB_DTYPE_S8, s->out_c, s->in_c, s->kernel, j->weight_scale,
             (int32_t)s->out_c);
    j->in[1].layout = QB_LAYOUT_ROW;
    j->in[2] = (qb_desc){.dtype = QB_DTYPE_S32, .shape = {.rank = 1, .dim = {s->out_c}}};
    j->problem = (qb_problem){.kind = QB_KIND_CONV,
                              .n_in = 4,
                              .in = j->in,
                              .group = 1,
                              .scale = 1.0f,
                              .act = {.kind = QB_ACT_RELU}};
    set_desc(&j->problem.out, dtype, batch, s->out_c, out_side, &j->scale[1], 1);
    j->problem.window = (qb_window){.n = 2,
                                    .kernel = {s->kernel, s->kernel},
                                    .stride = {s->stride, s->stride},
                                    .dilation = {1, 1},
                                    .pad_begin = {pad, pad},
                                    .pad_end = {pad, pad}};
    j->constant[1] = j->constant[2] = true;
    if (dtype == QB_DTYPE_F16) {
        qb_desc *floats[] = {&j->in[0], &j->in[1], &j->in[2], &j->problem.out};
        for (int i = 0; i < 4; i++) {
            floats[i]->dtype = i == 1 || i == 2 ? QB_DTYPE_F32 : QB_DTYPE_F16;
            floats[i]->q = (qb_qparams){.axis = -1};
        }
    }
    return QB_OK;
}

static void job_release(job *j) {
    qb_free(j->weight_scale);
    qb_free(j->weight);
    qb_free(j->bias);
    qb_free(j->f16_weight);
    qb_free(j->f16_bias);
}

/* Times one tactic; us stays 0 when it does not take the problem. */
static qb_status time_tactic(qb_ctx *cx, const job *j, const qb_tactic *t, const timing_sets *s,
                             int replays, timing *out) {
    const bool f16 = j->in[0].dtype == QB_DTYPE_F16;
    const void *constants[4] = {NULL, f16 ? (void *)j->f16_weight : j->weight,
                                f16 ? (void *)j->f16_bias : j->bias, NULL};
    *out = (timing){.name = t->name};
    return timing_tactic(cx, t, &j->problem, j->constant, constants, s, replays, &out->us,
                         out->impl);
}

static bool is_ours(const qb_tactic *t) {
    return t->kind == QB_KIND_CONV && t->device_memory && !strstr(t->name, "cudnn") &&
           strncmp(t->name, "cuda.conv_", strlen("cuda.conv_")) == 0;
}

/* Times the fastest of the trial again, with all replays, until the fastest is one of those. */
static qb_status time_best(qb_ctx *cx, const options *o, const job *j, const timing_sets *s,
                           result *r) {
    bool timed[MAX_TACTICS] = {false};
    for (;;) {
        int best = -1;
        for (int i = 0; i < r->n; i++)
            if (best < 0 || r->tactic[i].us < r->tactic[best].us) best = i;
        r->best = best;
        if (best < 0 || timed[best]) return QB_OK;
        timing *to = &r->tactic[best];
        QB_TRY(time_tactic(cx, j, qb_tactic_find(to->name), s, o->replays, to));
        timed[best] = true;
    }
}

/* The best of ours on a job; leaves the list of all in *r. */
static qb_status time_ours(qb_ctx *cx, const options *o, const job *j, const timing_sets *s,
                           result *r) {
    r->n = 0;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        if (!is_ours(*t) || r->n == MAX_TACTICS) continue;
        timing *to = &r->tactic[r->n];
        QB_TRY(time_tactic(cx, j, *t, s, TRIAL_REPLAYS, to));
        r->n += to->us > 0.0;
    }
    return time_best(cx, o, j, s, r);
}

static qb_status time_cudnn(qb_ctx *cx, const options *o, const job *j, const timing_sets *s,
                            const char *name, timing *out, int32_t *plans) {
    const qb_tactic *cudnn = qb_tactic_find(name);
    if (!o->cudnn || !cudnn) return QB_OK;
    QB_TRY(time_tactic(cx, j, cudnn, s, o->replays, out));
    *plans = out->us > 0.0 ? qb_cudnn_tried() : 0;
    return QB_OK;
}

static qb_status bench_f16(qb_ctx *cx, const options *o, const qb_cuda_device *device,
                           const shape *sh, qb_rng *rng, result *r) {
    static result ours;
    qb_status status = QB_OK;
    job j = {0};
    timing_sets s = {.n = 0};
    ours = (result){.best = -1};
    QB_GO(job_init(cx, &j, sh, o->batch, QB_DTYPE_F16, rng));
    QB_GO(timing_sets_open(cx, &s, device, &j.problem, j.constant));
    QB_GO(time_ours(cx, o, &j, &s, &ours));
    if (ours.best >= 0) r->f16 = ours.tactic[ours.best];
    QB_GO(time_cudnn(cx, o, &j, &s, "cuda.conv_f16.cudnn", &r->cudnn_f16, &r->f16_plans));
out:
    timing_sets_close(&s);
    job_release(&j);
    return status;
}

static qb_status bench_quantized(qb_ctx *cx, const options *o, const qb_cuda_device *device,
                                 const shape *sh, qb_rng *rng, result *r) {
    qb_status status = QB_OK;
    job ours = {0}, theirs = {0};
    timing_sets s = {.n = 0};
    QB_GO(job_init(cx, &ours, sh, o->batch, QB_DTYPE_U8, rng));
    QB_GO(job_init(cx, &theirs, sh, o->batch, QB_DTYPE_S8, rng));
    size_t in_bytes = (size_t)qb_shape_count(&ours.in[0].shape);
    size_t out_bytes = (size_t)qb_shape_count(&ours.problem.out.shape);
    QB_GO(timing_sets_open(cx, &s, device, &ours.problem, ours.constant));
    r->ops = qb_problem_flops(&ours.problem);
    r->bytes = (double)(in_bytes + out_bytes) + (double)qb_shape_count(&ours.in[1].shape);
    r->floor_us = 1e6 * fmax(r->ops / FLOOR_OPS, r->bytes / FLOOR_BYTES);
    QB_GO(time_ours(cx, o, &ours, &s, r));
    QB_GO(time_cudnn(cx, o, &theirs, &s, "cuda.conv_s8.cudnn", &r->cudnn, &r->plans));
out:
    timing_sets_close(&s);
    job_release(&ours);
    job_release(&theirs);
    return status;
}

static qb_status bench_shape(qb_ctx *cx, const options *o, const qb_cuda_device *device,
                             const shape *sh, result *r) {
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    *r = (result){.best = -1};
    QB_TRY(bench_quantized(cx, o, device, sh, &rng, r));
    return o->f16 ? bench_f16(cx, o, device, sh, &rng, r) : QB_OK;
}

static void print_result(const shape *s, const result *r) {
    const timing *best = r->best < 0 ? NULL : &r->tactic[r->best];
    printf(
        "%4lld %2lld %4lld %lldx%lld/%lld  %7.1f  %7.1f  %5d  %6.1f  %5.2f  %6.0f  %5.2f  %7.1f  "
        "%7.1f  %s\n",
        (long long)s->in_c, (long long)s->side, (long long)s->out_c, (long long)s->kernel,
        (long long)s->kernel, (long long)s->stride, best ? best->us : 0.0, r->cudnn.us,
        (int)r->plans, r->floor_us, best && r->cudnn.us > 0 ? r->cudnn.us / best->us : 0.0,
        best ? r->ops / best->us * 1e-6 : 0.0, best ? r->bytes / best->us * 1e-6 : 0.0, r->f16.us,
        r->cudnn_f16.us, best ? best->name : "-");
    for (int i = 0; i < r->n; i++)
        printf("    %-40s %8.1f us\n", r->tactic[i].name, r->tactic[i].us);
    fflush(stdout);
}

static void write_f16(FILE *f, const result *r) {
    fprintf(f,
            "\"f16_us\": %.2f, \"f16_tactic\": \"%s\", \"cudnn_f16_us\": %.2f, \"cudnn_f16\": "
            "\"%s\", \"cudnn_f16_plans\": %d, ",
            r->f16.us, r->f16.name ? r->f16.name : "", r->cudnn_f16.us, r->cudnn_f16.impl,
            (int)r->f16_plans);
}

static void write_shape(FILE *f, const options *o, const shape *s, const result *r,
                        const char *end) {
    const timing *best = r->best < 0 ? NULL : &r->tactic[r->best];
    fprintf(f,
            "    {\"c\": %lld, \"h\": %lld, \"k\": %lld, \"r\": %lld, \"stride\": %lld, \"count\": "
            "%d, \"ours_us\": %.2f, \"tactic\": \"%s\", \"cudnn_us\": %.2f, \"cudnn\": \"%s\", "
            "\"cudnn_plans\": %d, ",
            (long long)s->in_c, (long long)s->side, (long long)s->out_c, (long long)s->kernel,
            (long long)s->stride, s->count, best ? best->us : 0.0, best ? best->name : "",
            r->cudnn.us, r->cudnn.impl, (int)r->plans);
    if (o->f16) write_f16(f, r);
    fprintf(f, "\"floor_us\": %.2f, \"operations\": %.0f, \"bytes\": %.0f, \"tactics_us\": {",
            r->floor_us, r->ops, r->bytes);
    for (int i = 0; i < r->n; i++)
        fprintf(f, "%s\"%s\": %.2f", i ? ", " : "", r->tactic[i].name, r->tactic[i].us);
    fprintf(f, "}}%s\n", end);
}

static bool is_asked(const options *o, size_t i) { return o->only < 0 || (size_t)o->only == i; }

/* The results of the shapes before `end`. */
static int write_json(const options *o, const qb_cuda_device *d, const result *r, size_t end) {
    if (!o->json) return 0;
    FILE *f = fopen(o->json, "w");
    if (!f) {
        perror(o->json);
        return 1;
    }
    fprintf(f,
            "{\n  \"schema\": \"qbench.cuda_convs/1\",\n  \"device\": \"%s\",\n  \"driver\": %d,\n"
            "  \"runtime\": %d,\n  \"batch\": %lld,\n  \"replays\": %d,\n  \"shapes\": [\n",
            d->name, d->driver, d->runtime, (long long)o->batch, o->replays);
    for (size_t i = 0; i < end; i++)
        if (is_asked(o, i))
            write_shape(f, o, &shapes[i], &r[i], i + 1 < end && o->only < 0 ? "," : "");
    fprintf(f, "  ]\n}\n");
    return fclose(f) == 0 ? 0 : 1;
}

static bool parse(int argc, char **argv, options *o) {
    *o = (options){.batch = 128, .replays = 200, .only = -1, .cudnn = true, .f16 = true};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool *off = strcmp(argv[i], "--no-cudnn") == 0 ? &o->cudnn
                    : strcmp(argv[i], "--codes") == 0  ? &o->f16
                                                       : NULL;
        if (off) {
            *off = false;
            continue;
        }
        if (!value) return false;
        if (strcmp(argv[i], "--batch") == 0)
            o->batch = atoll(value);
        else if (strcmp(argv[i], "--replays") == 0)
            o->replays = atoi(value);
        else if (strcmp(argv[i], "--only") == 0)
            o->only = atoi(value);
        else if (strcmp(argv[i], "--json") == 0)
            o->json = value;
        else
            return false;
        i++;
    }
    return o->batch > 0 && o->replays > 0;
}

static void print_summary(const options *o, const result *r) {
    double ours = 0.0, cudnn = 0.0, lowest = 0.0, f16 = 0.0, cudnn_f16 = 0.0;
    int ahead = 0, f16_ahead = 0, n = 0;
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (!is_asked(o, i) || r[i].best < 0) continue;
        double us = r[i].tactic[r[i].best].us;
        ours += shapes[i].count * us;
        cudnn += shapes[i].count * r[i].cudnn.us;
        f16 += shapes[i].count * r[i].f16.us;
        cudnn_f16 += shapes[i].count * r[i].cudnn_f16.us;
        f16_ahead += r[i].f16.us < r[i].cudnn_f16.us;
        lowest += shapes[i].count * r[i].floor_us;
        ahead += us < r[i].cudnn.us;
        n++;
    }
    printf("ahead of cuDNN on %d of %d; times count: ours %.0f us, cuDNN %.0f us, floor %.0f us\n",
           ahead, n, ours, cudnn, lowest);
    if (!o->f16) return;
    printf("FP16: ahead on %d of %d; ours %.0f us, cuDNN %.0f us\n", f16_ahead, n, f16, cudnn_f16);
}

int main(int argc, char **argv) {
    options o;
    qb_ctx cx;
    qb_cuda_device device;
    static result results[N_SHAPES];
    qb_ctx_init(&cx);
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: %s [--batch N] [--json FILE] [--replays N] [--only I] [--no-cudnn] "
                "[--codes]\n",
                argv[0]);
        return 2;
    }
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) {
        printf("skipped: %s\n", cx.message);
        return 77;
    }
    qb_cudnn_try_all(true);
    printf("%s, batch %lld, median of %d replays, us a launch\n", device.name, (long long)o.batch,
           o.replays);
    printf("   C  H    K conv        ours    cuDNN  plans   floor  ratio    TOPS   TB/s     FP16   "
           " cuDNN "
           " tactic\n");
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (!is_asked(&o, i)) continue;
        if (bench_shape(&cx, &o, &device, &shapes[i], &results[i]) != QB_OK) {
            printf("failed: %s\n", cx.message);
            return 1;
        }
        print_result(&shapes[i], &results[i]);
        if (write_json(&o, &device, results, i + 1) != 0) return 1;
    }
    print_summary(&o, results);
    return 0;
}
