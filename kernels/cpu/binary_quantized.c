/* Binary functions where an operand or the result is 8-bit values: sums of Q/DQ models, whose
 * operands have scales of their own, and products with the gates of squeeze-and-excitation; and
 * those of floats that no library takes, as both operands broadcast, or the first one, or one in
 * the middle, or as an operand or the result is some channels of a wider tensor. Real values by
 * scale and zero point, the function, and the common end: the reference's operations in its order
 * (binary_simd.inc). */

#include <string.h>

#include "base/vector_loop.h"
#include "binary_internal.h"

#define ELEMENTS_PER_TASK 8192 /* about */
#define SHORT_ROW 64           /* rows below that are put together */
#define TOGETHER 1024          /* elements, about */
#define RESULT 2               /* behind both operands */
#define FLOATS 2048            /* of an operand that is the same in many rows */

/* Dimensions in the order in which the result lies, those merged that lie together everywhere. */
typedef struct binary {
    qb_binary row;
    qb_binary_fn run;
    int32_t rank;
    int64_t dim[QB_MAX_RANK], stride[3][QB_MAX_RANK]; /* elements; 0: broadcast */
    int64_t first[3];                                 /* elements before its own */
    int64_t parts, per_part;                          /* of a row, which is the last dimension */
    int64_t rows, per_task;                           /* tasks take so many parts of rows */
    bool is_short;
    int32_t repeated; /* operand of 8-bit values that is the same in many rows; -1: none */
    bool whole[3];    /* its elements lie one after the other */
} binary;

static qb_binary_fn best_row(void) {
#if QB_X86
    if (qb_processor_has(QB_TIER_AVX512)) return qb_binary_row_avx512;
    return qb_processor_has(QB_TIER_AVX2) ? qb_binary_row_avx2 : qb_binary_row_sse2;
#else
    return qb_binary_row_generic;
#endif
}

/* ---- where they lie ---- */

static int64_t dim_of(const qb_desc *desc, int32_t rank, int32_t d) {
    const int32_t own = d - (rank - desc->shape.rank);
    return own < 0 ? 1 : desc->shape.dim[own];
}

static void place(const qb_problem *p, binary *s) {
    const int32_t rank = p->out.shape.rank;
    s->rank = 0;
    bool in_slices = false; /* the innermost dimension: the next one's elements are apart */
    int64_t stride[3][QB_MAX_RANK], dim[QB_MAX_RANK], step[3] = {1, 1, 1};
    for (int32_t d = rank - 1; d >= 0; d--) {
        const int32_t at = qb_cpu_dimension(p->out.layout, rank, d);
        dim[d] = p->out.shape.dim[at];
        for (int32_t i = 0; i < 3; i++) {
            const qb_desc *desc = i == RESULT ? &p->out : &p->in[i];
            const bool slice = at == 1 && desc->channel_total > 0;
            const int64_t own = dim_of(desc, rank, at);
            in_slices = in_slices || (slice && d == rank - 1);
            if (slice) s->first[i] = desc->channel_offset * step[i];
            stride[i][d] = own == 1 ? 0 : step[i];
            step[i] *= slice ? desc->channel_total : own;
        }
    }
    for (int32_t d = 0; d < rank; d++) {
        if (dim[d] == 1 && !(in_slices && d == rank - 1)) continue;
        const int32_t before = s->rank - 1;
        bool joins = s->rank > 0;
        for (int32_t i = 0; i < 3 && joins; i++)
            joins = s->stride[i][before] == stride[i][d] * dim[d];
        const int32_t to = joins ? before : s->rank++;
        s->dim[to] = joins ? s->dim[to] * dim[d] : dim[d];
        for (int32_t i = 0; i < 3; i++) s->stride[i][to] = stride[i][d];
    }
    if (s->rank > 0) return;
    s->rank = 1;
    s->dim[0] = 1;
    for (int32_t i = 0; i < 3; i++) s->stride[i][0] = 0;
}

