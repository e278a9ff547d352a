/* Calls into plugins: attributes by name, errors by text, and checks of what comes back. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph_internal.h"
#include "plugin_internal.h"

/* One call at work; node.host points here. */
typedef struct call {
    qb_ctx *cx;
    const qb_node *node;
    const qb_plugin_op *op;
    const qb_graph *graph; /* infer: whose values are asked for; else NULL */
    bool said_why;         /* fail was called */
    char wrong[160];       /* what the plugin asked for and may not; "" */
    qbench_plugin_node handle;
} call;

static call *call_of(const qbench_plugin_node *handle) { return handle->host; }

/* ---- attributes ---- */

static const void *field(const qbench_plugin_node *handle, const char *name, qb_attr_type type) {
    call *c = call_of(handle);
    const qb_attr_desc *desc = name ? qb_attr_find(&c->op->row, name) : NULL;
    if (desc && desc->type == type && c->node->attrs)
        return (const char *)c->node->attrs + desc->offset;
    if (!c->wrong[0])
        snprintf(c->wrong, sizeof c->wrong, "it reads attribute '%.60s', which its table %s",
                 name ? name : "(null)", desc ? "has as another type" : "does not have");
    return NULL;
}

static int64_t int_of(const qbench_plugin_node *handle, const char *name) {
    const int64_t *value = field(handle, name, QB_ATTR_INT);
    return value ? *value : 0;
}

static float float_of(const qbench_plugin_node *handle, const char *name) {
    const float *value = field(handle, name, QB_ATTR_FLOAT);
    return value ? *value : 0;
}

static const char *text_of(const qbench_plugin_node *handle, const char *name) {
    const char *const *value = field(handle, name, QB_ATTR_STRING);
    return value ? *value : NULL;
}

static const int64_t *ints_of(const qbench_plugin_node *handle, const char *name, int32_t *n) {
    const qb_ints *value = field(handle, name, QB_ATTR_INTS);
    *n = value ? value->n : 0;
    return value ? value->v : NULL;
}

static const float *floats_of(const qbench_plugin_node *handle, const char *name, int32_t *n) {
    const qb_floats *value = field(handle, name, QB_ATTR_FLOATS);
    *n = value ? value->n : 0;
    return value ? value->v : NULL;
}

/* ---- what is known of values ---- */

_Static_assert(QBENCH_PLUGIN_MAX_SIZES == QB_SIZES_MAX, "what the header promises");

static int64_t dim_of(int64_t size) {
    return qb_size_is_number(size) && size < 0 ? -1 : qb_dim_of_size(size);
}

static int32_t sizes_of(const qbench_plugin_node *handle, int32_t input, int64_t *size,
                        int32_t max) {
    const call *c = call_of(handle);
    qb_sizes known;
    if (!c->graph || input < 0 || input >= c->node->n_in ||
        !qb_sizes_get(c->graph, c->node->in[input], &known) || known.n > max)
        return -1;
    for (int32_t i = 0; i < known.n; i++) size[i] = dim_of(known.v[i]);
    return known.n;
}

/* ---- errors ---- */

static int fail(const qbench_plugin_node *handle, const char *format, ...) {
    call *c = call_of(handle);
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    qb_fail(c->cx, QB_STATUS_INVALID, "%s", text);
    c->said_why = true;
    return 1;
}

static void begin(call *c, qb_ctx *cx, const qb_node *node) {
    *c = (call){.cx = cx, .node = node, .op = qb_plugin_op_of(node->op)};
    c->handle = (qbench_plugin_node){.struct_size = sizeof c->handle,
                                     .n_in = node->n_in,
                                     .n_out = node->n_out,
                                     .name = node->name,
                                     .int_of = int_of,
                                     .float_of = float_of,
                                     .text_of = text_of,
                                     .ints_of = ints_of,
                                     .floats_of = floats_of,
                                     .fail = fail,
                                     .host = c,
                                     .sizes_of = sizes_of};
}

