/* A plugin for the CPU: attention by a hard sigmoid, as squeeze-and-excitation blocks end, in one
 * step instead of three:
 *
 *     com.example.HardSigmoidGate(x [N, C, spatial], s [N, C, 1 ...]) = x clamp(alpha s + beta, 0,
 * 1)
 *
 * It takes float values and quantized values, row-major and channels last, so that nothing has to
 * be converted around it in an INT8 engine. */
#include <math.h>
#include <qbench/plugin.h>
#include <string.h>

/* ---- shapes ---- */

static int infer(const qbench_plugin_node *node, const qbench_plugin_tensor *in,
                 qbench_plugin_tensor *out) {
    const qbench_plugin_tensor *x = &in[0], *s = &in[1];
    if (x->dtype != QBENCH_FLOAT32 || s->dtype != QBENCH_FLOAT32)
        return node->fail(node, "expected float32 inputs");
    if (x->rank < 3 || x->rank > 5 || s->rank != x->rank)
        return node->fail(node, "expected inputs of one rank from 3 to 5, got %d and %d", x->rank,
                          s->rank);
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] >= 0 && x->dim[d] >= 0 && s->dim[d] != (d < 2 ? x->dim[d] : 1))
            return node->fail(node, "dimension %d of the gate is %lld, expected %lld", d,
                              (long long)s->dim[d], (long long)(d < 2 ? x->dim[d] : 1));
    out[0].dtype = x->dtype;
    out[0].rank = x->rank;
    memcpy(out[0].dim, x->dim, sizeof out[0].dim);
    return 0;
}

/* ---- one channel of one item ---- */

static float load(const qbench_plugin_tensor *t, size_t i) {
    if (!t->quantized) return ((const float *)t->data)[i];
    const int code =
        t->dtype == QBENCH_UINT8 ? ((const uint8_t *)t->data)[i] : ((const int8_t *)t->data)[i];
    return t->scale * (float)(code - t->zero_point);
}

static void store(const qbench_plugin_tensor *t, size_t i, float value) {
    if (!t->quantized) {
        ((float *)t->data)[i] = value;
        return;
    }
    const int low = t->dtype == QBENCH_UINT8 ? 0 : -128, high = low + 255;
    const float code = rintf(value / t->scale) + (float)t->zero_point;
    const int q = code < (float)low ? low : code > (float)high ? high : (int)code;
    if (t->dtype == QBENCH_UINT8)
        ((uint8_t *)t->data)[i] = (uint8_t)q;
    else
        ((int8_t *)t->data)[i] = (int8_t)q;
}

static float gate_of(const qbench_plugin_tensor *s, size_t i, float alpha, float beta) {
    const float gate = alpha * load(s, i) + beta;
    return gate < 0 ? 0 : gate > 1 ? 1 : gate;
}

static int run(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    const qbench_plugin_tensor *x = &run->in[0], *s = &run->in[1], *y = &run->out[0];
    const float alpha = node->float_of(node, "alpha"), beta = node->float_of(node, "beta");
    const size_t items = (size_t)x->dim[0], channels = (size_t)x->dim[1];
    size_t pixels = 1;
    for (int d = 2; d < x->rank; d++) pixels *= (size_t)x->dim[d];
    const size_t step = x->layout == QBENCH_CHANNELS_LAST ? channels : 1;
    for (size_t n = 0; n < items; n++)
        for (size_t c = 0; c < channels; c++) {
            const float gate = gate_of(s, n * channels + c, alpha, beta);
            const size_t first = n * channels * pixels + (step == 1 ? c * pixels : c);
            for (size_t p = 0; p < pixels; p++)
                store(y, first + p * step, load(x, first + p * step) * gate);
        }
    return 0;
}

/* ---- the description ---- */

#define FORM(dtype, layout)                                                                        \
    {                                                                                              \
        QBENCH_ON_CPU, {{dtype, layout}, {dtype, layout}}, {                                       \
            { dtype, layout }                                                                      \
        }                                                                                          \
    }

static const qbench_plugin_format formats[] = {
    FORM(QBENCH_UINT8, QBENCH_CHANNELS_LAST),   FORM(QBENCH_UINT8, QBENCH_ROW_MAJOR),
    FORM(QBENCH_INT8, QBENCH_CHANNELS_LAST),    FORM(QBENCH_INT8, QBENCH_ROW_MAJOR),
    FORM(QBENCH_FLOAT32, QBENCH_CHANNELS_LAST), FORM(QBENCH_FLOAT32, QBENCH_ROW_MAJOR),
};

static const qbench_plugin_attr attrs[] = {
    {.name = "alpha", .type = QBENCH_ATTR_FLOAT, .default_float = 0.2f},
    {.name = "beta", .type = QBENCH_ATTR_FLOAT, .default_float = 0.5f},
};

static const qbench_plugin_op gate = {.struct_size = sizeof gate,
                                      .since = 1,
                                      .name = "HardSigmoidGate",
                                      .domain = "com.example",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .min_out = 1,
                                      .max_out = 1,
                                      .attrs = attrs,
                                      .n_attrs = sizeof attrs / sizeof *attrs,
                                      .quantization = QBENCH_OWN_SCALE,
                                      .formats = formats,
                                      .n_formats = sizeof formats / sizeof *formats,
                                      .infer = infer,
                                      .run_cpu = run};

const qbench_plugin *qbench_plugin_entry(void) {
    static const qbench_plugin plugin = {.abi = QBENCH_PLUGIN_ABI,
                                         .struct_size = sizeof plugin,
                                         .name = "gate",
                                         .version = "1.0",
                                         .ops = &gate,
                                         .n_ops = 1};
    return &plugin;
}