static void share(binary *s) {
    const int64_t row = s->dim[s->rank - 1];
    s->rows = 1;
    for (int32_t d = 0; d < s->rank - 1; d++) s->rows *= s->dim[d];
    s->parts = qb_ceil64(row, ELEMENTS_PER_TASK);
    s->per_part = qb_ceil64(row, s->parts);
    s->per_task = qb_max64(1, ELEMENTS_PER_TASK / s->per_part);
    for (int32_t i = 0; i < 3; i++) {
        int64_t step = 1;
        s->whole[i] = true;
        for (int32_t d = s->rank - 1; d >= 0; step *= s->dim[d--])
            s->whole[i] = s->whole[i] && s->stride[i][d] == step;
    }
    s->is_short = row < SHORT_ROW && s->rows > 1 && s->whole[RESULT];
    s->repeated = -1;
    const int32_t last = s->rank - 1;
    if (!s->row.is_bytes || last == 0 || row > FLOATS || !s->whole[RESULT]) return;
    for (int32_t i = 0; i < 2; i++)
        if (s->stride[i][last] == 1 && s->stride[i][last - 1] == 0 && s->whole[1 - i])
            s->repeated = i;
}

typedef struct job {
    const binary *s;
    const char *in[2];
    char *out;
} job;

/* A row of the result, and where it and the operands' rows begin. */
typedef struct cursor {
    int64_t index[QB_MAX_RANK], at[3];
} cursor;

static cursor cursor_at(const binary *s, int64_t row) {
    cursor w = {.at = {0}};
    for (int32_t d = s->rank - 2; d >= 0; row /= s->dim[d--]) {
        w.index[d] = row % s->dim[d];
        for (int32_t i = 0; i < 3; i++) w.at[i] += w.index[d] * s->stride[i][d];
    }
    return w;
}

static void next_row(const binary *s, cursor *w) {
    for (int32_t d = s->rank - 2; d >= 0; d--) {
        for (int32_t i = 0; i < 3; i++) w->at[i] += s->stride[i][d];
        if (++w->index[d] < s->dim[d]) return;
        for (int32_t i = 0; i < 3; i++) w->at[i] -= s->dim[d] * s->stride[i][d];
        w->index[d] = 0;
    }
}

static void run_part(const job *j, const cursor *w, int64_t part) {
    const binary *s = j->s;
    const int64_t row = s->dim[s->rank - 1], begin = part * s->per_part;
    const char *from[2];
    for (int32_t i = 0; i < 2; i++)
        from[i] = j->in[i] + (w->at[i] + begin * s->stride[i][s->rank - 1]) *
                                 (int64_t)qb_dtype_size(s->row.in[i].dtype);
    char *out = j->out + (w->at[RESULT] + begin) * (int64_t)qb_dtype_size(s->row.epilogue.out);
    s->run(&s->row, from, out, qb_min64(s->per_part, row - begin));
}

/* n rows whose elements are one behind the other, or all the same. */
QB_LOOP(copy_rows_4,
        (const float *from, bool same, int64_t step, int64_t length, int64_t n, float *to),
        (from, same, step, length, n, to)) {
    for (int64_t r = 0; same && r < n; r++, from += step, to += length)
        for (int64_t k = 0; k < length; k++) to[k] = *from;
    for (int64_t r = 0; !same && r < n; r++, from += step, to += length)
        for (int64_t k = 0; k < length; k++) to[k] = from[k];
}

QB_LOOP(copy_rows_1,
        (const uint8_t *from, bool same, int64_t step, int64_t length, int64_t n, uint8_t *to),
        (from, same, step, length, n, to)) {
    for (int64_t r = 0; same && r < n; r++, from += step, to += length)
        for (int64_t k = 0; k < length; k++) to[k] = *from;
    for (int64_t r = 0; !same && r < n; r++, from += step, to += length)
        for (int64_t k = 0; k < length; k++) to[k] = from[k];
}

/* Elements of operand i in n rows from the cursor's on, one after the other. */
static void put_together(const job *j, int32_t i, cursor w, int64_t n, char *to) {
    const binary *s = j->s;
    const int32_t last = s->rank - 1, up = last - 1;
    const int64_t size = (int64_t)qb_dtype_size(s->row.in[i].dtype), length = s->dim[last];
    const bool same = s->stride[i][last] == 0;
    for (int64_t k; n > 0; n -= k, to += k * length * size) { /* up to the end of a dimension */
        const char *from = j->in[i] + w.at[i] * size;
        k = qb_min64(n, s->dim[up] - w.index[up]);
        if (size == 1)
            copy_rows_1((const uint8_t *)from, same, s->stride[i][up], length, k, (uint8_t *)to);
        else
            copy_rows_4((const float *)(const void *)from, same, s->stride[i][up], length, k,
                        (float *)(void *)to);
        w.index[up] += k - 1;
        for (int32_t o = 0; o < 2; o++) w.at[o] += (k - 1) * s->stride[o][up];
        next_row(s, &w);
    }
}