/* The callback's answer as a status. */
static qb_status end(const call *c, const char *function, int answer) {
    const qb_plugin *plugin = c->op->plugin;
    if (c->wrong[0])
        qb_fail(c->cx, QB_STATUS_INVALID, "%s", c->wrong);
    else if (answer != 0 && !c->said_why)
        qb_fail(c->cx, QB_STATUS_INVALID, "it returned %d without a reason", answer);
    else if (answer == 0)
        return QB_OK;
    return qb_wrap(c->cx, "plugin %s %s: %s", plugin->name, plugin->version, function);
}

/* ---- tensors ---- */

void qb_plugin_tensor(const qb_desc *desc, const void *constant, qbench_plugin_tensor *out) {
    *out = (qbench_plugin_tensor){
        .dtype = qb_dtype_to_onnx(desc->dtype),
        .layout = desc->layout == QB_LAYOUT_NHWC ? QBENCH_CHANNELS_LAST : QBENCH_ROW_MAJOR,
        .rank = desc->shape.rank,
        .quantized = desc->q.n == 1,
        .scale = desc->q.n == 1 ? desc->q.scale[0] : 0,
        .zero_point = desc->q.n == 1 && desc->q.zero ? desc->q.zero[0] : 0,
        .constant = constant};
    for (int32_t i = 0; i < desc->shape.rank; i++) out->dim[i] = desc->shape.dim[i];
    if (desc->dtype != QB_DTYPE_NONE && qb_shape_known(&desc->shape))
        out->bytes = qb_desc_bytes(desc);
}

/* ---- shapes ---- */

static bool has_dim(const call *c, const qbench_plugin_tensor *in, int64_t dim) {
    int64_t size[QB_SIZES_MAX];
    for (int32_t i = 0; i < c->node->n_in; i++) {
        const int32_t n = sizes_of(&c->handle, i, size, QB_SIZES_MAX);
        for (int32_t k = 0; k < in[i].rank; k++)
            if (in[i].dim[k] == dim) return true;
        for (int32_t k = 0; k < n; k++)
            if (size[k] == dim) return true;
    }
    return false;
}

static qb_status check_output(const call *c, const qbench_plugin_tensor *in,
                              const qbench_plugin_tensor *out, int32_t i) {
    qb_ctx *cx = c->cx;
    if (qb_dtype_from_onnx(out->dtype) == QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_INVALID, "output %d: %d is no element type", (int)i,
                       (int)out->dtype);
    if (out->rank < 0 || out->rank > QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_INVALID, "output %d: rank %d, expected 0 to %d", (int)i,
                       (int)out->rank, QB_MAX_RANK);
    for (int32_t k = 0; k < out->rank; k++)
        if (out->dim[k] < -1 && !has_dim(c, in, out->dim[k]))
            return qb_fail(cx, QB_STATUS_INVALID,
                           "output %d: dimension %d is %lld, which no input has", (int)i, (int)k,
                           (long long)out->dim[k]);
    return QB_OK;
}

static void set_output(qb_graph *graph, int32_t value, const qbench_plugin_tensor *out) {
    qb_value *v = &graph->values[value];
    v->dtype = qb_dtype_from_onnx(out->dtype);
    v->shape = (qb_shape){.rank = out->rank};
    for (int32_t k = 0; k < out->rank; k++) v->shape.dim[k] = out->dim[k];
}

qb_status qb_plugin_infer(qb_ctx *cx, const qb_infer_args *args) {
    qbench_plugin_tensor in[QBENCH_PLUGIN_MAX_INPUTS] = {0}, out[QBENCH_PLUGIN_MAX_OUTPUTS] = {0};
    const qb_node *node = &args->graph->nodes[args->node];
    call c;
    begin(&c, cx, node);
    c.graph = args->graph;
    if (node->n_in > QBENCH_PLUGIN_MAX_INPUTS || node->n_out > QBENCH_PLUGIN_MAX_OUTPUTS)
        return qb_fail(cx, QB_STATUS_FORMAT, "expected at most %d inputs and %d outputs",
                       (int)node->op->max_in, (int)node->op->max_out);
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *v = &args->graph->values[node->in[i]];
        if (v->shape.rank < 0)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "input %d: its rank is not known", (int)i);
        const qb_desc desc = {.dtype = v->dtype, .shape = v->shape};
        qb_plugin_tensor(&desc, v->q.n == 0 ? v->data : NULL, &in[i]);
    }
    QB_TRY(end(&c, "infer", c.op->api.infer(&c.handle, in, out)));
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        if (check_output(&c, in, &out[i], i) != QB_OK) return end(&c, "infer", c.said_why = 1);
        set_output(args->graph, node->out[i], &out[i]);
    }
    return QB_OK;
}

