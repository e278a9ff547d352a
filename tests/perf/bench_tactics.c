/* Times every tactic that runs a convolution, shape by shape, on one and two threads:
 *
 *     bench_tactics [f32|s8] [batch] [runs] [part of a shape's name [of a tactic's]]
 *
 * Channels last, bias and ReLU fused, weights packed; the least time of all runs, because other
 * work comes and goes on shared machines. The reference is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/tactic.h"

typedef struct conv_shape {
    const char *name;
    int in, out, kernel, stride, pad, size; /* size: of the input, square */
    int group;
} conv_shape;

static const conv_shape shapes[] = {
    {"squeezenet conv1", 3, 64, 3, 2, 0, 224, 1},
    {"resnet8 conv1", 3, 16, 3, 1, 1, 32, 1},
    {"resnet8 1 3x3 16-16", 16, 16, 3, 1, 1, 32, 1},
    {"resnet8 2 1x1/2 16-32", 16, 32, 1, 2, 0, 32, 1},
    {"mobilenet conv1", 3, 32, 3, 2, 1, 224, 1},
    {"mobilenet 1x1 32-16", 32, 16, 1, 1, 0, 112, 1},
    {"mobilenet 1x1 16-96", 16, 96, 1, 1, 0, 112, 1},
    {"mobilenet 1x1 144-24", 144, 24, 1, 1, 0, 56, 1},
    {"squeezenet fire2 squeeze", 64, 16, 1, 1, 0, 55, 1},
    {"squeezenet fire2 expand1", 16, 64, 1, 1, 0, 55, 1},
    {"squeezenet fire2 expand3", 16, 64, 3, 1, 1, 55, 1},
    {"squeezenet fire4 squeeze", 128, 32, 1, 1, 0, 27, 1},
    {"squeezenet fire4 expand3", 32, 128, 3, 1, 1, 27, 1},
    {"squeezenet fire6 expand3", 48, 192, 3, 1, 1, 13, 1},
    {"squeezenet fire9 squeeze", 512, 64, 1, 1, 0, 13, 1},
    {"squeezenet fire9 expand3", 64, 256, 3, 1, 1, 13, 1},
    {"squeezenet conv10", 512, 1000, 1, 1, 0, 13, 1},
    {"resnet50 conv1", 3, 64, 7, 2, 3, 224, 1},
    {"resnet50 2 1x1 64-64", 64, 64, 1, 1, 0, 56, 1},
    {"resnet50 2 3x3 64-64", 64, 64, 3, 1, 1, 56, 1},
    {"resnet50 2 1x1 64-256", 64, 256, 1, 1, 0, 56, 1},
    {"resnet50 2 1x1 256-64", 256, 64, 1, 1, 0, 56, 1},
    {"resnet50 3 3x3/2 128-128", 128, 128, 3, 2, 1, 56, 1},
    {"resnet50 3 3x3 128-128", 128, 128, 3, 1, 1, 28, 1},
    {"resnet50 3 1x1 512-128", 512, 128, 1, 1, 0, 28, 1},
    {"resnet50 3 1x1/2 256-512", 256, 512, 1, 2, 0, 56, 1},
    {"resnet50 4 3x3 256-256", 256, 256, 3, 1, 1, 14, 1},
    {"resnet50 4 1x1 256-1024", 256, 1024, 1, 1, 0, 14, 1},
    {"resnet50 4 1x1 1024-256", 1024, 256, 1, 1, 0, 14, 1},
    {"resnet50 5 3x3 512-512", 512, 512, 3, 1, 1, 7, 1},
    {"resnet50 5 1x1 512-2048", 512, 2048, 1, 1, 0, 7, 1},
    {"resnet50 5 1x1 2048-512", 2048, 512, 1, 1, 0, 7, 1},
    {"mobilenet depthwise 144", 144, 144, 3, 1, 1, 56, 144},
    {"mobilenet depthwise/2 144", 144, 144, 3, 2, 1, 56, 144},
    {"mobilenet depthwise 384", 384, 384, 3, 1, 1, 14, 384},
};

typedef struct buffers {
    void *data, *out, *packed, *workspace, *weight, *bias;
} buffers;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static qb_desc image(bool integer, qb_shape shape, const float *scale, const int32_t *zero) {
    qb_desc desc = {.dtype = integer ? QB_DTYPE_U8 : QB_DTYPE_F32,
                    .layout = QB_LAYOUT_NHWC,
                    .shape = shape,
                    .q = {.axis = -1}};
    if (integer) desc.q = (qb_qparams){QB_DTYPE_U8, -1, 1, scale, zero};
    return desc;
}

static void *random_bytes(qb_ctx *cx, size_t bytes, bool floats) {
    uint8_t *data = qb_alloc_aligned(cx, bytes + QB_BUFFER_SLACK, 1);
    uint32_t seed = 1;
    if (!data) return NULL;
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (!floats)
            data[i] = (uint8_t)(seed >> 24);
        else if (i % sizeof(float) == 0)
            *(float *)(void *)(data + i) = (float)(seed >> 8) * 0x1p-24f - 0.5f;
    }
    return data;
}

