/* Times every CUDA tactic on the steps that networks are made of, beside the floor: the larger of
 * operations over the unit's rate and bytes (each tensor once) over the memory's.
 *
 *   bench_cuda_ops [--batch N] [--json FILE] [--replays N] [--only TEXT]
 *
 * Prints, and writes as JSON, for each problem and tactic: microseconds a launch in graph replay
 * (see cuda_timing.h), bytes, GB/s, TOPS. --only: problems whose name contains the text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_timing.h"

#define FLOOR_BYTES 4.3e12     /* bytes a second, measured by copies on an H200 */
#define FLOOR_OPS_CODE 1979e12 /* the datasheet's, of quantized values ... */
#define FLOOR_OPS_HALF 989e12  /* ... and of f16 */

#define U8 QB_DTYPE_U8
#define F16 QB_DTYPE_F16
#define F32 QB_DTYPE_F32
#define S32 QB_DTYPE_S32

/* A step: [batch, c, side, side] images, or [batch rows, c] matrices where `rows` is set. */
typedef struct step {
    const char *name;
    qb_kind kind;
    qb_dtype in, out;
    int c, side, out_c, kernel, stride, group;
    int rows; /* of one item */
    qb_act_kind act;
    bool residual, from_row; /* from_row: the data is row-major, the result channels last */
    qb_pool_kind pool;
} step;

#define CONV(NAME, TYPE, C, SIDE, OUT, KERNEL, STRIDE, GROUP)                                      \
    {                                                                                              \
        .name = NAME, .kind = QB_KIND_CONV, .in = TYPE, .out = TYPE, .c = C, .side = SIDE,         \
        .out_c = OUT, .kernel = KERNEL, .stride = STRIDE, .group = GROUP, .act = QB_ACT_RELU       \
    }
#define BOTH(NAME, C, SIDE, OUT, KERNEL, STRIDE, GROUP)                                            \
    CONV(NAME "_u8", U8, C, SIDE, OUT, KERNEL, STRIDE, GROUP),                                     \
        CONV(NAME "_f16", F16, C, SIDE, OUT, KERNEL, STRIDE, GROUP)
#define IMAGE(NAME, KIND, IN, OUT, C, SIDE, ...)                                                   \
    {                                                                                              \
        .name = NAME, .kind = KIND, .in = IN, .out = OUT, .c = C, .side = SIDE, .out_c = C,        \
        __VA_ARGS__                                                                                \
    }
#define MATRIX(NAME, KIND, IN, OUT, ROWS, C, OUT_C, ...)                                           \
    {                                                                                              \
        .name = NAME, .kind = KIND, .in = IN, .out = OUT, .rows = ROWS, .c = C, .out_c = OUT_C,    \
        __VA_ARGS__                                                                                \
    }

