/* tensor_folder: PATH/NAME.npy (or .npz, .bin, .raw, .pb), a sample each, labels unknown. */
#include "base/file.h"
#include "datasets/datasets_internal.h"

static bool tensor_folder_probe(const char *path) {
    return qb_path_is_dir(path) && qb_scan_any(path, QB_SCAN_TENSORS);
}

static qb_status tensor_folder_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels;
    return qb_dataset_add_folder(cx, dataset, QB_SCAN_TENSORS);
}

const qb_dataset_format qb_format_tensor_folder = {
    .name = "tensor_folder",
    .text = "a folder of .npy, .npz, .bin or .pb files, a sample each",
    .probe = tensor_folder_probe,
    .open = tensor_folder_open,
    .read_tensors = qb_dataset_read_tensor_file,
};
