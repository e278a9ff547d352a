/* Recurrent layers: shapes, and the walk over directions and time.
 *
 * The input's products are one matrix product over all steps; a step adds the state's. Sums of
 * products are in double and rounded once each, gates in float. */
#include <math.h>

#include "recurrent_internal.h"

/* --- shapes ----------------------------------------------------------------------------------- */

static bool is_quantized(const qb_node *node) { return node->n_in > QB_REC_W_SCALE; }

static int64_t dim_of(const qb_value *value, int32_t d) {
    return value && value->shape.rank > d ? value->shape.dim[d] : QB_DIM_UNKNOWN;
}

/* Input i has these dimensions as far as both are known; a wanted one that is not is then. */
static qb_status expect(qb_ctx *cx, const qb_infer_args *args, int32_t i, int32_t rank,
                        int64_t *const *wanted) {
    const qb_value *value = qb_infer_in(args, i);
    if (!value) return QB_OK;
    QB_TRY(qb_infer_rank(cx, args, i, rank, rank));
    for (int32_t d = 0; d < rank; d++) {
        const int64_t dim = dim_of(value, d);
        if (*wanted[d] < 0) *wanted[d] = dim;
        if (dim >= 0 && dim != *wanted[d])
            return qb_fail(cx, QB_STATUS_INVALID,
                           "input %d '%s': dimension %d: expected %lld, got %lld", i, value->name,
                           d, (long long)*wanted[d], (long long)dim);
    }
    return QB_OK;
}

static qb_status count_directions(qb_ctx *cx, const qb_recurrent_attrs *attrs, int64_t *out) {
    static const char *const names[] = {"forward", "reverse", "bidirectional"};
    const char *direction = attrs->direction ? attrs->direction : names[0];
    for (int i = 0; i < 3; i++)
        if (strcmp(direction, names[i]) == 0) {
            *out = i == 2 ? 2 : 1;
            return QB_OK;
        }
    return qb_fail(cx, QB_STATUS_INVALID,
                   "direction: expected forward, reverse or bidirectional, got '%s'", direction);
}

typedef struct sizes {
    int64_t steps, batch, inputs, hidden, directions;
} sizes;

/* The sizes as far as inputs tell them; all that is known agrees. */
static qb_status read_sizes(qb_ctx *cx, const qb_infer_args *args, const qb_rec_cell *cell,
                            sizes *s) {
    const qb_node *node = qb_infer_at(args);
    const qb_recurrent_attrs *attrs = node->attrs;
    const bool transposed = is_quantized(node), batch_first = attrs->layout != 0;
    const qb_value *r = qb_infer_in(args, QB_REC_R);
    *s = (sizes){-1, -1, -1, attrs->hidden_size > 0 ? attrs->hidden_size : -1, -1};
    QB_TRY(count_directions(cx, attrs, &s->directions));
    if (s->hidden < 0) s->hidden = dim_of(r, transposed ? 1 : 2);
    int64_t gates = QB_DIM_UNKNOWN, biases = gates, peepholes = gates;
    if (s->hidden >= 0) {
        QB_TRY(qb_dim_mul(cx, s->hidden, cell->gates, &gates));
        QB_TRY(qb_dim_mul(cx, gates, 2, &biases));
        QB_TRY(qb_dim_mul(cx, s->hidden, 3, &peepholes));
    }
    int64_t *x[] = {&s->steps, &s->batch, &s->inputs};
    int64_t *x_batch_first[] = {&s->batch, &s->steps, &s->inputs};
    int64_t *w[] = {&s->directions, &gates, &s->inputs};
    int64_t *w_transposed[] = {&s->directions, &s->inputs, &gates};
    int64_t *r_dims[] = {&s->directions, transposed ? &s->hidden : &gates,
                         transposed ? &gates : &s->hidden};
    int64_t *bias[] = {&s->directions, &biases}, *lengths[] = {&s->batch};
    int64_t *state[] = {&s->directions, &s->batch, &s->hidden};
    int64_t *state_batch_first[] = {&s->batch, &s->directions, &s->hidden};
    int64_t *peephole[] = {&s->directions, &peepholes};
    int64_t *const *state_dims = batch_first ? state_batch_first : state;
    QB_TRY(expect(cx, args, QB_REC_X, 3, batch_first ? x_batch_first : x));
    QB_TRY(expect(cx, args, QB_REC_W, 3, transposed ? w_transposed : w));
    QB_TRY(expect(cx, args, QB_REC_R, 3, r_dims));
    QB_TRY(expect(cx, args, QB_REC_B, 2, bias));
    QB_TRY(expect(cx, args, QB_REC_LENGTHS, 1, lengths));
    QB_TRY(expect(cx, args, QB_REC_H, 3, state_dims));
    if (!cell->has_cell_state) return QB_OK;
    QB_TRY(expect(cx, args, QB_REC_C, 3, state_dims));
    return expect(cx, args, QB_REC_P, 2, peephole);
}

