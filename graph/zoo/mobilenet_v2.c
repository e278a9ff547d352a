/* Sandler et al. 2018, "MobileNetV2: inverted residuals and linear bottlenecks". */
#include "graph/zoo/zoo_internal.h"

static int32_t conv_bn(qb_zoo *z, const char *name, int number, int32_t x, qb_zoo_conv conv,
                       double gain) {
    if (!name) return -1;
    x = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.%d", name, number), x, conv);
    return qb_zoo_batch_norm(z, qb_zoo_name(z, "%s.%d", name, number + 1), x, gain);
}

static int32_t conv_bn_relu6(qb_zoo *z, const char *name, int32_t x, qb_zoo_conv conv) {
    if (!name) return -1;
    /* Twice the usual size, so that both ends of the clip matter. */
    x = conv_bn(z, name, 0, x, conv, 2);
    return qb_zoo_relu6(z, qb_zoo_name(z, "%s.2", name), x);
}

static int32_t inverted_residual(qb_zoo *z, int number, int32_t x, int64_t expand, int64_t out,
                                 int64_t stride) {
    const char *name = qb_zoo_name(z, "features.%d.conv", number);
    int64_t in = qb_zoo_channels(z, x), wide = in * expand;
    bool residual = stride == 1 && in == out;
    int at = 0;
    int32_t y = x;
    if (!name || x < 0) return -1;
    if (expand != 1)
        y = conv_bn_relu6(z, qb_zoo_name(z, "%s.%d", name, at++), y,
                          (qb_zoo_conv){wide, 1, 1, 0, 1});
    y = conv_bn_relu6(z, qb_zoo_name(z, "%s.%d", name, at++), y,
                      (qb_zoo_conv){wide, 3, stride, 1, wide});
    y = conv_bn(z, name, at, y, (qb_zoo_conv){out, 1, 1, 0, 1}, residual ? 0.5 : 1);
    return residual ? qb_zoo_binary(z, "Add", qb_zoo_name(z, "features.%d.add", number), x, y) : y;
}

static int32_t build(qb_zoo *z, int32_t image) {
    static const struct {
        int64_t expand, out;
        int repeat;
        int64_t stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int number = 1;
    int32_t x = conv_bn_relu6(z, "features.0", image, (qb_zoo_conv){32, 3, 2, 1, 1});
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
        for (int i = 0; i < stages[s].repeat; i++)
            x = inverted_residual(z, number++, x, stages[s].expand, stages[s].out,
                                  i == 0 ? stages[s].stride : 1);
    x = conv_bn_relu6(z, "features.18", x, (qb_zoo_conv){1280, 1, 1, 0, 1});
    x = qb_zoo_global_pool(z, "avgpool", x, true);
    return qb_zoo_linear(z, "classifier.1", x, 1000);
}

const qb_zoo_model qb_zoo_mobilenet_v2 = {
    .name = "mobilenet_v2",
    .summary = "MobileNetV2, depthwise, 0.3 GMACs",
    .channels = 3,
    .side = 224,
    .build = build,
};
