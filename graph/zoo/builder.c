#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph_internal.h"
#include "graph/zoo/zoo_internal.h"

/* --- running the new node over the drawn images ---------------------------------------------- */

static void *sample_of(qb_zoo *z, int32_t value) {
    const void *constant = z->graph->values[value].data;
    if (constant) return (void *)(uintptr_t)constant; /* eval does not write its inputs */
    return (size_t)value < z->cap_samples ? z->sample[value] : NULL;
}

#define MAX_IN 64

static qb_status run_node(qb_zoo *z, int32_t index) {
    qb_graph *graph = z->graph;
    const qb_node *node = &graph->nodes[index];
    qb_tensor in[MAX_IN] = {0}, out = {0};
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *v = &graph->values[node->in[i]];
        in[i] = qb_tensor_of(v->dtype, v->shape, sample_of(z, node->in[i]));
    }
    int32_t id = node->out[0];
    const qb_value *v = &graph->values[id];
    QB_TRY(qb_grow(z->cx, &z->sample, &z->cap_samples, (size_t)id + 1, sizeof *z->sample));
    out = qb_tensor_of(v->dtype, v->shape, NULL);
    out.data = z->sample[id] = qb_alloc_aligned(z->cx, qb_desc_bytes(&out.desc), 1);
    if (!out.data) return z->cx->code;
    return node->op->eval(z->cx, node, in, &out);
}

/* Appends a node; its output gets the node's name. */
static int32_t add(qb_zoo *z, const char *op, const char *name, const int32_t *in, int32_t n_in) {
    const qb_op *row = qb_op_find(op, "");
    if (!row || n_in > MAX_IN) {
        qb_fail(z->cx, QB_STATUS_INTERNAL, "%s: no operator %s with %d inputs", name, op, n_in);
        return -1;
    }
    for (int32_t i = 0; i < n_in; i++)
        if (in[i] < 0) return -1;
    int32_t out = qb_graph_add_value(z->cx, z->graph, name, QB_DTYPE_NONE, NULL);
    if (out < 0) return -1;
    return qb_graph_add_node(z->cx, z->graph, row, name, in, n_in, &out, 1) < 0 ? -1 : out;
}

/* Shapes and sample of the node added last. */
static int32_t finalize(qb_zoo *z, int32_t out) {
    if (out < 0) return -1;
    int32_t index = z->graph->n_nodes - 1;
    if (qb_infer_node(z->cx, z->graph, index) != QB_OK ||
        (z->drawn && run_node(z, index) != QB_OK)) {
        qb_wrap(z->cx, "%s", z->graph->nodes[index].name);
        return -1;
    }
    return out;
}

int32_t qb_zoo_node(qb_zoo *z, const char *op, const char *name, const int32_t *in, int32_t n_in) {
    return name ? finalize(z, add(z, op, name, in, n_in)) : -1;
}

/* --- constants ------------------------------------------------------------------------------- */

const char *qb_zoo_name(qb_zoo *z, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return qb_arena_strdup(z->cx, z->graph->arena, text);
}

int32_t qb_zoo_floats(qb_zoo *z, const char *name, qb_shape shape, const float *data) {
    return name ? qb_graph_add_constant(z->cx, z->graph, name, QB_DTYPE_F32, &shape, data) : -1;
}

int32_t qb_zoo_normal(qb_zoo *z, const char *name, qb_shape shape, double deviation) {
    int32_t id = -1;
    float *data =
        name ? qb_graph_new_constant(z->cx, z->graph, name, QB_DTYPE_F32, &shape, &id) : NULL;
    if (!data) return -1;
    int64_t n = qb_shape_count(&shape);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(deviation * qb_rng_normal(&z->rng));
    return id;
}

int32_t qb_zoo_ints(qb_zoo *z, const char *name, const int64_t *data, int32_t n) {
    qb_shape shape = {.rank = 1, .dim = {n}};
    return name ? qb_graph_add_constant(z->cx, z->graph, name, QB_DTYPE_S64, &shape, data) : -1;
}

int32_t qb_zoo_input(qb_zoo *z, const char *name, qb_dtype dtype, const qb_shape *shape) {
    int32_t id = qb_graph_add_value(z->cx, z->graph, name, dtype, shape);
    return id < 0 || qb_graph_add_input(z->cx, z->graph, id) != QB_OK ? -1 : id;
}

