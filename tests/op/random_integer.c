#include "random_integer.h"

#include <math.h>

#include "kernels/ref.h"

static qb_dtype some_code(qb_rng *rng) {
    return random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
}

static void give_zero(qb_rng *rng, random_case *c, int32_t i, qb_dtype type, int64_t n) {
    if (random_chance(rng, 35)) return;
    c->in[i].dtype = type;
    c->in[i].shape = n > 1 || random_chance(rng, 50) ? qb_shape_of(1, (int)n) : (qb_shape){0};
    c->constant[i] = random_chance(rng, 50);
}

/* A third have a plain weight, and sides that matrix units take. */
static void make_product(qb_rng *rng, random_case *c) {
    const bool even = random_chance(rng, 35), few = random_chance(rng, 70);
    const int unit = even ? 16 : 1, most = even ? 9 : 70;
    const int m = (int)random_between(rng, 1, 70), k = unit * (int)random_between(rng, 1, most),
              n = unit * (int)random_between(rng, 1, most), lead = (int)random_between(rng, 1, 3);
    const bool flat = even || random_chance(rng, 50);
    c->problem.n_in = 4;
    c->in[QB_IN_DATA].dtype = some_code(rng);
    c->in[QB_IN_WEIGHT].dtype = some_code(rng);
    c->in[QB_IN_DATA].shape = few ? qb_shape_of(2, m, k) : qb_shape_of(3, lead, m, k);
    c->in[QB_IN_WEIGHT].shape = flat ? qb_shape_of(2, k, n) : qb_shape_of(3, lead, k, n);
    c->constant[QB_IN_WEIGHT] = even || random_chance(rng, 50);
    give_zero(rng, c, QB_IN_DATA_ZERO, c->in[QB_IN_DATA].dtype, 1);
    give_zero(rng, c, QB_IN_WEIGHT_ZERO, c->in[QB_IN_WEIGHT].dtype,
              flat && random_chance(rng, 50) ? n : 1);
    c->problem.out.dtype = QB_DTYPE_S32;
    c->problem.out.shape = few && flat ? qb_shape_of(2, m, n) : qb_shape_of(3, lead, m, n);
}

/* The same product with scales, and perhaps a bias. */
static void make_scaled(qb_rng *rng, random_case *c) {
    make_product(rng, c);
    const qb_shape *b = &c->in[QB_IN_WEIGHT].shape;
    const int n = (int)b->dim[b->rank - 1];
    c->in[QB_SCALED_DATA_ZERO] = c->in[QB_IN_DATA_ZERO];
    c->in[QB_SCALED_WEIGHT_ZERO] = c->in[QB_IN_WEIGHT_ZERO];
    c->constant[QB_SCALED_DATA_ZERO] = c->constant[QB_IN_DATA_ZERO];
    c->constant[QB_SCALED_WEIGHT_ZERO] = c->constant[QB_IN_WEIGHT_ZERO];
    for (int32_t i = QB_SCALED_DATA_SCALE; i < QB_SCALED_INPUTS; i++) {
        if (i == QB_SCALED_DATA_ZERO || i == QB_SCALED_WEIGHT_ZERO) continue;
        const bool one =
            i == QB_SCALED_DATA_SCALE || (i == QB_SCALED_WEIGHT_SCALE && random_chance(rng, 50));
        c->in[i] = (qb_desc){.dtype = QB_DTYPE_F32, .q.axis = -1};
        c->in[i].shape = one ? (qb_shape){0} : qb_shape_of(1, n);
        c->constant[i] = i == QB_SCALED_BIAS || random_chance(rng, 50);
    }
    if (random_chance(rng, 40)) c->in[QB_SCALED_BIAS].dtype = QB_DTYPE_NONE;
    c->problem.n_in = QB_SCALED_INPUTS;
    c->problem.out.dtype = QB_DTYPE_F32;
}

