/* Label files of YOLO data sets, for an image of a size; the first byte tells the classes, 255 that
 * the rest is an annotation of VOC. */
#include <math.h>
#include <stdlib.h>

#include "datasets/truth_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset dataset = {.path = "fuzz"};
    if (qb_truth_begin(&cx, &dataset) != QB_OK) abort();
    qb_coco_image image = {.width = 640, .height = 480, .file_name = "x.jpg"};
    dataset.truth->image = qb_alloc(&cx, 1, sizeof image);
    if (!dataset.truth->image) abort();
    *dataset.truth->image = image;
    dataset.truth->n_images = 1;
    const char *text = (const char *)data + 1;
    const qb_status status =
        data[0] == 255
            ? qb_voc_objects_parse(&cx, "fuzz", text, size - 1, dataset.truth)
            : qb_yolo_labels_parse(&cx, "fuzz", text, size - 1, data[0] % 8, dataset.truth);
    if (status != QB_OK && cx.message[0] == '\0') abort();
    for (size_t i = 0; i < dataset.truth->objects.n; i++) {
        const qb_coco_object *o = &dataset.truth->objects.item[i];
        if (o->image != 0 || o->category < 0 || o->category >= dataset.truth->n_categories) abort();
        for (int k = 0; k < 4; k++)
            if (!isfinite(o->box[k])) abort();
    }
    qb_coco_release(dataset.truth);
    qb_free(dataset.truth);
    return 0;
}