static const step steps[] = {
    BOTH("stem_7x7", 3, 224, 64, 7, 2, 1),
    BOTH("stem_3x3", 3, 224, 32, 3, 2, 1),
    BOTH("depthwise_32_112", 32, 112, 32, 3, 1, 32),
    BOTH("depthwise_96_112_s2", 96, 112, 96, 3, 2, 96),
    BOTH("depthwise_384_14", 384, 14, 384, 3, 1, 384),
    BOTH("depthwise_5x5_240_28", 240, 28, 240, 5, 1, 240),
    CONV("conv_64_56_3x3_f16", F16, 64, 56, 64, 3, 1, 1),
    CONV("conv_64_56_256_f16", F16, 64, 56, 256, 1, 1, 1),
    CONV("conv_256_56_64_f16", F16, 256, 56, 64, 1, 1, 1),
    CONV("conv_128_28_3x3_f16", F16, 128, 28, 128, 3, 1, 1),
    CONV("conv_256_14_3x3_f16", F16, 256, 14, 256, 3, 1, 1),
    CONV("conv_1024_14_256_f16", F16, 1024, 14, 256, 1, 1, 1),
    CONV("conv_512_7_3x3_f16", F16, 512, 7, 512, 3, 1, 1),
    CONV("conv_512_7_2048_f16", F16, 512, 7, 2048, 1, 1, 1),
    IMAGE("max_pool_64_112_u8", QB_KIND_POOL, U8, U8, 64, 112, .kernel = 3, .stride = 2),
    IMAGE("max_pool_64_112_f16", QB_KIND_POOL, F16, F16, 64, 112, .kernel = 3, .stride = 2),
    IMAGE("global_pool_2048_u8", QB_KIND_POOL, U8, U8, 2048, 7, .kernel = 7, .stride = 1,
          .pool = QB_POOL_AVG),
    IMAGE("global_pool_2048_f16", QB_KIND_POOL, F16, F16, 2048, 7, .kernel = 7, .stride = 1,
          .pool = QB_POOL_AVG),
    IMAGE("add_256_56_u8", QB_KIND_BINARY, U8, U8, 256, 56, .act = QB_ACT_RELU),
    IMAGE("add_256_56_f16", QB_KIND_BINARY, F16, F16, 256, 56, .act = QB_ACT_RELU),
    IMAGE("input_f32_u8", QB_KIND_COPY, F32, U8, 3, 224, .from_row = true),
    IMAGE("input_f32_f16", QB_KIND_COPY, F32, F16, 3, 224, .from_row = true),
    IMAGE("to_rows_f16", QB_KIND_COPY, F16, F32, 256, 14, .from_row = false),
    IMAGE("requantize_u8", QB_KIND_COPY, U8, U8, 256, 28, .from_row = false),
    IMAGE("silu_96_112_u8", QB_KIND_UNARY, U8, U8, 96, 112, .act = QB_ACT_SILU),
    IMAGE("silu_96_112_f16", QB_KIND_UNARY, F16, F16, 96, 112, .act = QB_ACT_SILU),
    MATRIX("fc_2048_1000_u8", QB_KIND_MATMUL, U8, U8, 1, 2048, 1000, .act = QB_ACT_NONE),
    MATRIX("fc_2048_1000_f16", QB_KIND_MATMUL, F16, F16, 1, 2048, 1000, .act = QB_ACT_NONE),
    MATRIX("mlp_768_3072_u8", QB_KIND_MATMUL, U8, U8, 197, 768, 3072, .act = QB_ACT_NONE),
    MATRIX("mlp_768_3072_gelu_f16", QB_KIND_MATMUL, F16, F16, 197, 768, 3072, .act = QB_ACT_GELU),
    MATRIX("mlp_3072_768_f16", QB_KIND_MATMUL, F16, F16, 197, 3072, 768, .residual = true),
    MATRIX("gelu_3072_f16", QB_KIND_UNARY, F16, F16, 197, 3072, 3072, .act = QB_ACT_GELU),
    MATRIX("softmax_12x197_f16", QB_KIND_SOFTMAX, F16, F16, 12 * 197, 197, 197, .act = QB_ACT_NONE),
    MATRIX("layer_norm_768_f16", QB_KIND_LAYER_NORM, F16, F16, 197, 768, 768, .act = QB_ACT_NONE),
    MATRIX("layer_norm_768_u8", QB_KIND_LAYER_NORM, U8, U8, 197, 768, 768, .act = QB_ACT_NONE),
    MATRIX("mlp_768_3072_gelu_u8", QB_KIND_MATMUL, U8, U8, 197, 768, 3072, .act = QB_ACT_GELU),
    MATRIX("mlp_3072_768_u8", QB_KIND_MATMUL, U8, U8, 197, 3072, 768, .residual = true),
    MATRIX("project_768_u8", QB_KIND_MATMUL, U8, U8, 197, 768, 768, .residual = true),
    MATRIX("queries_768_u8", QB_KIND_MATMUL, U8, F16, 197, 768, 768, .act = QB_ACT_NONE),
    MATRIX("queries_768_f16", QB_KIND_MATMUL, F16, F16, 197, 768, 768, .act = QB_ACT_NONE),
    MATRIX("attention_197_f16", QB_KIND_ATTENTION, F16, F16, 197, 768, 768, .group = 12),
    MATRIX("attention_197_u8", QB_KIND_ATTENTION, F16, U8, 197, 768, 768, .group = 12),
    MATRIX("attention_128_f16", QB_KIND_ATTENTION, F16, F16, 128, 768, 768, .group = 12),
    MATRIX("integer_768_3072", QB_KIND_MATMUL_INTEGER, U8, S32, 128, 768, 3072, .act = QB_ACT_NONE),
    MATRIX("dynamic_768", QB_KIND_DYNAMIC_QUANTIZE, F32, U8, 128, 768, 768, .act = QB_ACT_NONE),
};
#define N_STEPS (sizeof steps / sizeof *steps)

typedef struct options {
    int batch, replays;
    const char *json, *only;
} options;

/* The problem of a step and what it points to. */
typedef struct job {
    qb_problem problem;
    qb_desc in[4];
    bool constant[4];
    void *constants[4];
    float scale[3], weight_scale;
} job;

static qb_desc desc_of(const job *j, qb_dtype dtype, qb_shape shape, int scale) {
    qb_desc d = {.dtype = dtype, .layout = QB_LAYOUT_ROW, .shape = shape, .q = {.axis = -1}};
    if (shape.rank == 4) d.layout = QB_LAYOUT_NHWC;
    if (dtype == U8) d.q = (qb_qparams){U8, -1, 1, &j->scale[scale], NULL};
    return d;
}