void random_integer_make(qb_rng *rng, random_case *c) {
    if (c->problem.kind == QB_KIND_MATMUL_SCALED) {
        make_scaled(rng, c);
        return;
    }
    if (c->problem.kind == QB_KIND_MATMUL_INTEGER) {
        make_product(rng, c);
        return;
    }
    c->problem.n_in = 1;
    c->in[0].dtype = QB_DTYPE_F32;
    c->in[0].shape =
        qb_shape_of(2, (int)random_between(rng, 1, 300), (int)random_between(rng, 1, 90));
    if (random_chance(rng, 50)) c->in[0].shape.dim[1] = 16 * random_between(rng, 1, 20);
    c->problem.out.dtype = QB_DTYPE_U8;
    c->problem.out.shape = c->in[0].shape;
}

void random_integer_finalize(qb_rng *rng, random_case *c) {
    const bool shifted = random_chance(rng, 40), empty = random_chance(rng, 10);
    const float by = (float)random_between(rng, -9, 9);
    float *x = c->data[0];
    for (int64_t i = 0, n = qb_shape_count(&c->in[0].shape); i < n; i++) {
        if (shifted) x[i] += by;
        if (empty) x[i] = 0.0f;
    }
}

static int64_t code(const random_case *c, int32_t i, int64_t at) {
    return (int64_t)qb_number_get(c->in[i].dtype, c->data[i], at);
}

static int64_t zero(const random_case *c, int32_t i, int64_t column) {
    if (!c->data[i]) return 0;
    return code(c, i, qb_shape_count(&c->in[i].shape) > 1 ? column : 0);
}

/* Of the element of the result; its column is `column`. */
static void store(random_case *c, int64_t at, int64_t column, int32_t sum) {
    if (c->problem.kind == QB_KIND_MATMUL_INTEGER) {
        ((int32_t *)c->expected)[at] = sum;
        return;
    }
    const bool many = qb_shape_count(&c->in[QB_SCALED_WEIGHT_SCALE].shape) > 1;
    const float *bias = c->data[QB_SCALED_BIAS], *a = c->data[QB_SCALED_DATA_SCALE];
    const float *b = c->data[QB_SCALED_WEIGHT_SCALE];
    float f32 = (float)sum * (*a * b[many ? column : 0]);
    if (bias) f32 += bias[column];
    ((float *)c->expected)[at] = f32;
}

static void product(random_case *c) {
    const bool scaled = c->problem.kind == QB_KIND_MATMUL_SCALED;
    const int32_t a_zero = scaled ? (int32_t)QB_SCALED_DATA_ZERO : (int32_t)QB_IN_DATA_ZERO;
    const int32_t b_zero = scaled ? (int32_t)QB_SCALED_WEIGHT_ZERO : (int32_t)QB_IN_WEIGHT_ZERO;
    const qb_shape *a = &c->in[QB_IN_DATA].shape, *b = &c->in[QB_IN_WEIGHT].shape;
    const qb_shape *y = &c->problem.out.shape;
    const int64_t m = y->dim[y->rank - 2], n = y->dim[y->rank - 1], k = a->dim[a->rank - 1];
    for (int64_t i = 0, count = qb_shape_count(y); i < count; i++) {
        const int64_t column = i % n, row = i / n % m, matrix = i / n / m;
        const int64_t left = (a->rank > 2 ? matrix : 0) * m + row, right = b->rank > 2 ? matrix : 0;
        int64_t sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += (code(c, QB_IN_DATA, left * k + j) - zero(c, a_zero, 0)) *
                   (code(c, QB_IN_WEIGHT, (right * k + j) * n + column) - zero(c, b_zero, column));
        store(c, i, column, (int32_t)sum);
    }
}

static void quantized(random_case *c) {
    const float *x = c->data[0];
    const int64_t n = qb_shape_count(&c->in[0].shape);
    float low = 0.0f, high = 0.0f;
    for (int64_t i = 0; i < n; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    const float scale = low == high ? 1.0f : (high - low) / 255.0f;
    const int32_t point = (int32_t)rintf(fminf(fmaxf(0.0f - low / scale, 0.0f), 255.0f));
    c->scale[0] = scale;
    c->zero[0] = point;
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)c->expected)[i] = (uint8_t)qb_quantize_value(x[i], scale, point, QB_DTYPE_U8);
}

void random_integer_reference(random_case *c) {
    if (c->problem.kind == QB_KIND_DYNAMIC_QUANTIZE)
        quantized(c);
    else
        product(c);
}
