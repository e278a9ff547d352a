/* Tan and Le 2019, "EfficientNet": inverted residuals with squeeze-and-excitation and SiLU. */
#include "graph/zoo/zoo_internal.h"

static int32_t conv_bn(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv conv, double gain,
                       bool silu) {
    if (!name) return -1;
    x = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.0", name), x, conv);
    x = qb_zoo_batch_norm(z, qb_zoo_name(z, "%s.1", name), x, gain);
    return silu ? qb_zoo_silu(z, qb_zoo_name(z, "%s.2", name), x) : x;
}

static int32_t squeeze_excite(qb_zoo *z, const char *name, int32_t x, int64_t narrow) {
    if (!name) return -1;
    int32_t gate = qb_zoo_global_pool(z, qb_zoo_name(z, "%s.avgpool", name), x, false);
    gate = qb_zoo_conv2d_bias(z, qb_zoo_name(z, "%s.fc1", name), gate,
                              (qb_zoo_conv){narrow, 1, 1, 0, 1}, 0.5);
    gate = qb_zoo_silu(z, qb_zoo_name(z, "%s.activation", name), gate);
    gate = qb_zoo_conv2d_bias(z, qb_zoo_name(z, "%s.fc2", name), gate,
                              (qb_zoo_conv){qb_zoo_channels(z, x), 1, 1, 0, 1}, 0.5);
    gate = qb_zoo_node(z, "Sigmoid", qb_zoo_name(z, "%s.scale_activation", name), &gate, 1);
    return qb_zoo_binary(z, "Mul", qb_zoo_name(z, "%s.mul", name), gate, x);
}

static int32_t mbconv(qb_zoo *z, const char *name, int32_t x, int64_t expand, int64_t kernel,
                      int64_t stride, int64_t out) {
    if (!name || x < 0) return -1;
    int64_t in = qb_zoo_channels(z, x), wide = in * expand;
    bool residual = stride == 1 && in == out;
    int at = 0;
    int32_t y = x;
    if (expand != 1)
        y = conv_bn(z, qb_zoo_name(z, "%s.block.%d", name, at++), y,
                    (qb_zoo_conv){wide, 1, 1, 0, 1}, 2, true);
    y = conv_bn(z, qb_zoo_name(z, "%s.block.%d", name, at++), y,
                (qb_zoo_conv){wide, kernel, stride, kernel / 2, wide}, 2, true);
    y = squeeze_excite(z, qb_zoo_name(z, "%s.block.%d", name, at++), y, in / 4);
    y = conv_bn(z, qb_zoo_name(z, "%s.block.%d", name, at), y, (qb_zoo_conv){out, 1, 1, 0, 1},
                residual ? 0.5 : 1, false);
    return residual ? qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add", name), y, x) : y;
}

static int32_t build(qb_zoo *z, int32_t image) {
    static const struct {
        int64_t expand, kernel, stride, out;
        int repeat;
    } stages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                  {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
    int32_t x = conv_bn(z, "features.0", image, (qb_zoo_conv){32, 3, 2, 1, 1}, 2, true);
    for (int s = 0; s < 7; s++)
        for (int i = 0; i < stages[s].repeat; i++)
            x = mbconv(z, qb_zoo_name(z, "features.%d.%d", s + 1, i), x, stages[s].expand,
                       stages[s].kernel, i == 0 ? stages[s].stride : 1, stages[s].out);
    x = conv_bn(z, "features.8", x, (qb_zoo_conv){1280, 1, 1, 0, 1}, 2, true);
    x = qb_zoo_global_pool(z, "avgpool", x, true);
    return qb_zoo_linear(z, "classifier.1", x, 1000);
}

const qb_zoo_model qb_zoo_efficientnet_b0 = {
    .name = "efficientnet_b0",
    .summary = "EfficientNet-B0, SiLU and gates, 0.4 GMACs",
    .channels = 3,
    .side = 224,
    .build = build,
    .drawn_side = 160,
};
