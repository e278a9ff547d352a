/* Tensors from files: samples that are a model's inputs as they are, one tensor an input. */
#ifndef QB_DATASETS_TENSORS_H
#define QB_DATASETS_TENSORS_H

#include "base/hash.h"
#include "kernels/tensor.h"

#define QB_INPUTS_MAX 256                     /* inputs of a model that data can feed */
#define QB_TENSOR_BYTES_MAX ((size_t)1 << 32) /* of one sample's tensor */

/* One tensor of a sample, row-major in memory of its own. Raw bytes (.bin), whose type and shape
 * the file does not tell, have dtype NONE and rank -1. */
typedef struct qb_named_tensor {
    char *name; /* of the model's input; NULL: known by its position only */
    qb_tensor tensor;
    size_t bytes;
} qb_named_tensor;

typedef struct qb_tensors {
    int32_t n;
    qb_named_tensor item[QB_INPUTS_MAX];
} qb_tensors;

void qb_tensors_release(qb_tensors *tensors); /* accepts zeroed */
/* The same with the struct, which is too large for a thread's stack; accepts NULL. */
void qb_tensors_free(qb_tensors *tensors);
QB_RELEASE_AT(qb_tensors, qb_tensors_free)

/* What a model's input wants; negative dimensions take any size. */
typedef struct qb_input_spec {
    const char *name;
    qb_dtype dtype;
    qb_shape shape;
} qb_input_spec;

/* Finds the tensor of each input and moves its memory to out[n] (free with qb_free). Tensors with
 * names are matched by name (more tensors than inputs may be there), others by position; a single
 * tensor fits a single input whatever its name. A missing leading dimension becomes 1. Types
 * convert where every value keeps its meaning: integers to integers that hold them (checked),
 * integers and floats to f32 or f64. Raw bytes take the input's type and shape; one open dimension
 * beside the batch follows from their number. Errors (QB_STATUS_INVALID) name the input, the
 * expected and the actual type and shape. */
qb_status qb_tensors_bind(qb_ctx *cx, const qb_input_spec *spec, int32_t n, qb_tensors *from,
                          qb_tensor *out);
/* Hash of types, shapes and elements of n row-major tensors. Of bound ones it is that of what the
 * model gets, whatever kind of file they came from. */
qb_hash qb_tensors_hash(const qb_tensor *tensor, int32_t n);

/* Reads NAME.npy, .npz, .bin or .raw, or .pb (TensorProto). An .npz (stored or deflated, checksums
 * verified) gives a tensor for each array, named after it; the others give one, without a name. The
 * array `label` or `labels` of an .npz is left out. Errors: QB_STATUS_FORMAT names the place. */
qb_status qb_tensor_file_read(qb_ctx *cx, const char *path, qb_tensors *out);
bool qb_name_is_tensor(const char *name); /* has one of these suffixes */

/* The header of .npy bytes: *out is a view of them (its data are not aligned). */
qb_status qb_npy_view(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                      qb_tensor *out);

/* The same with the first n of `size` bytes: type, shape, and where the elements begin. */
qb_status qb_npy_look(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t n, size_t size,
                      qb_desc *desc, size_t *data);

/* The arrays of an .npz, by name. */
typedef struct qb_npz_array {
    char *name;     /* without .npy */
    qb_tensor view; /* not aligned where it is stored; data NULL until it is loaded */
    uint8_t *own;   /* what was unpacked, aligned: the view's data; NULL: it lies in the file */
    /* Where it lies in the file. */
    const uint8_t *bytes;
    uint64_t packed, unpacked;
    size_t data; /* where its elements begin, behind the header */
    uint32_t crc;
    bool deflated;
} qb_npz_array;
typedef struct qb_npz {
    int32_t n;
    qb_npz_array array[QB_INPUTS_MAX];
} qb_npz;
/* Looks at all arrays, and unpacks none. `bytes` must outlive the result. */
qb_status qb_npz_open(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size, qb_npz *out);
/* The elements of one of them, checked; `name` of the archive, for messages. */
qb_status qb_npz_load(qb_ctx *cx, const char *name, qb_npz_array *array);
void qb_npz_close(qb_npz *npz); /* accepts zeroed */
#endif
