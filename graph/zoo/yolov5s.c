/* The layers of YOLOv5s (Ultralytics, version 6) up to the raw predictions: one row a box with 4
 * coordinates, objectness and 80 classes after Sigmoid. Boxes are not decoded. */
#include "graph/zoo/zoo_internal.h"

enum { ANCHORS = 3, ROW = 85 };

static int32_t conv(qb_zoo *z, const char *name, int32_t x, int64_t out, int64_t kernel,
                    int64_t stride, int64_t pad) {
    if (!name) return -1;
    qb_zoo_conv shape = {out, kernel, stride, pad, 1};
    x = qb_zoo_conv2d(z, qb_zoo_name(z, "%s.conv", name), x, shape);
    x = qb_zoo_batch_norm(z, qb_zoo_name(z, "%s.bn", name), x, 1.5);
    return qb_zoo_silu(z, qb_zoo_name(z, "%s.act", name), x);
}

static int32_t c3(qb_zoo *z, const char *name, int32_t x, int64_t out, int repeat, bool shortcut) {
    if (!name) return -1;
    int64_t width = out / 2;
    int32_t part[2] = {conv(z, qb_zoo_name(z, "%s.cv1", name), x, width, 1, 1, 0), -1};
    for (int i = 0; i < repeat; i++) {
        int32_t y = conv(z, qb_zoo_name(z, "%s.m.%d.cv1", name, i), part[0], width, 1, 1, 0);
        y = conv(z, qb_zoo_name(z, "%s.m.%d.cv2", name, i), y, width, 3, 1, 1);
        part[0] = shortcut
                      ? qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.m.%d.add", name, i), part[0], y)
                      : y;
    }
    part[1] = conv(z, qb_zoo_name(z, "%s.cv2", name), x, width, 1, 1, 0);
    x = qb_zoo_concat(z, qb_zoo_name(z, "%s.concat", name), part, 2, 1);
    return conv(z, qb_zoo_name(z, "%s.cv3", name), x, out, 1, 1, 0);
}

static int32_t sppf(qb_zoo *z, int32_t x, int64_t out) {
    int32_t part[4] = {conv(z, "model.9.cv1", x, out / 2, 1, 1, 0), -1, -1, -1};
    for (int i = 1; i < 4; i++)
        part[i] = qb_zoo_pool(z, "MaxPool", qb_zoo_name(z, "model.9.m.%d", i), part[i - 1], 5, 1, 2,
                              false);
    return conv(z, "model.9.cv2", qb_zoo_concat(z, "model.9.concat", part, 4, 1), out, 1, 1, 0);
}

static int32_t upsample(qb_zoo *z, const char *name, int32_t x) {
    static const float twice[4] = {1, 1, 2, 2};
    qb_shape four = {.rank = 1, .dim = {4}}, none = {.rank = 1, .dim = {0}};
    const char *label = qb_zoo_name(z, "%s.scales", name), *roi = qb_zoo_name(z, "%s.roi", name);
    int32_t in[3] = {x, qb_zoo_floats(z, roi, none, twice), qb_zoo_floats(z, label, four, twice)};
    int32_t y = qb_zoo_node(z, "Resize", name, in, 3);
    y = qb_zoo_with_string(z, y, "coordinate_transformation_mode", "asymmetric");
    return qb_zoo_with_string(z, y, "nearest_mode", "floor");
}

static int32_t join(qb_zoo *z, const char *name, int32_t a, int32_t b) {
    return qb_zoo_concat(z, name, (const int32_t[2]){a, b}, 2, 1);
}

/* [N, 3 * 85, H, W] -> [N, 3 * H * W, 85] */
static int32_t detect(qb_zoo *z, int level, int32_t x) {
    const char *name = qb_zoo_name(z, "model.24.m.%d", level);
    if (!name) return -1;
    qb_zoo_conv head = {(int64_t)ANCHORS * ROW, 1, 1, 0, 1};
    x = qb_zoo_conv2d_bias(z, name, x, head, 2);
    x = qb_zoo_reshape(z, qb_zoo_name(z, "%s.split", name), x,
                       (const int64_t[4]){0, ANCHORS, ROW, -1}, 4);
    x = qb_zoo_transpose(z, qb_zoo_name(z, "%s.rows", name), x, (const int64_t[4]){0, 1, 3, 2}, 4);
    x = qb_zoo_node(z, "Sigmoid", qb_zoo_name(z, "%s.sigmoid", name), &x, 1);
    return qb_zoo_reshape(z, qb_zoo_name(z, "%s.boxes", name), x, (const int64_t[3]){0, -1, ROW},
                          3);
}

static int32_t build(qb_zoo *z, int32_t image) {
    int32_t x = conv(z, "model.0", image, 32, 6, 2, 2);
    x = c3(z, "model.2", conv(z, "model.1", x, 64, 3, 2, 1), 64, 1, true);
    int32_t p3 = c3(z, "model.4", conv(z, "model.3", x, 128, 3, 2, 1), 128, 2, true);
    int32_t p4 = c3(z, "model.6", conv(z, "model.5", p3, 256, 3, 2, 1), 256, 3, true);
    x = c3(z, "model.8", conv(z, "model.7", p4, 512, 3, 2, 1), 512, 1, true);
    int32_t top = conv(z, "model.10", sppf(z, x, 512), 256, 1, 1, 0);
    x = c3(z, "model.13", join(z, "model.12", upsample(z, "model.11", top), p4), 256, 1, false);
    int32_t middle = conv(z, "model.14", x, 128, 1, 1, 0);
    x = join(z, "model.16", upsample(z, "model.15", middle), p3);
    int32_t small = c3(z, "model.17", x, 128, 1, false);
    x = join(z, "model.19", conv(z, "model.18", small, 128, 3, 2, 1), middle);
    int32_t medium = c3(z, "model.20", x, 256, 1, false);
    x = join(z, "model.22", conv(z, "model.21", medium, 256, 3, 2, 1), top);
    int32_t large = c3(z, "model.23", x, 512, 1, false);
    int32_t boxes[3] = {detect(z, 0, small), detect(z, 1, medium), detect(z, 2, large)};
    return qb_zoo_concat(z, "boxes", boxes, 3, 1);
}

const qb_zoo_model qb_zoo_yolov5s = {
    .name = "yolov5s",
    .summary = "YOLOv5s detector, SiLU, Resize, concats, 8.2 GMACs",
    .channels = 3,
    .side = 640,
    .build = build,
    .output = "predictions",
};
