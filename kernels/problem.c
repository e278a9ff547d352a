#include "problem.h"

#include <math.h>

#include "base/strbuf.h"
#include "kernels/chain.h"
#include "kernels/heads.h"

typedef enum trait { ROW_MAJOR = 1, WINDOW = 2 } trait;
static const struct {
    const char *text;
    trait traits;
} kinds[QB_KIND_COUNT] = {
    [QB_KIND_NODE] = {"node"},
    [QB_KIND_CONV] = {"conv", WINDOW},
    [QB_KIND_CONV_TRANSPOSE] = {"conv_transpose", WINDOW},
    [QB_KIND_MATMUL] = {"matmul", ROW_MAJOR},
    [QB_KIND_POOL] = {"pool", WINDOW},
    [QB_KIND_CONV_POOL] = {"conv_pool", WINDOW},
    [QB_KIND_BINARY] = {"binary"},
    [QB_KIND_UNARY] = {"unary"},
    [QB_KIND_SOFTMAX] = {"softmax"},
    [QB_KIND_CONCAT] = {"concat"},
    [QB_KIND_COPY] = {"copy"},
    [QB_KIND_LAYER_NORM] = {"layer_norm", ROW_MAJOR},
    [QB_KIND_STRIDED_COPY] = {"strided_copy", ROW_MAJOR},
    [QB_KIND_RESIZE] = {"resize"},
    [QB_KIND_GATHER] = {"gather", ROW_MAJOR},
    [QB_KIND_ATTENTION] = {"attention", ROW_MAJOR},
    [QB_KIND_RECURRENT] = {"recurrent", ROW_MAJOR},
    [QB_KIND_MATMUL_INTEGER] = {"matmul_integer", ROW_MAJOR},
    [QB_KIND_MATMUL_SCALED] = {"matmul_scaled", ROW_MAJOR},
    [QB_KIND_DYNAMIC_QUANTIZE] = {"dynamic_quantize", ROW_MAJOR},
    [QB_KIND_CHAIN] = {"chain"},
    [QB_KIND_GROUP_NORM] = {"group_norm"},
    [QB_KIND_REDUCE] = {"reduce", ROW_MAJOR},
    [QB_KIND_PAD] = {"pad"},
    [QB_KIND_SCATTER] = {"scatter", ROW_MAJOR},
    [QB_KIND_GRID_SAMPLE] = {"grid_sample", ROW_MAJOR},
    [QB_KIND_SCAN] = {"scan", ROW_MAJOR},
    [QB_KIND_FOLD] = {"fold", ROW_MAJOR},
    [QB_KIND_FOURIER] = {"fourier", ROW_MAJOR},
    [QB_KIND_ARG] = {"arg", ROW_MAJOR},
    [QB_KIND_POOL_PLACES] = {"pool_places", ROW_MAJOR},
};

const char *qb_kind_text(qb_kind kind) {
    return (unsigned)kind < QB_KIND_COUNT ? kinds[kind].text : "invalid";
}

bool qb_kind_has_window(qb_kind kind) { return kinds[kind].traits & WINDOW; }

bool qb_kind_is_row_major(qb_kind kind) { return kinds[kind].traits & ROW_MAJOR; }

const char *qb_act_text(qb_act_kind kind) {
    static const char *const text[QB_ACT_COUNT] = {
        [QB_ACT_NONE] = "none",
        [QB_ACT_RELU] = "relu",
        [QB_ACT_CLIP] = "clip",
        [QB_ACT_LEAKY_RELU] = "leaky_relu",
        [QB_ACT_SIGMOID] = "sigmoid",
        [QB_ACT_TANH] = "tanh",
        [QB_ACT_HARD_SIGMOID] = "hard_sigmoid",
        [QB_ACT_HARD_SWISH] = "hard_swish",
        [QB_ACT_SILU] = "silu",
        [QB_ACT_GELU] = "gelu",
        [QB_ACT_GELU_TANH] = "gelu_tanh",
        [QB_ACT_ELU] = "elu",
    };
    return (unsigned)kind < QB_ACT_COUNT ? text[kind] : "invalid";
}

static float clamp01(float x) { return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }

/* Comparisons are written so that NaN comes out as NaN. */
float qb_act_apply(qb_act act, float x) {
    switch (act.kind) {
    case QB_ACT_RELU: return x < 0.0f ? 0.0f : x;
    case QB_ACT_CLIP: {
        float low = x < act.alpha ? act.alpha : x;
        return low > act.beta ? act.beta : low;
    }
    case QB_ACT_LEAKY_RELU: return x < 0.0f ? act.alpha * x : x;
    case QB_ACT_SIGMOID: return 1.0f / (1.0f + expf(-x));
    case QB_ACT_TANH: return tanhf(x);
    case QB_ACT_HARD_SIGMOID: return clamp01(act.alpha * x + act.beta);
    case QB_ACT_HARD_SWISH: return x * clamp01(x * (1.0f / 6.0f) + 0.5f);
    case QB_ACT_SILU: return x / (1.0f + expf(-x));
    case QB_ACT_GELU: return 0.5f * x * (1.0f + erff(x * 0x1.6a09e6p-1f)); /* 1 / sqrt 2 */
    case QB_ACT_GELU_TANH: {
        float inner = 0.797884561f * (x + 0.044715f * x * x * x); /* sqrt(2 / pi) */
        return 0.5f * x * (1.0f + tanhf(inner));
    }
    case QB_ACT_ELU: return x < 0.0f ? act.alpha * expm1f(x) : x;
    case QB_ACT_NONE:
    case QB_ACT_COUNT: break;
    }
    return x;
}

bool qb_problem_has(const qb_problem *p, int32_t input) {
    return input >= 0 && input < p->n_in && p->in[input].dtype != QB_DTYPE_NONE;
}

static bool is_one_pixel(const qb_window *w) {
    for (int32_t d = 0; d < w->n; d++)
        if (w->kernel[d] != 1 || w->stride[d] != 1 || w->pad_begin[d] != 0 || w->pad_end[d] != 0)
            return false;
    return true;
}

bool qb_problem_is_scale(const qb_problem *p) {
    return p->kind == QB_KIND_CONV && p->group > 1 && p->group == p->in[QB_IN_DATA].shape.dim[1] &&
           p->group == p->out.shape.dim[1] && is_one_pixel(&p->window);
}

static double count_of(const qb_shape *shape, int32_t from) {
    double count = 1.0;
    for (int32_t d = from; d < shape->rank; d++) count *= (double)shape->dim[d];
    return count;
}

int32_t qb_cell_gates(qb_cell_kind cell) {
    return cell == QB_CELL_LSTM ? 4 : cell == QB_CELL_GRU ? 3 : 1;
}

void qb_problem_parts(const qb_problem *p, qb_desc *between, qb_problem *conv, qb_problem *pool) {
    *between = p->out;
    between->channel_offset = between->channel_total = 0;
    for (int32_t d = 0; d < p->window.n; d++) {
        const qb_window *w = &p->window;
        const int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        const int64_t padded = p->in[QB_IN_DATA].shape.dim[2 + d] + w->pad_begin[d] + w->pad_end[d];
        between->shape.dim[2 + d] = (padded - reach) / w->stride[d] + 1;
    }
    *conv = *p;
    conv->kind = QB_KIND_CONV;
    conv->out = *between;
    conv->after = (qb_window){0};
    *pool = (qb_problem){.kind = QB_KIND_POOL,
                         .n_in = 1,
                         .in = between,
                         .out = p->out,
                         .window = p->after,
                         .pool = QB_POOL_MAX,
                         .group = 1,
                         .scale = 1};
}

static bool is_integer_operand(const qb_desc *d) {
    return (d->dtype == QB_DTYPE_U8 || d->dtype == QB_DTYPE_S8) && d->q.n == 0;
}

/* `most`: how many there may be beside one. */
static bool is_zero_of(const qb_problem *p, int32_t i, const qb_desc *operand, int64_t most) {
    if (!qb_problem_has(p, i)) return true;
    const qb_desc *zero = &p->in[i];
    const int64_t n = qb_shape_count(&zero->shape);
    return zero->dtype == operand->dtype && zero->q.n == 0 &&
           (n == 1 || (n == most && zero->shape.rank == 1));
}

