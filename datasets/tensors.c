#include "datasets/tensors.h"

#include <string.h>

#include "base/strbuf.h"
#include "datasets_internal.h"
#include "kernels/ref.h"

void qb_tensors_release(qb_tensors *tensors) {
    for (int32_t i = 0; i < tensors->n; i++)
        QB_FREE_ALL(tensors->item[i].name, tensors->item[i].tensor.data);
    memset(tensors, 0, sizeof *tensors);
}

void qb_tensors_free(qb_tensors *tensors) {
    if (tensors) qb_tensors_release(tensors);
    qb_free(tensors);
}

qb_status qb_tensors_check(qb_ctx *cx, const qb_tensors *tensors, const qb_desc *desc) {
    const size_t bytes = qb_desc_bytes(desc);
    if (tensors->n == QB_INPUTS_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d tensors in a sample",
                       QB_INPUTS_MAX);
    if (bytes <= QB_TENSOR_BYTES_MAX) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "a tensor of %zu bytes, the limit is %zu", bytes,
                   QB_TENSOR_BYTES_MAX);
}

qb_status qb_tensors_take(qb_ctx *cx, qb_tensors *tensors, const char *name, qb_tensor *from) {
    qb_named_tensor item = {.tensor = *from, .bytes = qb_desc_bytes(&from->desc)};
    QB_TRY(qb_tensors_check(cx, tensors, &from->desc));
    if (name && !(item.name = qb_strdup(cx, name))) return cx->code;
    tensors->item[tensors->n++] = item;
    from->data = NULL;
    return QB_OK;
}

qb_status qb_tensors_add(qb_ctx *cx, qb_tensors *tensors, const char *name, const qb_tensor *from) {
    QB_TRY(qb_tensors_check(cx, tensors, &from->desc));
    const size_t bytes = qb_desc_bytes(&from->desc);
    qb_tensor copy = {from->desc, qb_alloc_aligned(cx, 1, bytes + 1)};
    if (!copy.data) return cx->code;
    if (from->data && bytes > 0) memcpy(copy.data, from->data, bytes);
    const qb_status status = qb_tensors_take(cx, tensors, name, &copy);
    qb_free(copy.data); /* NULL once it was taken */
    return status;
}

qb_status qb_tensors_add_raw(qb_ctx *cx, qb_tensors *tensors, const char *name,
                             const uint8_t *bytes, size_t size) {
    const qb_tensor whole =
        qb_tensor_of(QB_DTYPE_U8, (qb_shape){1, {(int64_t)size}}, (void *)(uintptr_t)bytes);
    QB_TRY(qb_tensors_add(cx, tensors, name, &whole));
    qb_desc *desc = &tensors->item[tensors->n - 1].tensor.desc;
    desc->dtype = QB_DTYPE_NONE;
    desc->shape.rank = -1;
    return QB_OK;
}

qb_hash qb_tensors_hash(const qb_tensor *tensor, int32_t n) {
    struct {
        qb_hash before, data;
        int64_t dtype, rank, dim[QB_MAX_RANK];
    } part = {0};
    for (int32_t i = 0; i < n; i++) {
        const qb_shape *s = &tensor[i].desc.shape;
        part.data = qb_hash_bytes(tensor[i].data, qb_desc_bytes(&tensor[i].desc));
        part.dtype = tensor[i].desc.dtype;
        part.rank = s->rank;
        for (int k = 0; k < QB_MAX_RANK; k++) part.dim[k] = k < s->rank ? s->dim[k] : 0;
        part.before = qb_hash_bytes(&part, sizeof part);
    }
    return part.before;
}

/* ---- binding to a model's inputs ---- */

static qb_status fail_missing(qb_ctx *cx, const qb_input_spec *spec, const qb_tensors *from) {
    qb_strbuf known = {0};
    for (int32_t i = 0; i < from->n; i++)
        qb_strbuf_addf(&known, "%s%s", i ? ", " : "",
                       from->item[i].name ? from->item[i].name : "(no name)");
    char *text;
    QB_TRY(qb_strbuf_take(cx, &known, &text));
    qb_fail(cx, QB_STATUS_INVALID, "no tensor for the model's input '%s'; the sample has: %s",
            spec->name, from->n > 0 ? text : "none");
    qb_free(text);
    return cx->code;
}

static qb_status find_tensor(qb_ctx *cx, const qb_input_spec *spec, int32_t index, int32_t n,
                             qb_tensors *from, qb_named_tensor **out) {
    bool named = from->n == 0;
    for (int32_t i = 0; i < from->n; i++) {
        named = named || from->item[i].name;
        if (from->item[i].name && strcmp(from->item[i].name, spec->name) == 0) {
            *out = &from->item[i];
            return QB_OK;
        }
    }
    if (n == 1 && from->n == 1) {
        *out = &from->item[0];
        return QB_OK;
    }
    if (named) return fail_missing(cx, spec, from);
    if (from->n != n)
        return qb_fail(cx, QB_STATUS_INVALID, "the model has %d inputs, the sample %d tensors", n,
                       from->n);
    *out = &from->item[index];
    return QB_OK;
}

static bool dims_fit(const qb_shape *shape, const qb_shape *spec) {
    if (shape->rank != spec->rank) return false;
    for (int i = 0; i < spec->rank; i++)
        if (spec->dim[i] >= 0 && shape->dim[i] != spec->dim[i]) return false;
    return true;
}

