#include "graph/zoo/zoo_internal.h"

static int32_t build(qb_zoo *z, int32_t image) {
    return qb_zoo_resnet(z, image, (const int32_t[4]){2, 2, 2, 2}, false);
}

const qb_zoo_model qb_zoo_resnet18 = {
    .name = "resnet18",
    .summary = "ResNet-18, 1.8 GMACs",
    .channels = 3,
    .side = 224,
    .build = build,
};