/* ---- running ---- */

qb_status qb_plugin_workspace(qb_ctx *cx, const qb_node *node, qbench_memory_space place,
                              const qbench_plugin_tensor *in, const qbench_plugin_tensor *out,
                              size_t *bytes) {
    call c;
    begin(&c, cx, node);
    *bytes = 0;
    if (!c.op->api.workspace) return QB_OK;
    QB_TRY(end(&c, "workspace", c.op->api.workspace(&c.handle, place, in, out, bytes)));
    if (*bytes < PTRDIFF_MAX / 2) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "plugin %s %s: workspace: %zu bytes cannot be",
                   c.op->plugin->name, c.op->plugin->version, *bytes);
}

qb_status qb_plugin_run(qb_ctx *cx, const qb_node *node, qbench_memory_space place,
                        const qbench_plugin_run *run) {
    call c;
    begin(&c, cx, node);
    const qbench_plugin_op *api = &c.op->api;
    if (place == QBENCH_ON_CUDA) return end(&c, "run_cuda", api->run_cuda(&c.handle, run));
    return end(&c, "run_cpu", api->run_cpu(&c.handle, run));
}

/* For constants: row-major, in the model's own types. */
static qb_status eval_now(qb_ctx *cx, const qb_node *node, qbench_plugin_run *run) {
    size_t bytes;
    QB_TRY(qb_plugin_workspace(cx, node, QBENCH_ON_CPU, run->in, run->out, &bytes));
    run->workspace = bytes ? qb_alloc_aligned(cx, bytes, 1) : NULL;
    if (bytes && !run->workspace) return cx->code;
    qb_status status = qb_plugin_run(cx, node, QBENCH_ON_CPU, run);
    qb_free(run->workspace);
    return status;
}

static bool is_plain(const qbench_plugin_form *form) {
    return (form->dtype == 0 || form->dtype == QBENCH_FLOAT32) && form->layout == QBENCH_ROW_MAJOR;
}

/* Does the plugin take float values row-major on the CPU? */
static bool takes_plain(const qbench_plugin_op *api, const qb_node *node) {
    if (!api->run_cpu) return false;
    bool taken = api->n_formats == 0;
    for (int32_t f = 0; f < api->n_formats && !taken; f++) {
        taken = api->formats[f].place == QBENCH_ON_CPU;
        for (int32_t i = 0; i < node->n_in; i++) taken = taken && is_plain(&api->formats[f].in[i]);
        for (int32_t i = 0; i < node->n_out; i++)
            taken = taken && is_plain(&api->formats[f].out[i]);
    }
    return taken;
}

qb_status qb_plugin_eval(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    qbench_plugin_tensor tensor[QBENCH_PLUGIN_MAX_INPUTS + QBENCH_PLUGIN_MAX_OUTPUTS] = {0};
    const qb_plugin_op *op = qb_plugin_op_of(node->op);
    if (!takes_plain(&op->api, node))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "plugin %s %s does not run row-major float values on the CPU",
                       op->plugin->name, op->plugin->version);
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        const qb_tensor *from = i < node->n_in ? &in[i] : &out[i - node->n_in];
        qb_plugin_tensor(&from->desc, i < node->n_in ? from->data : NULL, &tensor[i]);
        tensor[i].data = from->data;
    }
    qbench_plugin_run run = {.struct_size = sizeof run,
                             .threads = qb_threads(cx),
                             .in = tensor,
                             .out = tensor + node->n_in};
    return eval_now(cx, node, &run);
}