static qb_status fit_shape(qb_ctx *cx, const qb_input_spec *spec, qb_shape *shape) {
    if (spec->shape.rank < 0 || dims_fit(shape, &spec->shape)) return QB_OK;
    if (shape->rank + 1 == spec->shape.rank) {
        qb_shape more = {.rank = shape->rank + 1, .dim = {1}};
        memcpy(more.dim + 1, shape->dim, (size_t)shape->rank * sizeof *shape->dim);
        if (dims_fit(&more, &spec->shape)) {
            *shape = more;
            return QB_OK;
        }
    }
    char expected[128], got[128];
    return qb_fail(cx, QB_STATUS_INVALID, "input '%s': expected shape %s, got %s", spec->name,
                   qb_shape_text(&spec->shape, expected, sizeof expected),
                   qb_shape_text(shape, got, sizeof got));
}

/* Raw bytes: an open first dimension is 1, one other open dimension takes what is left. */
static qb_status fit_raw(qb_ctx *cx, const qb_input_spec *spec, qb_named_tensor *t) {
    qb_shape shape = spec->shape;
    if (shape.rank > 0 && shape.dim[0] < 0) shape.dim[0] = 1;
    int open = -1, n_open = shape.rank < 0;
    for (int i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0) {
            open = i;
            n_open++;
            shape.dim[i] = 1;
        }
    if (n_open > 1 || shape.rank < 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "input '%s': raw bytes need a known shape: give --shapes %s:1x...",
                       spec->name, spec->name);
    const qb_desc desc = {.dtype = spec->dtype, .shape = shape};
    const size_t unit = qb_desc_bytes(&desc);
    if (open >= 0 && unit > 0 && t->bytes % unit == 0)
        shape.dim[open] = (int64_t)(t->bytes / unit);
    else if (t->bytes != unit) {
        char text[128];
        return qb_fail(cx, QB_STATUS_INVALID, "input '%s': expected %zu bytes (%s %s), got %zu",
                       spec->name, unit, qb_shape_text(&spec->shape, text, sizeof text),
                       qb_dtype_text(spec->dtype), t->bytes);
    }
    t->tensor.desc.dtype = spec->dtype;
    t->tensor.desc.shape = shape;
    return QB_OK;
}

static bool is_integer(qb_dtype dtype) {
    return dtype != QB_DTYPE_NONE && !qb_dtype_is_float(dtype);
}

/* Least and largest value of an integer type; 64-bit types as far as a double is exact. */
static void integer_bounds(qb_dtype dtype, double *least, double *most) {
    const int bits = dtype == QB_DTYPE_BOOL ? 1 : (int)qb_dtype_size(dtype) * 8;
    const bool sign = dtype == QB_DTYPE_S8 || dtype == QB_DTYPE_S16 || dtype == QB_DTYPE_S32 ||
                      dtype == QB_DTYPE_S64;
    const int exact = bits - sign < 53 ? bits - sign : 53;
    *most = (double)(((int64_t)1 << exact) - 1);
    *least = sign ? -*most - (exact < 53) : 0;
}

static qb_status convert(qb_ctx *cx, const qb_input_spec *spec, qb_named_tensor *t) {
    const qb_dtype from = t->tensor.desc.dtype, to = spec->dtype;
    if (from == to || to == QB_DTYPE_NONE) return QB_OK;
    const bool to_float = to == QB_DTYPE_F32 || to == QB_DTYPE_F64;
    if (!to_float && !(is_integer(from) && is_integer(to)))
        return qb_fail(cx, QB_STATUS_INVALID, "input '%s': expected %s, got %s", spec->name,
                       qb_dtype_text(to), qb_dtype_text(from));
    qb_desc desc = t->tensor.desc;
    desc.dtype = to;
    const size_t bytes = qb_desc_bytes(&desc);
    uint8_t *data = QB_NEW(cx, qb_alloc_aligned(cx, 1, bytes + 1));
    double least = 0, most = 0;
    if (!to_float) integer_bounds(to, &least, &most);
    const int64_t n = qb_shape_count(&desc.shape);
    for (int64_t i = 0; i < n; i++) {
        const double value = qb_number_get(from, t->tensor.data, i);
        if (!to_float && !(value >= least && value <= most)) {
            qb_free(data);
            return qb_fail(cx, QB_STATUS_INVALID, "input '%s': %.17g does not fit into %s",
                           spec->name, value, qb_dtype_text(to));
        }
        qb_number_put(to, data, i, value);
    }
    qb_free(t->tensor.data);
    t->tensor.data = data;
    t->tensor.desc = desc;
    t->bytes = bytes;
    return QB_OK;
}

static qb_status bind_one(qb_ctx *cx, const qb_input_spec *spec, qb_named_tensor *t) {
    if (t->tensor.desc.dtype == QB_DTYPE_NONE) return fit_raw(cx, spec, t);
    QB_TRY(fit_shape(cx, spec, &t->tensor.desc.shape));
    return convert(cx, spec, t);
}

qb_status qb_tensors_bind(qb_ctx *cx, const qb_input_spec *spec, int32_t n, qb_tensors *from,
                          qb_tensor *out) {
    qb_named_tensor *found[QB_INPUTS_MAX];
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(find_tensor(cx, &spec[i], i, n, from, &found[i]));
        QB_TRY(bind_one(cx, &spec[i], found[i]));
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] = found[i]->tensor;
        found[i]->tensor.data = NULL;
    }
    return QB_OK;
}
