/* The builder behind the zoo's models. An error sticks in the context: layers of a failed model
 * give -1 and take -1, so that a model reads like its definition and is checked once at the end.
 *
 * Names follow torchvision: "layer1.0.conv1" has the weight "layer1.0.conv1.weight" and the output
 * "layer1.0.conv1". `%` arguments are printf's. */
#ifndef QB_ZOO_INTERNAL_H
#define QB_ZOO_INTERNAL_H

#include "base/rng.h"
#include "graph/rewrite_internal.h"
#include "graph/zoo.h"

typedef struct qb_zoo {
    qb_ctx *cx;
    qb_graph *graph;
    qb_rng rng;
    bool drawn;     /* run each layer over drawn images: not qb_zoo_model.plain */
    int64_t side;   /* of the finished model's images */
    int64_t length; /* its tokens: a number or a symbol */
    void **sample;  /* [n_values] the values for the drawn images; NULL: not computed */
    size_t cap_samples;
} qb_zoo;

#define X(identifier) extern const qb_zoo_model qb_zoo_##identifier;
#include "graph/zoo.def"

typedef struct qb_zoo_conv {
    int64_t out, kernel, stride, pad, group; /* stride and group 0: 1 */
} qb_zoo_conv;

/* --- layers: each returns the id of its output ----------------------------------------------- */

/* Convolution without bias, He-initialized. */
int32_t qb_zoo_conv2d(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv conv);
/* Convolution with bias whose outputs have mean 0 and standard deviation `gain` a channel over the
 * drawn images. */
int32_t qb_zoo_conv2d_bias(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv conv, double gain);
/* Convolution of in {x, weight} or {x, weight, bias}. */
int32_t qb_zoo_conv_node(qb_zoo *z, const char *name, const int32_t *in, int32_t n_in,
                         qb_zoo_conv conv);
/* BatchNormalization whose statistics are those of the drawn images; gamma lies around `gain`. */
int32_t qb_zoo_batch_norm(qb_zoo *z, const char *name, int32_t x, double gain);
/* Fully connected layer on [N, C] (Gemm, weight [out, C]); outputs vary around 0 between images. */
int32_t qb_zoo_linear(qb_zoo *z, const char *name, int32_t x, int64_t out);
int32_t qb_zoo_relu(qb_zoo *z, const char *name, int32_t x);
int32_t qb_zoo_relu6(qb_zoo *z, const char *name, int32_t x);
/* x sigmoid(x), as two nodes. */
int32_t qb_zoo_silu(qb_zoo *z, const char *name, int32_t x);
int32_t qb_zoo_binary(qb_zoo *z, const char *op, const char *name, int32_t a, int32_t b);
int32_t qb_zoo_concat(qb_zoo *z, const char *name, const int32_t *x, int32_t n, int64_t axis);
int32_t qb_zoo_pool(qb_zoo *z, const char *op, const char *name, int32_t x, int64_t kernel,
                    int64_t stride, int64_t pad, bool ceil_mode);
/* GlobalAveragePool, and Flatten behind it where `flat`. */
int32_t qb_zoo_global_pool(qb_zoo *z, const char *name, int32_t x, bool flat);
/* Any operator with one output and attributes left at their defaults. */
int32_t qb_zoo_node(qb_zoo *z, const char *op, const char *name, const int32_t *in, int32_t n_in);

/* --- layers of transformers, on [N, tokens, width] ------------------------------------------- */

/* x W + b on the last axis, as MatMul and Add; W's deviation is gain / sqrt(width). */
int32_t qb_zoo_dense(qb_zoo *z, const char *name, int32_t x, int64_t out, double gain);
int32_t qb_zoo_layer_norm(qb_zoo *z, const char *name, int32_t x, double epsilon);
/* Self-attention with its output projection; `mask` (-1: none) is added to the scores. */
int32_t qb_zoo_attention(qb_zoo *z, const char *name, int32_t x, int64_t heads, int32_t mask);
/* Two dense layers with Gelu between them. */
int32_t qb_zoo_mlp(qb_zoo *z, const char *first, const char *second, int32_t x, int64_t hidden);

/* --- tools ----------------------------------------------------------------------------------- */

/* Channels of a value, 0 after a failure. */
int64_t qb_zoo_channels(const qb_zoo *z, int32_t x);
/* Constant of n normal numbers. */
int32_t qb_zoo_normal(qb_zoo *z, const char *name, qb_shape shape, double deviation);
int32_t qb_zoo_floats(qb_zoo *z, const char *name, qb_shape shape, const float *data);
int32_t qb_zoo_ints(qb_zoo *z, const char *name, const int64_t *data, int32_t n);
/* Reshape to a constant target (0 keeps a dimension); Transpose; Gather of one index. */
int32_t qb_zoo_reshape(qb_zoo *z, const char *name, int32_t x, const int64_t *target, int32_t n);
int32_t qb_zoo_transpose(qb_zoo *z, const char *name, int32_t x, const int64_t *perm, int32_t n);
int32_t qb_zoo_select(qb_zoo *z, const char *name, int32_t x, int64_t axis, int64_t index);
/* Attributes of the node added last, then its shape anew. */
int32_t qb_zoo_with_int(qb_zoo *z, int32_t out, const char *attr, int64_t value);
int32_t qb_zoo_with_string(qb_zoo *z, int32_t out, const char *attr, const char *value);
/* A further input. */
int32_t qb_zoo_input(qb_zoo *z, const char *name, qb_dtype dtype, const qb_shape *shape);
/* "NAME.suffix" in the graph's arena; NULL on failure. */
const char *qb_zoo_name(qb_zoo *z, const char *fmt, ...) QB_PRINTF(2, 3);

/* Shared by resnet18 and resnet50: four stages of `blocks` blocks, of two 3x3 convolutions or, with
 * `bottleneck`, of 1x1, 3x3 (which has the stride, "v1.5") and 1x1 with four times the channels. */
int32_t qb_zoo_resnet(qb_zoo *z, int32_t image, const int32_t blocks[4], bool bottleneck);

#endif