int64_t qb_zoo_channels(const qb_zoo *z, int32_t x) {
    return x < 0 ? 0 : z->graph->values[x].shape.dim[1];
}

/* --- statistics ------------------------------------------------------------------------------ */

/* Mean and size of each channel over the drawn images: `out` has room for 2 n numbers. The size is
 * the variance, smoothed with a quarter of the mean over all channels because few images make noisy
 * ones, plus `share` of the mean square. Without that part, what is unusual in an input would grow
 * from layer to layer (Yang et al. 2019, "A mean field theory of batch normalization"), and images
 * unlike the drawn ones would end in huge numbers. */
static bool channel_statistics(qb_zoo *z, int32_t x, double share, double *out) {
    const qb_shape *shape = &z->graph->values[x].shape;
    const float *data = sample_of(z, x);
    const int64_t batch = shape->dim[0], n = shape->dim[1];
    const int64_t plane = qb_shape_span(shape, 2, shape->rank);
    double average = 0;
    for (int64_t c = 0; c < n; c++) {
        double sum = 0, squares = 0;
        for (int64_t b = 0; b < batch; b++)
            for (int64_t i = 0; i < plane; i++) sum += data[(b * n + c) * plane + i];
        double mean = sum / (double)(batch * plane);
        for (int64_t b = 0; b < batch; b++)
            for (int64_t i = 0; i < plane; i++) {
                double d = data[(b * n + c) * plane + i] - mean;
                squares += d * d;
            }
        out[c] = mean;
        out[n + c] = squares / (double)(batch * plane) + share * mean * mean;
        average += out[n + c] / (double)n;
    }
    for (int64_t c = 0; c < n; c++) out[n + c] = 0.75 * out[n + c] + 0.25 * average;
    return average > 0;
}

/* The statistics of x in new memory; NULL with an error when all is zero. */
static double *measure(qb_zoo *z, int32_t x, double share) {
    double *s = qb_alloc(z->cx, 2 * (size_t)qb_zoo_channels(z, x), sizeof *s);
    if (!s || channel_statistics(z, x, share, s)) return s;
    qb_fail(z->cx, QB_STATUS_INTERNAL, "%s: all values are zero", z->graph->values[x].name);
    qb_free(s);
    return NULL;
}

/* --- layers ---------------------------------------------------------------------------------- */

static bool set_ints(qb_zoo *z, const char *attr, const int64_t *v, int32_t n) {
    qb_rewrite rw = {.cx = z->cx, .graph = z->graph};
    return qb_node_set_ints(&rw, z->graph->n_nodes - 1, attr, v, n) == QB_OK;
}

static bool set_int(qb_zoo *z, const char *attr, int64_t v) {
    qb_rewrite rw = {.cx = z->cx, .graph = z->graph};
    return qb_node_set_int(&rw, z->graph->n_nodes - 1, attr, v) == QB_OK;
}

int32_t qb_zoo_with_int(qb_zoo *z, int32_t out, const char *attr, int64_t value) {
    if (out < 0 || !set_int(z, attr, value)) return -1;
    if ((size_t)out < z->cap_samples) qb_free(QB_MOVE(z->sample[out]));
    return finalize(z, out);
}

int32_t qb_zoo_with_string(qb_zoo *z, int32_t out, const char *attr, const char *value) {
    qb_rewrite rw = {.cx = z->cx, .graph = z->graph};
    if (out < 0 || qb_node_set_string(&rw, z->graph->n_nodes - 1, attr, value) != QB_OK) return -1;
    if ((size_t)out < z->cap_samples) qb_free(QB_MOVE(z->sample[out]));
    return finalize(z, out);
}

int32_t qb_zoo_reshape(qb_zoo *z, const char *name, int32_t x, const int64_t *target, int32_t n) {
    if (!name || x < 0) return -1;
    int32_t in[2] = {x, qb_zoo_ints(z, qb_zoo_name(z, "%s.target", name), target, n)};
    return qb_zoo_node(z, "Reshape", name, in, 2);
}

int32_t qb_zoo_transpose(qb_zoo *z, const char *name, int32_t x, const int64_t *perm, int32_t n) {
    int32_t out = name ? add(z, "Transpose", name, &x, 1) : -1;
    return out >= 0 && set_ints(z, "perm", perm, n) ? finalize(z, out) : -1;
}

