#include "graph/zoo/zoo_internal.h"

static int32_t build(qb_zoo *z, int32_t image) {
    return qb_zoo_resnet(z, image, (const int32_t[4]){3, 4, 6, 3}, true);
}

const qb_zoo_model qb_zoo_resnet50 = {
    .name = "resnet50",
    .summary = "ResNet-50 v1.5 (stride in the 3x3), 4.1 GMACs",
    .channels = 3,
    .side = 224,
    .build = build,
};
