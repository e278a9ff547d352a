/* A plugin for tests whose output is as large as an input says: the nearest element of a plane at
 * each place of another one.
 *
 *     test.ResizeTo(x [N, C, H, W], size [2]) -> y [N, C, size[0], size[1]] */
#include <qbench/plugin.h>

static int infer(const qbench_plugin_node *node, const qbench_plugin_tensor *in,
                 qbench_plugin_tensor *out) {
    int64_t size[2];
    if (in[0].dtype != QBENCH_FLOAT32 || in[0].rank != 4)
        return node->fail(node, "expected float32 of rank 4, got rank %d", (int)in[0].rank);
    if (node->sizes_of(node, 1, size, 2) != 2)
        return node->fail(node, "expected two integers as size");
    out[0].dtype = in[0].dtype;
    out[0].rank = 4;
    for (int i = 0; i < 2; i++) out[0].dim[i] = in[0].dim[i];
    for (int i = 0; i < 2; i++) out[0].dim[2 + i] = size[i];
    return 0;
}

static int run(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    const int64_t *from = run->in[0].dim, *to = run->out[0].dim;
    const float *x = run->in[0].data;
    float *y = run->out[0].data;
    int64_t none[2];
    if (node->sizes_of(node, 1, none, 2) != -1) return node->fail(node, "sizes outside of infer");
    for (int64_t plane = 0; plane < from[0] * from[1]; plane++)
        for (int64_t r = 0; r < to[2]; r++)
            for (int64_t c = 0; c < to[3]; c++)
                *y++ = x[(plane * from[2] + r * from[2] / to[2]) * from[3] + c * from[3] / to[3]];
    return 0;
}

const qbench_plugin *qbench_plugin_entry(void) {
    static const qbench_plugin_op op = {.struct_size = sizeof op,
                                        .since = 1,
                                        .name = "ResizeTo",
                                        .domain = "test",
                                        .min_in = 2,
                                        .max_in = 2,
                                        .min_out = 1,
                                        .max_out = 1,
                                        .infer = infer,
                                        .run_cpu = run};
    static const qbench_plugin plugin = {.abi = QBENCH_PLUGIN_ABI,
                                         .struct_size = sizeof plugin,
                                         .name = "resize_to",
                                         .version = "1.0",
                                         .ops = &op,
                                         .n_ops = 1};
    return &plugin;
}
