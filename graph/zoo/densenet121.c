/* Huang et al. 2016, "Densely connected convolutional networks". */
#include "graph/zoo/zoo_internal.h"

enum { GROWTH = 32, BOTTLENECK = 4 * GROWTH };

static int32_t bn_relu(qb_zoo *z, const char *block, const char *suffix, int32_t x) {
    if (!block) return -1;
    x = qb_zoo_batch_norm(z, qb_zoo_name(z, "%s.norm%s", block, suffix), x, 1);
    return qb_zoo_relu(z, qb_zoo_name(z, "%s.relu%s", block, suffix), x);
}

static int32_t dense_layer(qb_zoo *z, const char *name, int32_t x) {
    if (!name) return -1;
    int32_t y = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.conv1", name), bn_relu(z, name, "1", x),
                              (qb_zoo_conv){BOTTLENECK, 1, 1, 0, 1});
    y = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.conv2", name), bn_relu(z, name, "2", y),
                      (qb_zoo_conv){GROWTH, 3, 1, 1, 1});
    return qb_zoo_concat(z, qb_zoo_name(z, "%s.concat", name), (const int32_t[2]){x, y}, 2, 1);
}

static int32_t transition(qb_zoo *z, const char *name, int32_t x) {
    if (!name || x < 0) return -1;
    qb_zoo_conv half = {qb_zoo_channels(z, x) / 2, 1, 1, 0, 1};
    x = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.conv", name), bn_relu(z, name, "", x), half);
    return qb_zoo_pool(z, "AveragePool", qb_zoo_name(z, "%s.pool", name), x, 2, 2, 0, false);
}

static int32_t build(qb_zoo *z, int32_t image) {
    static const int layers[4] = {6, 12, 24, 16};
    int32_t x = qb_zoo_conv2d(z, "features.conv0", image, (qb_zoo_conv){64, 7, 2, 3, 1});
    x = bn_relu(z, "features", "0", x);
    x = qb_zoo_pool(z, "MaxPool", "features.pool0", x, 3, 2, 1, false);
    for (int b = 0; b < 4; b++) {
        for (int i = 0; i < layers[b]; i++)
            x = dense_layer(z, qb_zoo_name(z, "features.denseblock%d.denselayer%d", b + 1, i + 1),
                            x);
        if (b < 3) x = transition(z, qb_zoo_name(z, "features.transition%d", b + 1), x);
    }
    x = qb_zoo_global_pool(z, "avgpool", bn_relu(z, "features", "5", x), true);
    return qb_zoo_linear(z, "classifier", x, 1000);
}

const qb_zoo_model qb_zoo_densenet121 = {
    .name = "densenet121",
    .summary = "DenseNet-121, normalization before convolution, concats, 2.9 GMACs",
    .channels = 3,
    .side = 224,
    .build = build,
};