bool qb_problem_is_integer(const qb_problem *p) {
    const qb_desc *a = &p->in[QB_IN_DATA], *b = &p->in[QB_IN_WEIGHT];
    if (p->kind != QB_KIND_MATMUL_INTEGER || p->n_in < 2 || p->out.dtype != QB_DTYPE_S32 ||
        !is_integer_operand(a) || !is_integer_operand(b) || b->shape.rank < 2)
        return false;
    const int64_t columns = b->shape.rank == 2 ? b->shape.dim[1] : 1;
    return is_zero_of(p, QB_IN_DATA_ZERO, a, 1) && is_zero_of(p, QB_IN_WEIGHT_ZERO, b, columns);
}

int32_t qb_kind_outputs(qb_kind kind) {
    return kind == QB_KIND_RECURRENT || kind == QB_KIND_DYNAMIC_QUANTIZE ? 3 : 1;
}

void qb_problem_add_details(const qb_problem *p, struct qb_strbuf *text) {
    if (p->reduce) qb_strbuf_addf(text, ";%d:%x", (int)p->reduce, (unsigned)p->axes);
    for (int32_t d = 0; p->kind == QB_KIND_STRIDED_COPY && d < p->strided.rank; d++)
        qb_strbuf_addf(text, "%c%lld*%lld", d == 0 ? ';' : ',', (long long)p->strided.dim[d],
                       (long long)p->strided.stride[d]);
    for (int32_t d = 0; p->kind == QB_KIND_PAD && d < p->out.shape.rank; d++)
        qb_strbuf_addf(text, ";%d:%lld", (int)p->padding.mode, (long long)p->padding.begin[d]);
    if (p->rms) qb_strbuf_add(text, ";rms");
    if (p->rounding.dtype != QB_DTYPE_NONE) qb_strbuf_add(text, ";rounds");
    for (int32_t i = 0; p->has_views && i < 4; i++) {
        const qb_heads *at = i < 3 ? &p->views.in[i] : &p->views.out;
        qb_strbuf_addf(text, ";%lld+%lld", (long long)at->offset, (long long)at->inner);
        for (int32_t d = 0; d < 4; d++) qb_strbuf_addf(text, "*%lld", (long long)at->stride[d]);
    }
    if (p->has_views)
        qb_strbuf_addf(text, ";%lldx%lldx%lldx%lld", (long long)p->views.rows,
                       (long long)p->views.keys, (long long)p->views.size,
                       (long long)p->views.value_size);
    if (p->kind == QB_KIND_SCAN) qb_strbuf_addf(text, ";%d%d", p->scan.exclusive, p->scan.reverse);
    if (p->kind == QB_KIND_FOURIER)
        qb_strbuf_addf(text, ";%lld+%lld:%d%d:%d", (long long)p->fourier.length,
                       (long long)p->fourier.step, p->fourier.inverse, p->fourier.onesided,
                       p->axis);
    if (p->kind == QB_KIND_ARG) qb_strbuf_addf(text, ";%d%d", p->extreme.smallest, p->extreme.last);
    if (p->kind == QB_KIND_GRID_SAMPLE)
        qb_strbuf_addf(text, ";%d%d%d", (int)p->grid.mode, (int)p->grid.outside, p->grid.corners);
    for (int32_t d = 0; d < p->places.rank; d++)
        qb_strbuf_addf(text, ";%lld*%lld+%lld", (long long)p->places.dim[d],
                       (long long)p->places.along[d], (long long)p->places.named[d]);
    for (int32_t i = 0; p->chain && i < p->chain->n_operations; i++) {
        const qb_chain_operation *o = &p->chain->operation[i];
        qb_strbuf_addf(text, "%c%d%s", i == 0 ? ';' : ',', (int)o->function,
                       !p->chain->integer ? ""
                       : o->narrow        ? "w"
                                          : "i");
        for (int32_t a = 0; a < qb_function_arguments(o->function); a++)
            qb_strbuf_addf(text, ":%d", (int)o->in[a]);
    }
}