static qb_status set_constant(qb_ctx *cx, job *j, int input, qb_dtype dtype, qb_shape shape,
                              qb_rng *rng) {
    int64_t n = qb_shape_count(&shape);
    void *data = qb_alloc(cx, (size_t)n, 4);
    if (!data) return QB_STATUS_NOMEM;
    j->in[input] = (qb_desc){.dtype = dtype, .shape = shape, .q = {.axis = -1}};
    if (dtype == QB_DTYPE_S8)
        j->in[input].q = (qb_qparams){QB_DTYPE_S8, -1, 1, &j->weight_scale, NULL};
    for (int64_t i = 0; i < n; i++)
        if (dtype == F32)
            ((float *)data)[i] = (float)qb_rng_uniform(rng) - 0.5f;
        else if (dtype == QB_DTYPE_S32)
            ((int32_t *)data)[i] = (int32_t)qb_rng_below(rng, 2001) - 1000;
        else
            ((int8_t *)data)[i] = (int8_t)((int)qb_rng_below(rng, 255) - 127);
    j->constants[input] = data;
    j->constant[input] = true;
    return QB_OK;
}

static qb_status job_init(qb_ctx *cx, job *j, const step *s, int batch, qb_rng *rng) {
    bool quantized = s->in == U8, image = s->rows == 0;
    qb_problem *p = &j->problem;
    *j = (job){.scale = {0.02f, 0.05f, 0.03f}, .weight_scale = 0.002f};
    *p = (qb_problem){.kind = s->kind, .n_in = 1, .in = j->in, .group = s->group, .scale = 1.0f};
    p->act.kind = s->act;
    p->pool = s->pool;
    p->axis = 1;
    p->epsilon = 1e-5f;
    int side = s->side, pad = s->kernel / 2, stride = s->stride > 0 ? s->stride : 1;
    if (s->kind == QB_KIND_POOL && s->kernel == side) pad = 0;
    int out_side = s->kernel > 0 ? (side + 2 * pad - s->kernel) / stride + 1 : side;
    qb_shape x =
        image ? qb_shape_of(4, batch, s->c, side, side) : qb_shape_of(2, batch * s->rows, s->c);
    qb_shape y = image ? qb_shape_of(4, batch, s->out_c, out_side, out_side)
                       : qb_shape_of(2, batch * s->rows, s->out_c);
    j->in[0] = desc_of(j, s->in, x, 0);
    p->out = desc_of(j, s->out, y, 1);
    if (s->from_row) j->in[0].layout = QB_LAYOUT_ROW;
    if (s->kind == QB_KIND_COPY && s->out == F32) p->out.layout = QB_LAYOUT_ROW;
    p->window = (qb_window){.n = 2,
                            .kernel = {s->kernel, s->kernel},
                            .stride = {stride, stride},
                            .dilation = {1, 1},
                            .pad_begin = {pad, pad},
                            .pad_end = {pad, pad}};
    qb_dtype weight = quantized ? QB_DTYPE_S8 : F32, bias = quantized ? QB_DTYPE_S32 : F32;
    if (s->kind == QB_KIND_CONV || s->kind == QB_KIND_MATMUL) {
        qb_shape w = image ? qb_shape_of(4, s->out_c, s->c / s->group, s->kernel, s->kernel)
                           : qb_shape_of(2, s->c, s->out_c);
        p->n_in = s->residual ? 4 : 3;
        QB_TRY(set_constant(cx, j, QB_IN_WEIGHT, weight, w, rng));
        QB_TRY(set_constant(cx, j, QB_IN_BIAS, bias, qb_shape_of(1, s->out_c), rng));
        if (s->residual) j->in[QB_IN_RESIDUAL] = desc_of(j, s->out, y, 2);
    } else if (s->kind == QB_KIND_BINARY) {
        p->n_in = 2;
        j->in[1] = desc_of(j, s->in, x, 2);
    } else if (s->kind == QB_KIND_ATTENTION) {
        p->n_in = 3;
        p->scale = 0.125f; /* heads of 64 */
        p->out.shape = qb_shape_of(3, batch, s->rows, s->c);
        for (int i = 0; i < 3; i++) {
            j->in[i] = j->in[0];
            j->in[i].shape = p->out.shape;
        }
    } else if (s->kind ==
               QB_KIND_MATMUL_INTEGER) { /* quantized values of no scale, both with a zero point */
        p->n_in = 4;
        QB_TRY(set_constant(cx, j, QB_IN_WEIGHT, weight, qb_shape_of(2, s->c, s->out_c), rng));
        j->in[QB_IN_DATA_ZERO] = (qb_desc){.dtype = U8, .q.axis = -1};
        j->in[QB_IN_WEIGHT_ZERO] = (qb_desc){.dtype = QB_DTYPE_S8, .q.axis = -1};
        for (int i = 0; i < 2; i++) j->in[i].q = (qb_qparams){.axis = -1};
    } else if (s->kind == QB_KIND_DYNAMIC_QUANTIZE) {
        p->out.q = (qb_qparams){.axis = -1};
    } else if (s->kind == QB_KIND_LAYER_NORM) {
        p->n_in = 3;
        for (int i = 1; i < 3; i++) QB_TRY(set_constant(cx, j, i, F32, qb_shape_of(1, s->c), rng));
    }
    return QB_OK;
}