/* Short rows from `row` to `end`: the function's loop is as long as several of them. */
static void run_short_rows(const job *j, int64_t row, int64_t end) {
    const binary *s = j->s;
    const int64_t length = s->dim[s->rank - 1], at_once = TOGETHER / length;
    const int64_t size = (int64_t)qb_dtype_size(s->row.epilogue.out);
    _Alignas(64) char made[2][TOGETHER * sizeof(float)];
    const char *from[2];
    qb_binary all = s->row;
    all.in[0].step = all.in[1].step = 1;
    for (int64_t n; row < end; row += n) {
        n = qb_min64(at_once, end - row);
        const cursor first = cursor_at(s, row);
        for (int32_t i = 0; i < 2; i++) {
            from[i] = made[i];
            if (s->whole[i])
                from[i] = j->in[i] + row * length * (int64_t)qb_dtype_size(s->row.in[i].dtype);
            else
                put_together(j, i, first, n, made[i]);
        }
        s->run(&all, from, j->out + row * length * size, n * length);
    }
}

QB_LOOP(dequantize, (const uint8_t *from, qb_operand o, int64_t n, float *to), (from, o, n, to)) {
    const int32_t flip = o.dtype == QB_DTYPE_S8 ? 128 : 0;
    for (int64_t i = 0; i < n; i++) to[i] = o.scale * (float)((from[i] ^ flip) - flip - o.zero);
}

/* Rows from `row` to `end` of 8-bit values with an operand that is the same for many of them, which
 * becomes floats once, as often as the buffer has room for a row. */
