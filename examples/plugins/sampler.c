/* A plugin for CUDA with a fallback on the CPU: bilinear sampling of an image at the positions of a
 * grid, pixels outside the image being zero (GridSample of a spatial transformer):
 *
 *     com.example.BilinearSampler(image [N, C, H, W], grid [N, h, w, 2]) -> [N, C, h, w]
 *
 * The kernel is in sampler.cu; without CUDA only the CPU part is compiled. */
#include "sampler.h"

#include <math.h>
#include <qbench/plugin.h>

static int infer(const qbench_plugin_node *node, const qbench_plugin_tensor *in,
                 qbench_plugin_tensor *out) {
    const qbench_plugin_tensor *image = &in[0], *grid = &in[1];
    if (image->dtype != QBENCH_FLOAT32 || grid->dtype != QBENCH_FLOAT32)
        return node->fail(node, "expected float32 inputs");
    if (image->rank != 4 || grid->rank != 4 || grid->dim[3] != 2)
        return node->fail(node, "expected an image of rank 4 and a grid [N, h, w, 2]");
    if (image->dim[0] >= 0 && grid->dim[0] >= 0 && image->dim[0] != grid->dim[0])
        return node->fail(node, "%lld images, but %lld grids", (long long)image->dim[0],
                          (long long)grid->dim[0]);
    out[0].dtype = image->dtype;
    out[0].rank = 4;
    out[0].dim[0] = image->dim[0];
    out[0].dim[1] = image->dim[1];
    out[0].dim[2] = grid->dim[1];
    out[0].dim[3] = grid->dim[2];
    return 0;
}

static sampling sampling_of(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    const int64_t *image = run->in[0].dim, *out = run->out[0].dim;
    return (sampling){.items = image[0],
                      .channels = image[1],
                      .in_height = image[2],
                      .in_width = image[3],
                      .height = out[2],
                      .width = out[3],
                      .align_corners = node->int_of(node, "align_corners") != 0};
}

/* ---- the CPU ---- */

static float position(float at, int64_t size, int align_corners) {
    return align_corners ? (at + 1) / 2 * (float)(size - 1) : ((at + 1) * (float)size - 1) / 2;
}

static float pixel(const sampling *s, const float *plane, int64_t y, int64_t x) {
    const int inside = y >= 0 && y < s->in_height && x >= 0 && x < s->in_width;
    return inside ? plane[y * s->in_width + x] : 0;
}

/* Positions so far outside that they do not fit an integer sample zeros like others outside. */
static float bounded(float at, int64_t size) { return fminf(fmaxf(at, -2), (float)size + 1); }

static float sample(const sampling *s, const float *plane, const float *at) {
    const float x = bounded(position(at[0], s->in_width, s->align_corners), s->in_width);
    const float y = bounded(position(at[1], s->in_height, s->align_corners), s->in_height);
    const float left = floorf(x), top = floorf(y), dx = x - left, dy = y - top;
    const int64_t x0 = (int64_t)left, y0 = (int64_t)top;
    return (1 - dy) * ((1 - dx) * pixel(s, plane, y0, x0) + dx * pixel(s, plane, y0, x0 + 1)) +
           dy * ((1 - dx) * pixel(s, plane, y0 + 1, x0) + dx * pixel(s, plane, y0 + 1, x0 + 1));
}

static int run_cpu(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    const sampling s = sampling_of(node, run);
    const float *image = run->in[0].data, *grid = run->in[1].data;
    float *out = run->out[0].data;
    const int64_t plane = s.in_height * s.in_width, points = s.height * s.width;
    for (int64_t n = 0; n < s.items; n++)
        for (int64_t c = 0; c < s.channels; c++)
            for (int64_t p = 0; p < points; p++)
                *out++ =
                    sample(&s, image + (n * s.channels + c) * plane, grid + (n * points + p) * 2);
    return 0;
}

/* ---- CUDA ---- */

#ifdef WITH_CUDA
static int run_cuda(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    const sampling s = sampling_of(node, run);
    const char *error = sampler_launch(&s, run->in[0].data, run->in[1].data, run->out[0].data,
                                       run->in[0].dtype == QBENCH_FLOAT16, run->stream);
    return error ? node->fail(node, "%s", error) : 0;
}
#define RUN_CUDA run_cuda
#else
#define RUN_CUDA NULL
#endif

/* ---- the description ---- */

static const qbench_plugin_format formats[] = {
    {.place = QBENCH_ON_CPU,
     .in = {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}, {QBENCH_FLOAT32, QBENCH_ROW_MAJOR}},
     .out = {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}}},
#ifdef WITH_CUDA
    {.place = QBENCH_ON_CUDA,
     .in = {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}, {QBENCH_FLOAT32, QBENCH_ROW_MAJOR}},
     .out = {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}}},
    {.place = QBENCH_ON_CUDA, /* positions stay float32: 11 bits are too few for them */
     .in = {{QBENCH_FLOAT16, QBENCH_ROW_MAJOR}, {QBENCH_FLOAT32, QBENCH_ROW_MAJOR}},
     .out = {{QBENCH_FLOAT16, QBENCH_ROW_MAJOR}}},
#endif
};

static const qbench_plugin_attr attrs[] = {
    {.name = "align_corners", .type = QBENCH_ATTR_INT, .min = 0, .max = 1},
};

static const qbench_plugin_op sampler = {.struct_size = sizeof sampler,
                                         .since = 1,
                                         .name = "BilinearSampler",
                                         .domain = "com.example",
                                         .min_in = 2,
                                         .max_in = 2,
                                         .min_out = 1,
                                         .max_out = 1,
                                         .attrs = attrs,
                                         .n_attrs = sizeof attrs / sizeof *attrs,
                                         .quantization = QBENCH_STAYS_FLOAT,
                                         .formats = formats,
                                         .n_formats = sizeof formats / sizeof *formats,
                                         .infer = infer,
                                         .run_cpu = run_cpu,
                                         .run_cuda = RUN_CUDA};

const qbench_plugin *qbench_plugin_entry(void) {
    static const qbench_plugin plugin = {.abi = QBENCH_PLUGIN_ABI,
                                         .struct_size = sizeof plugin,
                                         .name = "sampler",
                                         .version = "1.0",
                                         .ops = &sampler,
                                         .n_ops = 1};
    return &plugin;
}