/* Types: quantized values with their scales, or all like X; lengths are s32. */
static qb_status check_types(qb_ctx *cx, const qb_infer_args *args, bool quantized) {
    const qb_value *lengths = qb_infer_in(args, QB_REC_LENGTHS);
    if (lengths && lengths->dtype != QB_DTYPE_S32 && lengths->dtype != QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_INVALID, "sequence_lens: expected type s32, got %s",
                       qb_dtype_text(lengths->dtype));
    for (int32_t i = QB_REC_W; i <= QB_REC_P; i++) {
        const qb_value *value = qb_infer_in(args, i);
        const bool q_operands = quantized && (i == QB_REC_W || i == QB_REC_R);
        if (i == QB_REC_LENGTHS || !value) continue;
        if (!q_operands)
            QB_TRY(qb_infer_same_type(cx, args, i));
        else if (value->dtype != QB_DTYPE_S8 && value->dtype != QB_DTYPE_U8)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected type s8 or u8, got %s",
                           i, value->name, qb_dtype_text(value->dtype));
    }
    return QB_OK;
}

qb_status qb_rec_infer(qb_ctx *cx, const qb_infer_args *args, const qb_rec_cell *cell) {
    const qb_node *node = qb_infer_at(args);
    const qb_recurrent_attrs *attrs = node->attrs;
    sizes s;
    qb_rec_act acts[2 * QB_REC_ACTS];
    QB_TRY(read_sizes(cx, args, cell, &s));
    QB_TRY(check_types(cx, args, is_quantized(node)));
    if (!(attrs->clip > 0)) /* NaN as well */
        return qb_fail(cx, QB_STATUS_INVALID, "attribute clip: expected more than 0, got %g",
                       (double)attrs->clip);
    QB_TRY(qb_rec_acts(cx, attrs, cell->acts, cell->n_acts, (int32_t)s.directions, acts));
    const qb_dtype dtype = qb_infer_in(args, QB_REC_X)->dtype;
    const qb_shape all[2] = {{4, {s.steps, s.directions, s.batch, s.hidden}},
                             {4, {s.batch, s.steps, s.directions, s.hidden}}};
    const qb_shape last[2] = {{3, {s.directions, s.batch, s.hidden}},
                              {3, {s.batch, s.directions, s.hidden}}};
    const int layout = attrs->layout != 0;
    QB_TRY(qb_infer_set(cx, args, 0, dtype, &all[layout]));
    QB_TRY(qb_infer_set(cx, args, 1, dtype, &last[layout]));
    return qb_infer_set(cx, args, 2, dtype, &last[layout]);
}

/* --- products --------------------------------------------------------------------------------- */

/* The left operand by its own range: quantized values minus the zero point in r->quantized values;
 * their scale. */
static float quantize(const qb_rec *r, const float *left, int64_t n) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; i++) {
        low = fminf(low, left[i]);
        high = fmaxf(high, left[i]);
    }
    const float scale = high > low ? (high - low) / 255 : 1;
    const float zero = nearbyintf(fmaxf(0, fminf(255, -low / scale)));
    for (int64_t i = 0; i < n; i++)
        r->q_operands[i] = fmaxf(0, fminf(255, nearbyintf(left[i] / scale) + zero)) - zero;
    return scale;
}

void qb_rec_multiply(const qb_rec *r, const float *left, int64_t rows, const qb_rec_matrix *m,
                     float *out) {
    const float scale = m->scale ? quantize(r, left, rows * m->k) : 1;
    const qb_desc desc[2] = {{.dtype = QB_DTYPE_F32, .shape = {2, {rows, m->k}}},
                             {.dtype = QB_DTYPE_F32, .shape = {2, {m->k, m->n}}}};
    const qb_problem p = {.kind = QB_KIND_MATMUL,
                          .n_in = 2,
                          .in = desc,
                          .out = {.dtype = QB_DTYPE_F32, .shape = {2, {rows, m->n}}},
                          .scale = 1};
    const void *const in[2] = {m->scale ? r->q_operands : left, m->data};
    qb_ref_matmul(&p, in, out, rows > 1 ? r->threads : 1);
    if (!m->scale) return;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < m->n; k++) out[i * m->n + k] *= scale * m->scale[k];
}

