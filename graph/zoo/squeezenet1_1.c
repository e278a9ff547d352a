/* Iandola et al. 2016, "SqueezeNet"; version 1.1. It has no normalization layers. */
#include "graph/zoo/zoo_internal.h"

static int32_t conv_relu(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv conv) {
    if (!name) return -1;
    x = qb_zoo_conv2d_bias(z, name, x, conv, 1);
    return qb_zoo_relu(z, qb_zoo_name(z, "%s_activation", name), x);
}

static int32_t fire(qb_zoo *z, int number, int32_t x, int64_t squeeze, int64_t expand) {
    const char *name = qb_zoo_name(z, "features.%d", number);
    if (!name) return -1;
    int32_t narrow =
        conv_relu(z, qb_zoo_name(z, "%s.squeeze", name), x, (qb_zoo_conv){squeeze, 1, 1, 0, 1});
    int32_t wide[2];
    wide[0] = conv_relu(z, qb_zoo_name(z, "%s.expand1x1", name), narrow,
                        (qb_zoo_conv){expand, 1, 1, 0, 1});
    wide[1] = conv_relu(z, qb_zoo_name(z, "%s.expand3x3", name), narrow,
                        (qb_zoo_conv){expand, 3, 1, 1, 1});
    return qb_zoo_concat(z, qb_zoo_name(z, "%s.concat", name), wide, 2, 1);
}

static int32_t build(qb_zoo *z, int32_t image) {
    int32_t x = conv_relu(z, "features.0", image, (qb_zoo_conv){64, 3, 2, 0, 1});
    x = qb_zoo_pool(z, "MaxPool", "features.2", x, 3, 2, 0, true);
    x = fire(z, 4, fire(z, 3, x, 16, 64), 16, 64);
    x = qb_zoo_pool(z, "MaxPool", "features.5", x, 3, 2, 0, true);
    x = fire(z, 7, fire(z, 6, x, 32, 128), 32, 128);
    x = qb_zoo_pool(z, "MaxPool", "features.8", x, 3, 2, 0, true);
    x = fire(z, 10, fire(z, 9, x, 48, 192), 48, 192);
    x = fire(z, 12, fire(z, 11, x, 64, 256), 64, 256);
    x = qb_zoo_conv2d_bias(z, "classifier.1", x, (qb_zoo_conv){1000, 1, 1, 0, 1}, 4);
    x = qb_zoo_relu(z, "classifier.2", x);
    return qb_zoo_global_pool(z, "classifier.3", x, true);
}

const qb_zoo_model qb_zoo_squeezenet1_1 = {
    .name = "squeezenet1_1",
    .summary = "SqueezeNet 1.1, concats, 0.35 GMACs",
    .channels = 3,
    .side = 224,
    .build = build,
};