static void job_release(job *j) {
    for (int i = 0; i < 4; i++) qb_free(j->constants[i]);
}

static double bytes_of(const job *j) {
    double bytes = (double)qb_desc_bytes(&j->problem.out);
    for (int32_t i = 0; i < j->problem.n_in; i++) bytes += (double)qb_desc_bytes(&j->in[i]);
    return bytes;
}

/* All tactics on one step. */
static qb_status bench_step(qb_ctx *cx, const options *o, const qb_cuda_device *device,
                            const step *s, FILE *json, const char **comma) {
    qb_status status = QB_OK;
    job j = {0};
    timing_sets sets = {.n = 0};
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    QB_GO(job_init(cx, &j, s, o->batch, &rng));
    QB_GO(timing_sets_open(cx, &sets, device, &j.problem, j.constant));
    bool multiplies = s->kind == QB_KIND_CONV || s->kind == QB_KIND_MATMUL;
    multiplies = multiplies || s->kind == QB_KIND_ATTENTION || s->kind == QB_KIND_MATMUL_INTEGER;
    double ops = multiplies ? qb_problem_flops(&j.problem) : 0.0, bytes = bytes_of(&j);
    double rate = s->in == U8 ? FLOOR_OPS_CODE : FLOOR_OPS_HALF;
    double floor_us = 1e6 * fmax(ops / rate, bytes / FLOOR_BYTES);
    printf("%s: floor %.1f us\n", s->name, floor_us);
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        char impl[64] = "";
        double us = 0.0;
        if ((*t)->kind != s->kind || !(*t)->device_memory) continue;
        QB_GO(timing_tactic(cx, *t, &j.problem, j.constant, (const void *const *)j.constants, &sets,
                            o->replays, &us, impl));
        if (us <= 0.0) continue;
        printf("    %-40s %9.1f us %7.0f GB/s %7.1f TOPS %6.2f of the floor  %s\n", (*t)->name, us,
               bytes / us * 1e-3, ops / us * 1e-6, floor_us / us, impl);
        fflush(stdout);
        if (!json) continue;
        fprintf(json,
                "%s\n    {\"problem\": \"%s\", \"tactic\": \"%s\", \"us\": %.2f, \"bytes\": %.0f, "
                "\"gb_per_s\": %.1f, \"tops\": %.2f, \"floor_us\": %.2f}",
                *comma, s->name, (*t)->name, us, bytes, bytes / us * 1e-3, ops / us * 1e-6,
                floor_us);
        *comma = ",";
    }
out:
    timing_sets_close(&sets);
    job_release(&j);
    return status;
}

static bool parse(int argc, char **argv, options *o) {
    *o = (options){.batch = 128, .replays = 50};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--batch") == 0)
            o->batch = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--replays") == 0)
            o->replays = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            o->json = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            o->only = argv[i + 1];
        else
            return false;
    }
    return argc % 2 == 1 && o->batch > 0 && o->replays > 0;
}

int main(int argc, char **argv) {
    options o;
    qb_ctx cx;
    qb_cuda_device device;
    qb_ctx_init(&cx);
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: %s [--batch N] [--json FILE] [--replays N] [--only TEXT]\n",
                argv[0]);
        return 2;
    }
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) {
        printf("skipped: %s\n", cx.message);
        return 77;
    }
    FILE *json = o.json ? fopen(o.json, "w") : NULL;
    if (o.json && !json) {
        perror(o.json);
        return 1;
    }
    printf("%s, batch %d, median of %d replays, us a launch\n", device.name, o.batch, o.replays);
    if (json)
        fprintf(
            json,
            "{\n  \"schema\": \"qbench.cuda_ops/1\",\n  \"device\": \"%s\",\n  \"driver\": %d,\n"
            "  \"runtime\": %d,\n  \"batch\": %d,\n  \"replays\": %d,\n  \"steps\": [",
            device.name, device.driver, device.runtime, o.batch, o.replays);
    const char *comma = "";
    int failed = 0;
    for (size_t i = 0; i < N_STEPS; i++) {
        if (o.only && !strstr(steps[i].name, o.only)) continue;
        if (bench_step(&cx, &o, &device, &steps[i], json, &comma) == QB_OK) continue;
        printf("%s failed: %s\n", steps[i].name, cx.message);
        qb_ctx_clear(&cx);
        failed = 1;
    }
    if (!json) return failed;
    fprintf(json, "\n  ]\n}\n");
    return fclose(json) == 0 ? failed : 1;
}
