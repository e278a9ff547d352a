#include "kernels/strided.h"

qb_strided qb_strided_all(int64_t count) {
    return (qb_strided){.rank = 1, .dim = {count}, .stride = {1}};
}

/* The elements that the first copy takes, as numbers with a digit for each of its loops: how many
 * values a digit has, what one more of it is in the order of the elements and in the data, and
 * which of its values the loops of the second copy reach so far. */
typedef struct digits {
    int32_t n;
    int64_t dim[QB_MAX_RANK], row[QB_MAX_RANK], stride[QB_MAX_RANK];
    int64_t low[QB_MAX_RANK], high[QB_MAX_RANK];
} digits;

static void split(const qb_strided *s, digits *to) {
    int64_t row = 1;
    to->n = 0;
    for (int32_t d = 0; d < s->rank; d++) {
        if (s->dim[d] == 1) continue;
        const int32_t last = to->n - 1;
        const bool joins = last >= 0 && to->stride[last] == s->stride[d] * s->dim[d];
        const int32_t at = joins ? last : to->n++;
        to->dim[at] = joins ? to->dim[at] * s->dim[d] : s->dim[d];
        to->stride[at] = s->stride[d];
    }
    for (int32_t d = to->n - 1; d >= 0; d--) {
        to->row[d] = row;
        row *= to->dim[d];
    }
}

/* One more loop of the result, of n elements that are `stride` apart in the data. */
static bool push(qb_strided *out, int64_t n, int64_t stride) {
    if (out->rank == QB_MAX_RANK) return false;
    out->dim[out->rank] = n;
    out->stride[out->rank++] = stride;
    return true;
}

/* A loop over n of the first copy's elements that are `step` apart. One that runs over the end of a
 * digit is one loop over all its values inside of one over what is left. */
static bool add(digits *all, int64_t n, int64_t step, qb_strided *out) {
    const int64_t size = step < 0 ? -step : step;
    int32_t d = 0;
    if (n == 1) return true;
    if (step == 0) return push(out, n, 0);
    while (d < all->n && all->row[d] > size) d++;
    if (d == all->n || size % all->row[d] != 0) return false;
    const int64_t by = step / all->row[d];
    if (by < 0 && all->low[d] + by * (n - 1) >= 0) {
        all->low[d] += by * (n - 1);
        return push(out, n, by * all->stride[d]);
    }
    if (by > 0 && all->high[d] + by * (n - 1) < all->dim[d]) {
        all->high[d] += by * (n - 1);
        return push(out, n, by * all->stride[d]);
    }
    if (by < 0 || d == 0 || all->high[d] != 0 || all->dim[d] % by != 0) return false;
    const int64_t inner = all->dim[d] / by;
    if (n % inner != 0 || n == inner) return false;
    all->high[d] = by * (inner - 1);
    return add(all, n / inner, step * inner, out) && push(out, inner, by * all->stride[d]);
}

bool qb_strided_compose(const qb_strided *first, const qb_strided *second, qb_strided *out) {
    digits all;
    qb_strided s = {.offset = first->offset};
    int64_t rest = second->offset;
    split(first, &all);
    for (int32_t d = 0; d < all.n; d++) {
        all.low[d] = all.high[d] = rest / all.row[d];
        rest -= all.low[d] * all.row[d];
        s.offset += all.low[d] * all.stride[d];
    }
    for (int32_t d = 0; d < second->rank; d++)
        if (!add(&all, second->dim[d], second->stride[d], &s)) return false;
    if (s.rank == 0 && !push(&s, 1, 1)) return false;
    *out = s;
    return true;
}

bool qb_strided_same(const qb_strided *a, const qb_strided *b) {
    digits x, y;
    split(a, &x);
    split(b, &y);
    bool same = a->offset == b->offset && x.n == y.n;
    for (int32_t d = 0; same && d < x.n; d++)
        same = x.dim[d] == y.dim[d] && x.stride[d] == y.stride[d];
    return same;
}

bool qb_strided_is_memory(const qb_strided *strided, const qb_desc *in, const qb_desc *out) {
    qb_strided_loops l;
    if (in->channel_total > 0 || out->channel_total > 0 ||
        qb_shape_count(&in->shape) != qb_shape_count(&out->shape) ||
        !qb_strided_loops_of(strided, in, out, &l))
        return false;
    const bool together = l.dim[0] == 1 || (l.from[0] == 1 && l.to[0] == 1);
    return l.rank == 1 && together && l.from_first == l.to_first;
}

bool qb_strided_is_channels(const qb_strided *strided, const qb_desc *in, qb_desc *out) {
    qb_strided_loops l;
    if (in->layout != QB_LAYOUT_NHWC || in->shape.rank != out->shape.rank) return false;
    const qb_channel_view all = qb_desc_channels(in);
    out->layout = QB_LAYOUT_NHWC;
    out->channel_offset = 0;
    out->channel_total = all.total;
    const qb_channel_view some = qb_desc_channels(out);
    if (some.n >= all.n || some.spatial != all.spatial || in->shape.dim[0] != out->shape.dim[0] ||
        !qb_strided_loops_of(strided, in, out, &l))
        return false;
    for (int32_t d = 0; d < l.rank; d++)
        if (l.dim[d] > 1 && l.from[d] != l.to[d]) return false;
    out->channel_offset = l.from_first;
    return l.from_first >= all.offset && l.from_first + some.n <= all.offset + all.n;
}

bool qb_strided_keeps_pixels(const qb_strided *strided, const qb_desc *in, const qb_desc *out) {
    qb_strided_loops l;
    if (!qb_strided_loops_of(strided, in, out, &l)) return false;
    const int64_t from = qb_desc_channels(in).total, to = qb_desc_channels(out).total;
    for (int32_t d = 0; d < l.rank; d++)
        if (l.to[d] < to && l.dim[d] > 1 && (l.from[d] >= from || -l.from[d] >= from)) return false;
    return true;
}
