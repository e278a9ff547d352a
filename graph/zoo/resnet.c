/* Residual networks (He et al. 2015, "Deep residual learning for image recognition"). */
#include "graph/zoo/zoo_internal.h"

/* The branch adds a third of the stream's variance or less, so that depth does not blow it up. */
#define BRANCH_GAIN 0.4

static int32_t conv_bn(qb_zoo *z, const char *block, int number, int32_t x, qb_zoo_conv conv,
                       double gain, bool relu) {
    x = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.conv%d", block, number), x, conv);
    x = qb_zoo_batch_norm(z, qb_zoo_name(z, "%s.bn%d", block, number), x, gain);
    return relu ? qb_zoo_relu(z, qb_zoo_name(z, "%s.relu%d", block, number), x) : x;
}

static int32_t block(qb_zoo *z, const char *name, int32_t x, int64_t width, int64_t stride,
                     bool bottleneck) {
    if (!name || x < 0) return -1;
    int64_t out = bottleneck ? 4 * width : width;
    int32_t branch = x, shortcut = x;
    if (bottleneck) {
        branch = conv_bn(z, name, 1, branch, (qb_zoo_conv){width, 1, 1, 0, 1}, 1, true);
        branch = conv_bn(z, name, 2, branch, (qb_zoo_conv){width, 3, stride, 1, 1}, 1, true);
        branch = conv_bn(z, name, 3, branch, (qb_zoo_conv){out, 1, 1, 0, 1}, BRANCH_GAIN, false);
    } else {
        branch = conv_bn(z, name, 1, branch, (qb_zoo_conv){width, 3, stride, 1, 1}, 1, true);
        branch = conv_bn(z, name, 2, branch, (qb_zoo_conv){out, 3, 1, 1, 1}, BRANCH_GAIN, false);
    }
    if (stride != 1 || qb_zoo_channels(z, x) != out) {
        qb_zoo_conv conv = {out, 1, stride, 0, 1};
        shortcut = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.downsample.0", name), x, conv);
        shortcut = qb_zoo_batch_norm(z, qb_zoo_name(z, "%s.downsample.1", name), shortcut, 1);
    }
    int32_t sum = qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add", name), branch, shortcut);
    return qb_zoo_relu(z, qb_zoo_name(z, "%s.relu", name), sum);
}

int32_t qb_zoo_resnet(qb_zoo *z, int32_t image, const int32_t blocks[4], bool bottleneck) {
    int32_t x = qb_zoo_conv2d(z, "conv1", image, (qb_zoo_conv){64, 7, 2, 3, 1});
    x = qb_zoo_relu(z, "relu", qb_zoo_batch_norm(z, "bn1", x, 1));
    x = qb_zoo_pool(z, "MaxPool", "maxpool", x, 3, 2, 1, false);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++)
            x = block(z, qb_zoo_name(z, "layer%d.%d", stage + 1, i), x, (int64_t)64 << stage,
                      stage > 0 && i == 0 ? 2 : 1, bottleneck);
    x = qb_zoo_global_pool(z, "avgpool", x, true);
    return qb_zoo_linear(z, "fc", x, 1000);
}