int32_t qb_zoo_select(qb_zoo *z, const char *name, int32_t x, int64_t axis, int64_t index) {
    qb_shape scalar = {.rank = 0};
    if (!name || x < 0) return -1;
    const char *label = qb_zoo_name(z, "%s.index", name);
    int32_t in[2] = {
        x,
        label ? qb_graph_add_constant(z->cx, z->graph, label, QB_DTYPE_S64, &scalar, &index) : -1};
    int32_t out = add(z, "Gather", name, in, 2);
    return out >= 0 && set_int(z, "axis", axis) ? finalize(z, out) : -1;
}

static bool set_window(qb_zoo *z, int64_t kernel, int64_t stride, int64_t pad) {
    int64_t k[2] = {kernel, kernel}, s[2] = {stride, stride}, p[4] = {pad, pad, pad, pad};
    return set_ints(z, "kernel_shape", k, 2) && set_ints(z, "strides", s, 2) &&
           set_ints(z, "pads", p, 4);
}

int32_t qb_zoo_conv_node(qb_zoo *z, const char *name, const int32_t *in, int32_t n_in,
                         qb_zoo_conv conv) {
    int32_t out = add(z, "Conv", name, in, n_in);
    if (out < 0 || !set_window(z, conv.kernel, conv.stride, conv.pad) ||
        !set_int(z, "group", conv.group))
        return -1;
    return finalize(z, out);
}

static int32_t he_weight(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv *conv) {
    if (conv->group == 0) conv->group = 1;
    if (conv->stride == 0) conv->stride = 1;
    int64_t per_group = qb_zoo_channels(z, x) / conv->group;
    if (per_group == 0) return -1;
    qb_shape shape = {.rank = 4, .dim = {conv->out, per_group, conv->kernel, conv->kernel}};
    double fan_in = (double)(per_group * conv->kernel * conv->kernel);
    return qb_zoo_normal(z, qb_zoo_name(z, "%s.weight", name), shape, sqrt(2 / fan_in));
}

int32_t qb_zoo_conv2d(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv conv) {
    if (x < 0 || !name) return -1;
    int32_t in[2] = {x, he_weight(z, name, x, &conv)};
    return qb_zoo_conv_node(z, name, in, 2, conv);
}

/* The weight and bias are scaled in place right after they were made, before anything else read
 * them; then the node runs again. */
int32_t qb_zoo_conv2d_bias(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv conv, double gain) {
    if (x < 0 || !name) return -1;
    int32_t weight = he_weight(z, name, x, &conv), bias = -1;
    qb_shape shape = {.rank = 1, .dim = {conv.out}};
    const char *bias_name = qb_zoo_name(z, "%s.bias", name);
    float *b = weight < 0 || !bias_name
                   ? NULL
                   : qb_graph_new_constant(z->cx, z->graph, bias_name, QB_DTYPE_F32, &shape, &bias);
    if (!b) return -1;
    int32_t in[3] = {x, weight, bias};
    int32_t out = qb_zoo_conv_node(z, name, in, 3, conv);
    double *s = out < 0 ? NULL : measure(z, out, 1);
    if (!s) return -1;
    float *w = sample_of(z, weight);
    int64_t inner = qb_shape_count(&z->graph->values[weight].shape) / conv.out;
    for (int64_t c = 0; c < conv.out; c++) {
        double scale = gain / sqrt(s[conv.out + c]);
        for (int64_t i = 0; i < inner; i++) w[c * inner + i] *= (float)scale;
        b[c] = (float)(gain * 0.2 * qb_rng_normal(&z->rng) - s[c] * scale);
    }
    QB_FREE_ALL(s, z->sample[out]);
    z->sample[out] = NULL;
    return finalize(z, out);
}

int32_t qb_zoo_batch_norm(qb_zoo *z, const char *name, int32_t x, double gain) {
    static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
    int64_t n = qb_zoo_channels(z, x);
    double *s = n == 0 ? NULL : measure(z, x, 1);
    if (!s) return -1;
    int32_t in[5] = {x, -1, -1, -1, -1};
    qb_shape shape = {.rank = 1, .dim = {n}};
    for (int k = 0; k < 4; k++) {
        const char *full = qb_zoo_name(z, "%s.%s", name, suffix[k]);
        float *data =
            full ? qb_graph_new_constant(z->cx, z->graph, full, QB_DTYPE_F32, &shape, &in[k + 1])
                 : NULL;
        for (int64_t c = 0; data && c < n; c++)
            data[c] = (float)(k == 0   ? gain * (0.7 + 0.6 * qb_rng_uniform(&z->rng))
                              : k == 1 ? gain * 0.2 * qb_rng_normal(&z->rng)
                              : k == 2 ? s[c]
                                       : s[n + c]);
    }
    qb_free(s);
    return qb_zoo_node(z, "BatchNormalization", name, in, 5);
}