double qb_problem_flops(const qb_problem *p) {
    double out = count_of(&p->out.shape, 0);
    switch (p->kind) {
    case QB_KIND_CONV: return 2.0 * out * count_of(&p->in[QB_IN_WEIGHT].shape, 1);
    case QB_KIND_CONV_POOL: {
        qb_problem conv, pool;
        qb_desc between;
        qb_problem_parts(p, &between, &conv, &pool);
        return qb_problem_flops(&conv) + qb_problem_flops(&pool);
    }
    case QB_KIND_CONV_TRANSPOSE: /* each input element meets M / g kernels */
        return 2.0 * count_of(&p->in[QB_IN_DATA].shape, 0) *
               count_of(&p->in[QB_IN_WEIGHT].shape, 1);
    case QB_KIND_MATMUL:
    case QB_KIND_MATMUL_INTEGER:
    case QB_KIND_MATMUL_SCALED: {
        const qb_shape *a = &p->in[QB_IN_DATA].shape;
        int32_t k = a->rank - (p->transpose_a ? 2 : 1);
        return k < 0 ? 0.0 : 2.0 * out * (double)a->dim[k];
    }
    case QB_KIND_ATTENTION: { /* two products */
        qb_attention a;
        if (!qb_attention_of(p, &a)) return 0.0;
        return 2.0 * (double)(a.batch * p->group * a.rows) *
               (double)(a.keys * (a.size + a.value_size));
    }
    case QB_KIND_RECURRENT: /* products of each gate with x and h */
        return 2.0 * out * (double)qb_cell_gates(p->recurrence.cell) *
               (double)(p->in[QB_IN_W].shape.dim[2] + p->in[QB_IN_R].shape.dim[2]);
    case QB_KIND_POOL_PLACES:
    case QB_KIND_POOL: {
        double window = 1.0;
        for (int32_t d = 0; d < p->window.n; d++) window *= (double)p->window.kernel[d];
        return out * window;
    }
    case QB_KIND_BINARY:
    case QB_KIND_UNARY: return out;
    case QB_KIND_DYNAMIC_QUANTIZE: /* the range, then a quotient each */
    case QB_KIND_SOFTMAX: return 3.0 * out;
    case QB_KIND_LAYER_NORM:
    case QB_KIND_GROUP_NORM: return 5.0 * out;
    case QB_KIND_SCAN: return out;
    case QB_KIND_ARG:
    case QB_KIND_FOLD:
    case QB_KIND_REDUCE: return count_of(&p->in[0].shape, 0);
    case QB_KIND_CHAIN: return out * (double)p->chain->n_operations;
    case QB_KIND_RESIZE: return p->resize == QB_RESIZE_NEAREST ? 0.0 : 8.0 * out;
    case QB_KIND_GRID_SAMPLE: return 8.0 * out;
    case QB_KIND_FOURIER: return 5.0 * out * log2((double)p->fourier.length);
    case QB_KIND_NODE:
    case QB_KIND_CONCAT:
    case QB_KIND_COPY:
    case QB_KIND_STRIDED_COPY:
    case QB_KIND_GATHER:
    case QB_KIND_SCATTER:
    case QB_KIND_PAD:
    case QB_KIND_COUNT: break;
    }
    return 0.0;
}

/* A tensor as items, channels and pixels: sizes, strides in row-major order and in memory, and how
 * far the loops over it reach. */
typedef struct side {
    bool rows; /* both are the same */
    int64_t dim[3], row[3], memory[3], low[3], high[3], first;
} side;

static bool side_of(const qb_desc *desc, int64_t offset, side *s) {
    const qb_channel_view c = qb_desc_channels(desc);
    const bool spatial = desc->shape.rank >= 3 && desc->shape.rank <= 5;
    *s = (side){.rows = desc->layout == QB_LAYOUT_ROW && desc->channel_total == 0};
    s->first = offset;
    if (s->rows) return true;
    if (!spatial || (desc->layout != QB_LAYOUT_ROW && desc->layout != QB_LAYOUT_NHWC)) return false;
    const bool last = desc->layout == QB_LAYOUT_NHWC;
    const int64_t dim[3] = {desc->shape.dim[0], c.n, c.spatial};
    const int64_t row[3] = {c.n * c.spatial, c.spatial, 1};
    const int64_t memory[3] = {c.total * c.spatial, last ? 1 : c.spatial, last ? c.total : 1};
    s->first = c.offset * memory[1];
    for (int32_t d = 0; d < 3; d++) {
        s->dim[d] = dim[d], s->row[d] = row[d], s->memory[d] = memory[d];
        s->low[d] = s->high[d] = row[d] > 0 ? offset / row[d] : 0;
        offset -= s->low[d] * row[d];
        s->first += s->low[d] * memory[d];
    }
    return true;
}