float qb_rec_clip(const qb_rec *r, float x) {
    const float most = r->attrs->clip;
    return isfinite(most) ? fmaxf(-most, fminf(most, x)) : x;
}

/* --- one run ---------------------------------------------------------------------------------- */

typedef struct run {
    qb_rec rec;
    const qb_rec_cell *cell;
    const qb_node *node;
    const qb_tensor *in;
    qb_tensor *out;
    qb_rec_act acts[2 * QB_REC_ACTS];
    float *x;                 /* [steps, batch, inputs] */
    float *w, *r, *r_last;    /* matrices of the direction at work */
    float *w_scale, *r_scale; /* quantized: one for each column */
    float *bias;              /* [gates * hidden], added to the input's products */
} run;

static const void *given(const run *u, int32_t i) {
    return qb_eval_has(u->node, u->in, i) ? u->in[i].data : NULL;
}

/* Direction `d` of a weight as [k, n]: out of [n, k], or of quantized values [k, n] minus the zero
 * point. */
static void load_matrix(const run *u, int32_t i, int64_t d, int64_t k, int64_t n, float *to) {
    const qb_tensor *from = &u->in[i];
    if (!is_quantized(u->node)) {
        const float *v = (const float *)from->data + d * k * n;
        for (int64_t c = 0; c < n; c++)
            for (int64_t row = 0; row < k; row++) to[row * n + c] = v[c * k + row];
        return;
    }
    const qb_tensor *zero = &u->in[i == QB_REC_W ? QB_REC_W_ZERO : QB_REC_R_ZERO];
    const int64_t zeros = qb_shape_count(&zero->desc.shape) / u->rec.directions;
    for (int64_t j = 0; j < k * n; j++) {
        const int64_t z = d * zeros + (zeros > 1 ? j % n : 0);
        to[j] = (float)(qb_number_get(from->desc.dtype, from->data, d * k * n + j) -
                        (zeros > 0 ? qb_number_get(zero->desc.dtype, zero->data, z) : 0));
    }
}

static const float *load_scales(const run *u, int32_t i, int64_t d, int64_t n, float *to) {
    if (!is_quantized(u->node)) return NULL;
    const int64_t scales = qb_shape_count(&u->in[i].desc.shape) / u->rec.directions;
    const float *from = (const float *)u->in[i].data + d * scales;
    for (int64_t c = 0; c < n; c++) to[c] = from[scales > 1 ? c : 0];
    return to;
}

/* GRU's last gate apart: columns of [k, 3 n] as [k, 2 n] and [k, n]. */
static void part_last(run *u) {
    const int64_t n = u->rec.hidden, rest = u->rec.gates - 1;
    for (int64_t k = 0; k < n; k++)
        memcpy(u->r_last + k * n, u->r + (k * (rest + 1) + rest) * n, (size_t)n * sizeof(float));
    for (int64_t k = 1; k < n; k++)
        memmove(u->r + k * rest * n, u->r + k * (rest + 1) * n, (size_t)(rest * n) * sizeof(float));
}

static void load_weights(run *u, int64_t d) {
    qb_rec *r = &u->rec;
    const int64_t n = r->hidden, all = r->gates * n;
    load_matrix(u, QB_REC_W, d, r->inputs, all, u->w);
    load_matrix(u, QB_REC_R, d, n, all, u->r);
    r->w =
        (qb_rec_matrix){u->w, load_scales(u, QB_REC_W_SCALE, d, all, u->w_scale), r->inputs, all};
    r->r = (qb_rec_matrix){u->r, load_scales(u, QB_REC_R_SCALE, d, all, u->r_scale), n, all};
    if (u->cell->last_apart) {
        part_last(u);
        r->r.n = all - n;
        r->r_last = (qb_rec_matrix){u->r_last, NULL, n, n};
    }
    const float *bias = given(u, QB_REC_B), *peephole = given(u, QB_REC_P);
    r->w_bias = bias ? bias + d * 2 * all : NULL;
    r->r_bias = bias ? r->w_bias + all : NULL;
    r->peephole = u->cell->has_cell_state && peephole ? peephole + d * 3 * n : NULL;
    const bool apart = u->cell->last_apart && r->attrs->linear_before_reset;
    for (int64_t k = 0; k < all && bias; k++)
        u->bias[k] = r->w_bias[k] + (apart && k >= all - n ? 0 : r->r_bias[k]);
}