static void run_repeated_rows(const job *j, int64_t row, int64_t end) {
    const binary *s = j->s;
    const int32_t i = s->repeated, up = s->rank - 2;
    const int64_t length = s->dim[s->rank - 1], most = FLOATS / length;
    _Alignas(64) float f32[FLOATS];
    int64_t made = -1;
    qb_binary all = s->row;
    all.in[i].dtype = QB_DTYPE_F32;
    cursor w = cursor_at(s, row);
    for (int64_t n; row < end; row += n) {
        n = qb_min64(qb_min64(most, end - row), s->dim[up] - w.index[up]);
        if (made != w.at[i]) {
            made = w.at[i];
            dequantize((const uint8_t *)j->in[i] + made, s->row.in[i], length, f32);
            for (int64_t k = 1; k < most; k++)
                memcpy(f32 + k * length, f32, (size_t)length * sizeof *f32);
        }
        const char *from[2] = {j->in[0] + row * length, j->in[1] + row * length};
        from[i] = (const char *)f32;
        s->run(&all, from, j->out + row * length, n * length);
        w.index[up] += n - 1;
        w.at[i] += (n - 1) * s->stride[i][up];
        next_row(s, &w);
    }
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const binary *s = j->s;
    const int64_t first = task * s->per_task;
    const int64_t n = qb_min64(s->per_task, s->rows * s->parts - first);
    if (s->repeated >= 0 || s->is_short) {
        (s->repeated >= 0 ? run_repeated_rows : run_short_rows)(j, first, first + n);
        return;
    }
    cursor w = cursor_at(s, first / s->parts);
    for (int64_t i = 0, part = first % s->parts; i < n; i++) {
        run_part(j, &w, part);
        if (++part < s->parts) continue;
        part = 0;
        next_row(s, &w);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const binary *s = kernel->state;
    job j = {.s = s};
    for (int32_t i = 0; i < 2; i++)
        j.in[i] =
            (const char *)args->in[i] + (size_t)s->first[i] * qb_dtype_size(s->row.in[i].dtype);
    j.out = (char *)args->out + (size_t)s->first[RESULT] * qb_dtype_size(s->row.epilogue.out);
    qb_workers_run(args->workers, qb_ceil64(s->rows * s->parts, s->per_task), run_task, &j);
    return QB_OK;
}

/* ---- the tactic ---- */

/* Does it lie in the order of the result? What has one dimension that counts does in any. */
static bool lies_as(const qb_desc *desc, const qb_desc *out) {
    int32_t wide = 0;
    for (int32_t d = 0; d < desc->shape.rank; d++) wide += desc->shape.dim[d] != 1;
    if (desc->shape.rank > out->shape.rank) return false;
    if (wide <= 1 && desc->channel_total == 0)
        return desc->layout == QB_LAYOUT_ROW || desc->layout == QB_LAYOUT_NHWC;
    return desc->layout == out->layout &&
           (desc->layout == QB_LAYOUT_ROW || desc->shape.rank == out->shape.rank);
}

/* Libraries repeat what has a number for each channel, or lacks dimensions in front. */
static bool repeats_as_usual(const qb_shape *s, const qb_shape *out) {
    int32_t wide = 0, last = 0;
    bool behind = false; /* is there one that repeats behind one that does not? */
    for (int32_t d = 0; d < s->rank; d++) {
        const int32_t at = d + out->rank - s->rank;
        if (s->dim[d] != 1)
            wide++, last = at;
        else
            behind = behind || (wide > 0 && out->dim[at] != 1);
    }
    return !behind || (wide == 1 && last == 1);
}

/* Does an operand broadcast that libraries want whole, or one in a way that they do not know? */
static bool spreads(const qb_problem *p) {
    const bool commutes = p->binary != QB_BINARY_SUB && p->binary != QB_BINARY_DIV;
    for (int32_t i = 0; i < 2; i++)
        if (!repeats_as_usual(&p->in[i].shape, &p->out.shape)) return true;
    return !qb_shape_equal(&p->in[0].shape, &p->out.shape) &&
           !(commutes && qb_shape_equal(&p->in[1].shape, &p->out.shape));
}

/* One run of floats, perhaps with a scalar, for which oneDNN takes up to twenty times as long. */
static bool is_fast(const qb_problem *p) {
    return qb_shape_equal(&p->in[0].shape, &p->in[1].shape) ||
           qb_shape_count(&p->in[0].shape) == 1 || qb_shape_count(&p->in[1].shape) == 1;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    bool own = qb_cpu_is_quantized(&p->out) || p->out.channel_total > 0;
    if (p->n_in != 2 || !qb_epilogue_supports(p) || !qb_shape_known(&p->out.shape)) return false;
    if (p->out.layout != QB_LAYOUT_ROW && p->out.layout != QB_LAYOUT_NHWC) return false;
    if (p->out.layout == QB_LAYOUT_NHWC && p->out.shape.rank < 3) return false;
    for (int32_t i = 0; i < 2; i++) {
        if (!qb_cpu_is_quantized(&p->in[i]) && !qb_cpu_is_f32(&p->in[i])) return false;
        if (!lies_as(&p->in[i], &p->out)) return false;
        own = own || qb_cpu_is_quantized(&p->in[i]) || p->in[i].channel_total > 0;
    }
    return (own || is_fast(p) || spreads(p)) && qb_shape_count(&p->out.shape) > 0;
}

/* `is_bytes` of qb_binary. */
static bool is_bytes(const qb_problem *p, const qb_epilogue *f) {
    double most[2];
    for (int32_t i = 0; i < 2; i++) {
        if (!qb_cpu_is_quantized(&p->in[i])) return false;
        most[i] = 256.0 * (double)p->in[i].q.scale[0];
    }
    const bool adds = p->binary == QB_BINARY_ADD;
    return (adds || p->binary == QB_BINARY_MUL) && qb_cpu_is_quantized(&p->out) &&
           f->act.kind == QB_ACT_NONE &&
           (adds ? most[0] + most[1] : most[0] * most[1]) * (double)f->inverse < 1e9;
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    binary *s = kernel->state;
    s->row.kind = p->binary;
    s->row.epilogue = qb_epilogue_of(p);
    s->row.is_bytes = is_bytes(p, &s->row.epilogue);
    s->run = best_row();
    for (int32_t i = 0; i < 2; i++) {
        const qb_desc *desc = &p->in[i];
        qb_operand *operand = &s->row.in[i];
        operand->dtype = desc->dtype;
        operand->scale = desc->q.n > 0 ? desc->q.scale[0] : 1.0f;
        operand->zero = qb_cpu_zero(desc);
        if (qb_shape_equal(&desc->shape, &p->out.shape) &&
            desc->channel_total == p->out.channel_total &&
            desc->channel_offset == p->out.channel_offset &&
            qb_dtype_size(desc->dtype) == qb_dtype_size(p->out.dtype))
            kernel->in_place_inputs |= UINT64_C(1) << i;
    }
    place(p, s);
    for (int32_t i = 0; i < 2; i++) s->row.in[i].step = s->stride[i][s->rank - 1];
    share(s);
    kernel->launch = launch;
}

QB_TACTIC(cpu_binary_quantized, "cpu.binary_codes", "cpu", QB_KIND_BINARY, QB_EXACT, supports,
          qb_cpu_create, .state_bytes = sizeof(binary), .fill = fill);
