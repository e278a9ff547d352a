/* A plugin for tests. $QB_FAULT makes it wrong in one way; without it, it is right and uses what
 * the gate and the sampler do not: several outputs, an optional input, lists, texts, scratch
 * memory.
 *
 *     test.Kit(x, y?) -> sum, back
 *     sum = x + y (without y: x times the product of `factors`) moved by the sum of `shifts`
 *     back = x from behind */
#include "fake_stream.h"

#include <qbench/plugin.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *fault) {
    const char *wanted = getenv("QB_FAULT");
    return wanted && strcmp(wanted, fault) == 0;
}

static int infer(const qbench_plugin_node *node, const qbench_plugin_tensor *in,
                 qbench_plugin_tensor *out) {
    if (is("silent")) return 7;
    if (is("unknown-attribute")) node->int_of(node, "speed");
    if (is("wrong-type")) node->int_of(node, "mode");
    if (is("no-outputs")) return 0;
    const char *mode = node->text_of(node, "mode");
    if (strcmp(mode, "plain") != 0)
        return node->fail(node, "attribute mode: expected plain, got '%s'", mode);
    for (int i = 0; i < node->n_out; i++) {
        out[i].dtype = is("bad-type") ? 99 : is("code-type") ? QBENCH_INT8 : in[0].dtype;
        out[i].rank = is("bad-rank") ? 9 : in[0].rank;
        memcpy(out[i].dim, in[0].dim, sizeof out[i].dim);
        if (is("bad-size")) out[i].dim[0] = -77;
        if (is("huge")) out[i].dim[0] = INT64_MAX / 2;
    }
    return 0;
}

static int workspace(const qbench_plugin_node *node, int32_t place, const qbench_plugin_tensor *in,
                     const qbench_plugin_tensor *out, size_t *bytes) {
    (void)out;
    if (place != (is("cuda") ? QBENCH_ON_CUDA : QBENCH_ON_CPU))
        return node->fail(node, "not asked to run there");
    *bytes = is("huge-workspace") ? SIZE_MAX / 2 : in[0].bytes;
    return is("no-workspace") ? node->fail(node, "no room today") : 0;
}

static float product_of(const qbench_plugin_node *node) {
    int32_t n;
    const float *factors = node->floats_of(node, "factors", &n);
    float product = 1;
    for (int32_t i = 0; i < n; i++) product *= factors[i];
    return product;
}

static float sum_of(const qbench_plugin_node *node) {
    int32_t n;
    const int64_t *shifts = node->ints_of(node, "shifts", &n);
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++) sum += shifts[i];
    return (float)sum;
}

typedef struct work {
    size_t n;
    const float *x, *y; /* y may be NULL */
    float *scratch, *sum, *back;
    float factor, shift;
} work;

static void compute(const void *args) {
    const work *w = args;
    for (size_t i = 0; i < w->n; i++) w->scratch[i] = w->x[w->n - 1 - i];
    for (size_t i = 0; i < w->n; i++)
        w->sum[i] = (w->y ? w->x[i] + w->y[i] : w->x[i] * w->factor) + w->shift;
    if (w->back) memcpy(w->back, w->scratch, w->n * sizeof *w->scratch);
}

static work work_of(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    return (work){.n = run->in[0].bytes / sizeof(float),
                  .x = fake_to_host(run->in[0].data),
                  .y = node->n_in > 1 ? fake_to_host(run->in[1].data) : NULL,
                  .scratch = fake_to_host(run->workspace),
                  .sum = fake_to_host(run->out[0].data),
                  .back = node->n_out > 1 ? fake_to_host(run->out[1].data) : NULL,
                  .factor = product_of(node),
                  .shift = sum_of(node)};
}

static int run(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    if (is("fails")) return node->fail(node, "the kit is broken");
    if (is("fails-silently")) return -3;
    if ((uintptr_t)run->workspace % 64 != 0) return node->fail(node, "workspace is not aligned");
    const work w = work_of(node, run);
    compute(&w);
    return 0;
}