/* Where item b of direction d begins in a state tensor. */
static int64_t state_at(const qb_rec *r, int64_t d, int64_t b) {
    return (r->attrs->layout ? b * r->directions + d : d * r->batch + b) * r->hidden;
}

static void load_state(const run *u, int32_t i, int64_t d, float *state) {
    const float *from = given(u, i);
    const size_t bytes = (size_t)u->rec.hidden * sizeof(float);
    for (int64_t b = 0; b < u->rec.batch; b++) {
        if (from)
            memcpy(state + b * u->rec.hidden, from + state_at(&u->rec, d, b), bytes);
        else
            memset(state + b * u->rec.hidden, 0, bytes);
    }
}

static void store_state(const run *u, int32_t i, int64_t d, const float *state) {
    if (i >= u->node->n_out || u->node->out[i] < 0) return;
    for (int64_t b = 0; b < u->rec.batch; b++)
        memcpy((float *)u->out[i].data + state_at(&u->rec, d, b), state + b * u->rec.hidden,
               (size_t)u->rec.hidden * sizeof(float));
}

static void store_step(const run *u, int64_t t, int64_t d, int64_t b) {
    const qb_rec *r = &u->rec;
    if (u->node->n_out < 1 || u->node->out[0] < 0) return;
    const int64_t at = r->attrs->layout ? (b * r->steps + t) * r->directions + d
                                        : (t * r->directions + d) * r->batch + b;
    memcpy((float *)u->out[0].data + at * r->hidden, r->h + b * r->hidden,
           (size_t)r->hidden * sizeof(float));
}

/* The products of all steps that some item has with the input's weight, plus biases. */
static void multiply_input(const run *u) {
    const qb_rec *r = &u->rec;
    const int32_t *lengths = given(u, QB_REC_LENGTHS);
    int64_t steps = lengths ? 0 : r->steps;
    for (int64_t b = 0; b < r->batch && lengths; b++)
        if (lengths[b] > steps) steps = lengths[b];
    const int64_t rows = steps * r->batch, all = r->gates * r->hidden;
    qb_rec_multiply(r, u->x, rows, &r->w, r->input);
    for (int64_t i = 0; i < rows && r->w_bias; i++)
        for (int64_t k = 0; k < all; k++) r->input[i * all + k] += u->bias[k];
}

static void run_direction(run *u, int64_t d, bool reverse) {
    qb_rec *r = &u->rec;
    const int32_t *lengths = given(u, QB_REC_LENGTHS);
    r->act = u->acts + d * u->cell->n_acts;
    load_weights(u, d);
    load_state(u, QB_REC_H, d, r->h);
    if (u->cell->has_cell_state) load_state(u, QB_REC_C, d, r->c);
    multiply_input(u);
    for (int64_t s = 0; s < r->steps; s++) {
        u->cell->products(r);
        for (int64_t b = 0; b < r->batch; b++) {
            const int64_t length = lengths ? lengths[b] : r->steps;
            if (s >= length) continue;
            const int64_t t = reverse ? length - 1 - s : s;
            u->cell->step(r, b, r->input + (t * r->batch + b) * r->gates * r->hidden);
            store_step(u, t, d, b);
        }
    }
    store_state(u, 1, d, r->h);
    if (u->cell->has_cell_state) store_state(u, 2, d, r->c);
}

static void load_x(run *u) {
    const qb_rec *r = &u->rec;
    const float *from = u->in[QB_REC_X].data;
    for (int64_t t = 0; t < r->steps; t++)
        for (int64_t b = 0; b < r->batch; b++) {
            const int64_t at = r->attrs->layout ? b * r->steps + t : t * r->batch + b;
            memcpy(u->x + (t * r->batch + b) * r->inputs, from + at * r->inputs,
                   (size_t)r->inputs * sizeof(float));
        }
}