/* The mean over the images goes into the bias; the deviations between them set the weights' size.
 */
int32_t qb_zoo_linear(qb_zoo *z, const char *name, int32_t x, int64_t out) {
    const double deviation = 2.5; /* of an output over the images */
    int64_t n = qb_zoo_channels(z, x);
    double *s = n == 0 ? NULL : measure(z, x, 0.3), variance = 0;
    if (!s) return -1;
    for (int64_t c = 0; c < n; c++) variance += s[n + c];
    qb_shape shape = {.rank = 2, .dim = {out, n}}, vector = {.rank = 1, .dim = {out}};
    int32_t weight =
        qb_zoo_normal(z, qb_zoo_name(z, "%s.weight", name), shape, deviation / sqrt(variance));
    int32_t bias = weight < 0 ? -1 : qb_zoo_normal(z, qb_zoo_name(z, "%s.bias", name), vector, 0.1);
    if (bias >= 0) {
        const float *w = sample_of(z, weight);
        float *b = sample_of(z, bias);
        for (int64_t o = 0; o < out; o++) {
            double sum = b[o];
            for (int64_t c = 0; c < n; c++) sum -= w[o * n + c] * s[c];
            b[o] = (float)sum;
        }
    }
    qb_free(s);
    int32_t in[3] = {x, weight, bias};
    int32_t y = add(z, "Gemm", name, in, 3);
    return y >= 0 && set_int(z, "transB", 1) ? finalize(z, y) : -1;
}

int32_t qb_zoo_relu(qb_zoo *z, const char *name, int32_t x) {
    return qb_zoo_node(z, "Relu", name, &x, 1);
}

int32_t qb_zoo_relu6(qb_zoo *z, const char *name, int32_t x) {
    static const float bounds[2] = {0, 6};
    int32_t in[3] = {x, qb_graph_find_value(z->graph, "relu6_min"),
                     qb_graph_find_value(z->graph, "relu6_max")};
    qb_shape scalar = {.rank = 0};
    if (in[1] < 0) in[1] = qb_zoo_floats(z, "relu6_min", scalar, &bounds[0]);
    if (in[2] < 0) in[2] = qb_zoo_floats(z, "relu6_max", scalar, &bounds[1]);
    return qb_zoo_node(z, "Clip", name, in, 3);
}

int32_t qb_zoo_silu(qb_zoo *z, const char *name, int32_t x) {
    if (!name) return -1;
    int32_t gate = qb_zoo_node(z, "Sigmoid", qb_zoo_name(z, "%s.sigmoid", name), &x, 1);
    return qb_zoo_binary(z, "Mul", name, x, gate);
}

int32_t qb_zoo_binary(qb_zoo *z, const char *op, const char *name, int32_t a, int32_t b) {
    int32_t in[2] = {a, b};
    return qb_zoo_node(z, op, name, in, 2);
}

int32_t qb_zoo_concat(qb_zoo *z, const char *name, const int32_t *x, int32_t n, int64_t axis) {
    int32_t out = name ? add(z, "Concat", name, x, n) : -1;
    return out >= 0 && set_int(z, "axis", axis) ? finalize(z, out) : -1;
}

int32_t qb_zoo_pool(qb_zoo *z, const char *op, const char *name, int32_t x, int64_t kernel,
                    int64_t stride, int64_t pad, bool ceil_mode) {
    int32_t out = name ? add(z, op, name, &x, 1) : -1;
    if (out < 0 || !set_window(z, kernel, stride, pad) || !set_int(z, "ceil_mode", ceil_mode))
        return -1;
    return finalize(z, out);
}

int32_t qb_zoo_global_pool(qb_zoo *z, const char *name, int32_t x, bool flat) {
    int32_t pooled = qb_zoo_node(z, "GlobalAveragePool", name, &x, 1);
    return flat ? qb_zoo_node(z, "Flatten", "flatten", &pooled, 1) : pooled;
}