static qb_status measure(qb_ctx *cx, const qb_kernel *k, buffers *b, int threads, int runs,
                         double *best) {
    qb_workers *workers = NULL;
    qb_status status = qb_workers_create(cx, threads, &workers);
    const void *constants[4] = {NULL, b->weight, b->bias, NULL};
    b->out = qb_alloc_aligned(cx, qb_desc_bytes(&k->problem.out) + QB_BUFFER_SLACK, 1);
    b->packed = qb_alloc_aligned(cx, k->packed_bytes, 1);
    b->workspace = qb_alloc_aligned(cx, k->workspace_bytes, 1);
    if (status == QB_OK && (!b->out || !b->packed || !b->workspace)) status = cx->code;
    if (status == QB_OK && k->pack) status = k->pack(cx, k, constants, b->packed);
    const void *in[4] = {b->data, b->weight, b->bias, NULL};
    qb_launch args = {.in = in,
                      .out = b->out,
                      .packed = b->packed,
                      .workspace = k->workspace_bytes ? b->workspace : NULL,
                      .workers = workers};
    *best = 1e30;
    for (int i = 0; i < runs && status == QB_OK; i++) {
        double start = now();
        status = k->launch(cx, k, &args);
        double took = now() - start;
        if (took < *best) *best = took;
    }
    qb_workers_free(workers);
    qb_free(b->out);
    qb_free(b->packed);
    qb_free(b->workspace);
    return status;
}

static void print_tactic(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, buffers *b,
                         const char *name, int runs) {
    static const bool constant[4] = {false, true, true, false};
    if (strcmp(tactic->backend, "cuda") == 0 || strcmp(tactic->backend, "ref") == 0 ||
        tactic->kind != p->kind || !qb_tactic_takes(tactic, p, constant))
        return;
    double ms[2];
    char impl[64] = "";
    for (int threads = 1; threads <= 2; threads++) {
        qb_kernel *kernel = NULL;
        double best = 0;
        qb_ctx_clear(cx);
        qb_status status = tactic->create(cx, tactic, p, constant, threads, &kernel);
        if (status == QB_OK) {
            snprintf(impl, sizeof impl, "%s", kernel->impl);
            status = measure(cx, kernel, b, threads, runs, &best);
        }
        qb_kernel_free(kernel);
        if (status != QB_OK) {
            printf("%-26s %-28s %s\n", name, tactic->name, cx->message);
            return;
        }
        ms[threads - 1] = best * 1e3;
    }
    double gops = qb_problem_flops(p) * 1e-6;
    printf("%-26s %-28s %9.4f %7.0f %9.4f %7.0f  %s\n", name, tactic->name, ms[0], gops / ms[0],
           ms[1], gops / ms[1], impl);
    fflush(stdout);
}

static qb_status run_shape(qb_ctx *cx, const conv_shape *s, bool integer, int batch, int runs,
                           const char *only) {
    static const float data_scale = 0.02f, out_scale = 0.5f;
    static const int32_t data_zero = 5, out_zero = 3;
    int size = (s->size + 2 * s->pad - s->kernel) / s->stride + 1;
    float *weight_scale = qb_alloc(cx, (size_t)s->out, sizeof *weight_scale);
    if (!weight_scale) return cx->code;
    for (int i = 0; i < s->out; i++) weight_scale[i] = 0.01f;
    qb_shape w = qb_shape_of(4, s->out, s->in / s->group, s->kernel, s->kernel);
    qb_desc in[4] = {
        image(integer, qb_shape_of(4, batch, s->in, s->size, s->size), &data_scale, &data_zero),
        {.dtype = integer ? QB_DTYPE_S8 : QB_DTYPE_F32, .shape = w, .q = {.axis = -1}},
        {.dtype = integer ? QB_DTYPE_S32 : QB_DTYPE_F32,
         .shape = qb_shape_of(1, s->out),
         .q = {.axis = -1}},
        {0}};
    if (integer) in[1].q = (qb_qparams){QB_DTYPE_S8, 0, s->out, weight_scale, NULL};
    qb_problem p = {
        .kind = QB_KIND_CONV,
        .n_in = 4,
        .in = in,
        .out = image(integer, qb_shape_of(4, batch, s->out, size, size), &out_scale, &out_zero),
        .window = {2,
                   {s->kernel, s->kernel},
                   {s->stride, s->stride},
                   {1, 1},
                   {s->pad, s->pad},
                   {s->pad, s->pad}},
        .group = s->group,
        .act = {QB_ACT_RELU, 0, 0}};
    buffers b = {.data = random_bytes(cx, qb_desc_bytes(&in[0]), !integer),
                 .weight = random_bytes(cx, qb_desc_bytes(&in[1]), !integer),
                 .bias = random_bytes(cx, qb_desc_bytes(&in[2]), !integer)};
    if (b.data && b.weight && b.bias)
        for (const qb_tactic *const *t = qb_tactics(); *t; t++)
            if (strstr((*t)->name, only)) print_tactic(cx, *t, &p, &b, s->name, runs);
    qb_free(b.data);
    qb_free(b.weight);
    qb_free(b.bias);
    qb_free(weight_scale);
    return b.data && b.weight && b.bias ? QB_OK : QB_STATUS_NOMEM;
}

int main(int argc, char **argv) {
    static qb_ctx cx;
    bool integer = argc < 2 || strcmp(argv[1], "f32") != 0;
    int batch = argc > 2 ? atoi(argv[2]) : 1, runs = argc > 3 ? atoi(argv[3]) : 30;
    qb_ctx_init(&cx);
    printf("%-26s %-28s %9s %7s %9s %7s\n", integer ? "s8" : "f32", "tactic", "ms 1", "GOPS",
           "ms 2", "GOPS");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if ((argc < 5 || strstr(shapes[i].name, argv[4])) &&
            run_shape(&cx, &shapes[i], integer, batch > 0 ? batch : 1, runs > 0 ? runs : 1,
                      argc > 5 ? argv[5] : "") != QB_OK) {
            fprintf(stderr, "%s: %s\n", shapes[i].name, cx.message);
            return 1;
        }
    return 0;
}