static qb_status check_values(qb_ctx *cx, const run *u) {
    const qb_rec *r = &u->rec;
    const int32_t *lengths = given(u, QB_REC_LENGTHS);
    for (int64_t b = 0; b < r->batch && lengths; b++)
        if (lengths[b] < 0 || lengths[b] > r->steps)
            return qb_fail(cx, QB_STATUS_INVALID, "sequence_lens: expected 0 to %lld, got %d",
                           (long long)r->steps, lengths[b]);
    if (!is_quantized(u->node)) return QB_OK;
    const int64_t columns = r->gates * r->hidden * r->directions;
    for (int32_t i = QB_REC_W_SCALE; i <= QB_REC_R_ZERO; i++) {
        const int64_t n = qb_shape_count(&u->in[i].desc.shape);
        const bool scale = i == QB_REC_W_SCALE || i == QB_REC_R_SCALE;
        if (scale && u->in[i].desc.dtype != QB_DTYPE_F32)
            return qb_eval_refuse(cx, u->node, u->in[i].desc.dtype);
        if (n != r->directions && n != columns)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "input %d: expected %lld or %lld values, got %lld", i,
                           (long long)r->directions, (long long)columns, (long long)n);
    }
    return QB_OK;
}

/* Parts of one block of memory, each with room for `n` floats. */
typedef struct part {
    float **at;
    int64_t a, b, c;
} part;

static qb_status take(qb_ctx *cx, const part *parts, int32_t n, float **block) {
    int64_t total = 0, size;
    *block = NULL;
    for (int pass = 0; pass < 2; pass++) {
        int64_t used = 0;
        for (int32_t i = 0; i < n; i++) {
            QB_TRY(qb_dim_mul(cx, parts[i].a, parts[i].b, &size));
            QB_TRY(qb_dim_mul(cx, size, parts[i].c, &size));
            if (size > INT64_MAX / 64 - used)
                return qb_fail(cx, QB_STATUS_UNSUPPORTED, "too large for memory");
            if (*block) *parts[i].at = *block + used;
            used += (size + 15) / 16 * 16;
        }
        total = used;
        if (pass == 0 && !(*block = qb_temp_take(cx, (size_t)total, sizeof(float))))
            return cx->code;
    }
    return QB_OK;
}

qb_status qb_rec_eval(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                      const qb_rec_cell *cell) {
    const qb_recurrent_attrs *attrs = node->attrs;
    const qb_shape *x = &in[QB_REC_X].desc.shape, *r_shape = &in[QB_REC_R].desc.shape;
    run u = {.cell = cell, .node = node, .in = in, .out = out};
    qb_rec *r = &u.rec;
    *r = (qb_rec){.steps = x->dim[attrs->layout ? 1 : 0],
                  .batch = x->dim[attrs->layout ? 0 : 1],
                  .inputs = x->dim[2],
                  .hidden = r_shape->dim[is_quantized(node) ? 1 : 2],
                  .gates = cell->gates,
                  .directions = r_shape->dim[0],
                  .attrs = attrs,
                  .threads = qb_threads(cx)};
    QB_TRY(check_values(cx, &u));
    QB_TRY(qb_rec_acts(cx, attrs, cell->acts, cell->n_acts, (int32_t)r->directions, u.acts));
    const int64_t n = r->hidden, all = r->gates * n, rows = r->steps * r->batch;
    const int64_t widest = r->inputs > n ? r->inputs : n;
    const int64_t q_operands = is_quantized(node) ? (rows > r->batch ? rows : r->batch) : 0;
    const part parts[] = {
        {&u.x, r->steps, r->batch, r->inputs},
        {&r->input, rows, r->gates, n},
        {&r->sums, r->batch, r->gates, n},
        {&r->h, r->batch, n, 1},
        {&r->c, r->batch, n, 1},
        {&r->reset, r->batch, n, 1},
        {&u.w, r->inputs, r->gates, n},
        {&u.r, n, r->gates, n},
        {&u.r_last, n, n, cell->last_apart},
        {&u.bias, all, 1, 1},
        {&u.w_scale, all, 1, 1},
        {&u.r_scale, all, 1, 1},
        {&r->q_operands, q_operands, widest, 1},
    };
    QB_RELEASED(qb_temp_give_at) float *block = NULL;
    QB_TRY(take(cx, parts, (int32_t)(sizeof parts / sizeof *parts), &block));
    if (node->n_out > 0 && node->out[0] >= 0) /* steps behind a sequence's end are zero */
        memset(out[0].data, 0, (size_t)qb_shape_count(&out[0].desc.shape) * sizeof(float));
    load_x(&u);
    for (int64_t d = 0; d < r->directions; d++)
        run_direction(&u, d, d == 1 || strcmp(attrs->direction, "reverse") == 0);
    return QB_OK;
}