/* On the fake device of tests/providers. */
static int run_cuda(const qbench_plugin_node *node, const qbench_plugin_run *run) {
    fake_stream *stream = run->stream;
    if (((uintptr_t)run->in[0].data & FAKE_BIT) == 0) return node->fail(node, "not on the device");
    const work w = work_of(node, run);
    stream->submit(stream, compute, &w, sizeof w);
    return 0;
}

const qbench_plugin *qbench_plugin_entry(void) {
    static qbench_plugin_attr attrs[] = {
        {.name = "mode", .type = QBENCH_ATTR_TEXT, .required = 1},
        {.name = "shifts", .type = QBENCH_ATTR_INTS, .min = -100, .max = 100},
        {.name = "factors", .type = QBENCH_ATTR_FLOATS},
        {.name = "speed-limit", .type = QBENCH_ATTR_INT, .default_int = 3, .min = 1, .max = 9},
    };
    static qbench_plugin_format formats[] = {{.place = QBENCH_ON_CPU}};
    static qbench_plugin_op ops[2] = {{.struct_size = sizeof ops[0],
                                       .since = 1,
                                       .name = "Kit",
                                       .domain = "test",
                                       .min_in = 1,
                                       .max_in = 2,
                                       .min_out = 1,
                                       .max_out = 2,
                                       .attrs = attrs,
                                       .n_attrs = 4,
                                       .formats = formats,
                                       .n_formats = 1,
                                       .infer = infer,
                                       .workspace = workspace,
                                       .run_cpu = run}};
    static qbench_plugin plugin = {.abi = QBENCH_PLUGIN_ABI,
                                   .struct_size = sizeof plugin,
                                   .name = "kit",
                                   .version = "1.0",
                                   .ops = ops,
                                   .n_ops = 1};
    if (is("null")) return NULL;
    if (is("cuda")) ops[0].run_cuda = run_cuda, formats[0].place = QBENCH_ON_CUDA;
    if (is("abi")) plugin.abi = QBENCH_PLUGIN_ABI + 1;
    if (is("small")) plugin.struct_size = 8;
    if (is("small-op")) ops[0].struct_size = 16;
    if (is("version")) plugin.version = "2.0";
    if (is("no-version")) plugin.version = NULL;
    if (is("bad-name")) plugin.name = "a kit";
    if (is("no-ops")) plugin.n_ops = 0;
    if (is("many-ops")) plugin.n_ops = INT32_MAX;
    if (is("no-infer")) ops[0].infer = NULL;
    if (is("no-run")) ops[0].run_cpu = NULL;
    if (is("no-domain")) ops[0].domain = "";
    if (is("onnx-domain")) ops[0].domain = "ai.onnx";
    if (is("many-inputs")) ops[0].max_in = QBENCH_PLUGIN_MAX_INPUTS + 1;
    if (is("few-inputs")) ops[0].max_in = 0;
    if (is("no-outputs-at-all")) ops[0].min_out = 0;
    if (is("since")) ops[0].since = 0;
    if (is("attr-count")) ops[0].n_attrs = -1;
    if (is("attr-table")) ops[0].attrs = NULL;
    if (is("attr-name")) attrs[1].name = NULL;
    if (is("attr-type")) attrs[1].type = 17;
    if (is("attr-twice")) attrs[1].name = "mode";
    if (is("attr-bounds")) attrs[1].min = 200;
    if (is("rule")) ops[0].quantization = 12;
    if (is("format-place")) formats[0].place = 5;
    if (is("format-cuda")) formats[0].place = QBENCH_ON_CUDA;
    if (is("format-type")) formats[0].in[3].dtype = QBENCH_INT64;
    if (is("format-half")) formats[0].in[0].dtype = QBENCH_FLOAT16;
    if (is("format-layout")) formats[0].out[0].layout = 2;
    if (is("format-codes")) formats[0].in[0].dtype = QBENCH_UINT8;
    if (is("twice")) {
        ops[1] = ops[0];
        plugin.n_ops = 2;
    }
    return &plugin;
}