/* The row-major stride of a loop of n elements as one of memory. False where the loop leaves the
 * dimension along which it goes. */
static bool through(side *s, int64_t n, int64_t stride, int64_t *memory) {
    const int64_t size = stride < 0 ? -stride : stride;
    *memory = s->rows ? stride : 0;
    if (s->rows || n == 1 || stride == 0) return true;
    for (int32_t d = 0; d < 3; d++) {
        if (s->row[d] > size || size % s->row[d] != 0) continue;
        const int64_t by = stride / s->row[d];
        *(by > 0 ? &s->high[d] : &s->low[d]) += by * (n - 1);
        *memory = by * s->memory[d];
        return s->low[d] >= 0 && s->high[d] < s->dim[d];
    }
    return false;
}

static void swap_loops(qb_strided_loops *l, int32_t a, int32_t b) {
    int64_t *const lists[] = {l->dim, l->from, l->to};
    for (int32_t i = 0; i < 3; i++) {
        const int64_t kept = lists[i][a];
        lists[i][a] = lists[i][b];
        lists[i][b] = kept;
    }
}

static void merge_loops(qb_strided_loops *l) {
    int32_t rank = 0;
    for (int32_t d = 0; d < l->rank; d++) {
        if (l->dim[d] == 1) continue;
        const bool merge = rank > 0 && l->from[rank - 1] == l->from[d] * l->dim[d] &&
                           l->to[rank - 1] == l->to[d] * l->dim[d];
        const int32_t at = merge ? rank - 1 : rank++;
        l->dim[at] = merge ? l->dim[at] * l->dim[d] : l->dim[d];
        l->from[at] = l->from[d];
        l->to[at] = l->to[d];
    }
    if (rank == 0) l->dim[0] = l->from[0] = l->to[0] = 1;
    l->rank = rank > 0 ? rank : 1;
}

/* How many of a loop's elements lie in one dimension of the side: all, or those up to the next one,
 * by which the loop is two. */
static int64_t within(const side *s, int64_t n, int64_t stride) {
    const int64_t size = stride < 0 ? -stride : stride;
    int64_t inner = n;
    for (int32_t d = 0; !s->rows && size > 0 && d < 3; d++)
        if (s->row[d] > size && s->row[d] % size == 0 && n % (s->row[d] / size) == 0 &&
            s->row[d] / size < inner)
            inner = s->row[d] / size;
    return inner;
}

bool qb_strided_loops_of(const qb_strided *strided, const qb_desc *in, const qb_desc *out,
                         qb_strided_loops *loops) {
    int64_t step = 1; /* of the result in row-major order */
    side from, to;
    qb_strided_loops l = {.rank = 0};
    if (!side_of(in, strided->offset, &from) || !side_of(out, 0, &to)) return false;
    l.from_first = from.first;
    l.to_first = to.first;
    for (int32_t d = strided->rank - 1; d >= 0; d--) {
        int64_t left = strided->dim[d], stride = strided->stride[d];
        do { /* the innermost first */
            const int64_t n = within(&to, within(&from, left, stride), step);
            const int32_t at = l.rank++;
            if (at == QB_MAX_RANK || !through(&from, n, stride, &l.from[at]) ||
                !through(&to, n, step, &l.to[at]))
                return false;
            l.dim[at] = n;
            left = n > 0 ? left / n : 0;
            stride *= n;
            step *= n;
        } while (left > 1);
    }
    for (int32_t d = 1; d < l.rank; d++) /* by the result's memory */
        for (int32_t at = d; at > 0 && l.to[at - 1] < l.to[at]; at--) swap_loops(&l, at - 1, at);
    merge_loops(&l);
    *loops = l;
    return true;
}
