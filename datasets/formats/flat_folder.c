/* flat_folder: PATH/NAME.jpg, labels unknown. */
#include "base/file.h"
#include "datasets/datasets_internal.h"

static bool flat_folder_probe(const char *path) {
    return qb_path_is_dir(path) && qb_scan_any(path, QB_SCAN_IMAGES);
}

static qb_status flat_folder_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels; /* there is nothing that they could name */
    return qb_dataset_add_folder(cx, dataset, QB_SCAN_IMAGES);
}

const qb_dataset_format qb_format_flat_folder = {
    .name = "flat_folder",
    .text = "a folder of JPEG or PNG images, without labels",
    .probe = flat_folder_probe,
    .open = flat_folder_open,
    .read = qb_dataset_read_file,
};
