/* A plugin for qbench: one operator, y = factor x. Change the table and the functions to yours.
 *
 *     cmake -B build && cmake --build build
 *     qbench plugin inspect build/skeleton.so
 *     qbench inspect test.onnx --steps --plugin build/skeleton.so */
#include <qbench/plugin.h>
#include <string.h>

/* The type and shape of each output. Sizes may be unknown (negative): copy them. */
static int infer(const qbench_plugin_node *node, const qbench_plugin_tensor *in,
                 qbench_plugin_tensor *out) {
    if (in[0].dtype != QBENCH_FLOAT32) return node->fail(node, "expected a float32 input");
    out[0].dtype = in[0].dtype;
    out[0].rank = in[0].rank;
    memcpy(out[0].dim, in[0].dim, sizeof out[0].dim);
    return 0;
}

/* Both tensors are in one of the forms below, so that the order of elements does not matter. */
static int run(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    const float factor = node->float_of(node, "factor");
    const float *x = run->in[0].data;
    float *y = run->out[0].data;
    for (size_t i = 0; i < run->out[0].bytes / sizeof *y; i++) y[i] = factor * x[i];
    return 0;
}

#ifdef WITH_CUDA
/* In skeleton.cu: launches it on device memory. Returns NULL, or what CUDA says. */
const char *skeleton_launch(float factor, const float *x, float *y, size_t n, void *stream);

static int run_cuda(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    const char *error =
        skeleton_launch(node->float_of(node, "factor"), run->in[0].data, run->out[0].data,
                        run->out[0].bytes / sizeof(float), run->stream);
    return error ? node->fail(node, "CUDA: %s", error) : 0;
}
#endif

static const qbench_plugin_attr attrs[] = {
    {.name = "factor", .type = QBENCH_ATTR_FLOAT, .default_float = 1},
};

static const qbench_plugin_format formats[] = {
    {QBENCH_ON_CPU, {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}}, {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}}},
    {QBENCH_ON_CPU,
     {{QBENCH_FLOAT32, QBENCH_CHANNELS_LAST}},
     {{QBENCH_FLOAT32, QBENCH_CHANNELS_LAST}}},
#ifdef WITH_CUDA
    {QBENCH_ON_CUDA, {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}}, {{QBENCH_FLOAT32, QBENCH_ROW_MAJOR}}},
    {QBENCH_ON_CUDA,
     {{QBENCH_FLOAT32, QBENCH_CHANNELS_LAST}},
     {{QBENCH_FLOAT32, QBENCH_CHANNELS_LAST}}},
#endif
};

static const qbench_plugin_op op = {.struct_size = sizeof op,
                                    .since = 1,
                                    .name = "Skeleton",
                                    .domain = "com.example.skeleton",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .min_out = 1,
                                    .max_out = 1,
                                    .attrs = attrs,
                                    .n_attrs = sizeof attrs / sizeof *attrs,
                                    .quantization = QBENCH_STAYS_FLOAT,
                                    .formats = formats,
                                    .n_formats = sizeof formats / sizeof *formats,
                                    .infer = infer,
#ifdef WITH_CUDA
                                    .run_cuda = run_cuda,
#endif
                                    .run_cpu = run};

const qbench_plugin *qbench_plugin_entry(void) {
    static const qbench_plugin plugin = {.abi = QBENCH_PLUGIN_ABI,
                                         .struct_size = sizeof plugin,
                                         .name = "skeleton",
                                         .version = "0.1",
                                         .ops = &op,
                                         .n_ops = 1};
    return &plugin;
}
