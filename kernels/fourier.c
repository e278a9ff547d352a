#include "kernels/fourier.h"

#include <math.h>
#include <string.h>

#include "base/vector_loop.h"

#define PI 3.14159265358979323846

/* The doubles of a complex number of each line: real parts, imaginary parts. */
enum { LINES = QB_FOURIER_LINES, NUMBER = 2 * LINES };

/* y[k] = sum over j of x[j] w[j] exp(-2 pi i j k / n), n the length; `inverse` turns the sign and
 * divides by n. What x lacks is 0; where the spectrum of a real signal stops half-way it goes on as
 * its mirror image. */
typedef struct transform {
    const qb_fourier_plan *plan;
    int64_t length, n;           /* the plan's */
    const double *cosine, *sine; /* of -2 pi k / length, or 2 pi k / length */
    double *x, *y, *part; /* `length` numbers each: signal, spectrum, what is being put together */
} transform;

static void load(const transform *t, const qb_fourier_lines *from, const float *data,
                 const float *window, double *x) {
    const bool pairs = t->n < t->length;
    for (int64_t j = 0; j < t->length; j++) {
        const bool there = j < from->n;
        const float *at = data + (there ? j * from->step : 0);
        const double w = !there ? 0.0 : window ? (double)window[j] : 1.0;
        double *to = pairs ? x + j / 2 * NUMBER + j % 2 * LINES : x + j * NUMBER;
        to[0] = there ? w * (double)at[0] : 0.0;
        if (!pairs) to[LINES] = there && from->is_complex ? w * (double)at[1] : 0.0;
    }
    for (int64_t j = t->n / 2 + 1; j < t->n && t->plan->mirrored; j++) {
        x[j * NUMBER] = x[(t->n - j) * NUMBER];
        x[j * NUMBER + LINES] = -x[(t->n - j) * NUMBER + LINES];
    }
}

static void store(const transform *t, const double *y, const qb_fourier_lines *to, float *data) {
    const double scale = t->plan->inverse ? 1.0 / (double)t->length : 1.0;
    for (int64_t k = 0; k < to->n; k++, y += NUMBER) {
        data[k * to->step] = (float)(y[0] * scale);
        if (to->is_complex) data[k * to->step + 1] = (float)(y[LINES] * scale);
    }
}

static int64_t smallest_factor(int64_t n) {
    for (int64_t f = 2; f * f <= n; f++)
        if (n % f == 0) return f;
    return n;
}

/* y = the sum of `count` numbers, `in` apart, times the roots 0, root, 2 root ... */
QB_LOOP(sum_up,
        (const transform *t, const double *x, int64_t count, int64_t in, int64_t root, double *y),
        (t, x, count, in, root, y)) {
    double sum[NUMBER] = {0};
    for (int64_t j = 0, at = 0; j < count; j++, x += in * NUMBER) {
        const double c = t->cosine[at], s = t->sine[at];
        for (int l = 0; l < LINES; l++) {
            sum[l] += x[l] * c - x[LINES + l] * s;
            sum[LINES + l] += x[l] * s + x[LINES + l] * c;
        }
        at = at + root < t->length ? at + root : at + root - t->length;
    }
    memcpy(y, sum, sizeof sum);
}

/* The same for two, of all numbers of a part, in place. */
QB_LOOP(put_halves_together, (const transform *t, double *y, int64_t m), (t, y, m)) {
    const int64_t root = t->length / (2 * m);
    for (int64_t k = 0; k < m; k++, y += NUMBER) {
        const double c = t->cosine[k * root], s = t->sine[k * root];
        double *other = y + m * NUMBER;
        for (int l = 0; l < LINES; l++) {
            const double re = other[l] * c - other[LINES + l] * s;
            const double im = other[l] * s + other[LINES + l] * c;
            other[l] = y[l] - re;
            other[LINES + l] = y[LINES + l] - im;
            y[l] += re;
            y[LINES + l] += im;
        }
    }
}

/* The spectrum of `count` numbers of the signal, from `first` and n / count apart: those of f times
 * fewer numbers, f times, are put together, f being the count's smallest factor (Cooley, Tukey). */
static void transform_part(const transform *t, int64_t first, int64_t count, double *y) {
    const int64_t f = smallest_factor(count), m = count / f, step = t->n / count;
    const int64_t root = t->length / count;
    if (m <= 1) { /* one number, or a prime */
        for (int64_t k = 0; k < count; k++)
            sum_up(t, t->x + first * NUMBER, count, step, k * root, y + k * NUMBER);
        return;
    }
    for (int64_t i = 0; i < f; i++) transform_part(t, first + i * step, m, y + i * m * NUMBER);
    if (f == 2) {
        put_halves_together(t, y, m);
        return;
    }
    memcpy(t->part, y, (size_t)(count * NUMBER) * sizeof *y);
    for (int64_t k = 0; k < count; k++)
        sum_up(t, t->part + k % m * NUMBER, f, m, k * root, y + k * NUMBER);
}

/* The spectrum of reals from that of their pairs: those of the even and of the odd ones are its
 * symmetric and its antisymmetric part. */
QB_LOOP(part_pairs, (const transform *t, const double *pairs, double *y), (t, pairs, y)) {
    for (int64_t k = 0; k <= t->n; k++) {
        const double *a = pairs + k % t->n * NUMBER, *b = pairs + (t->n - k) % t->n * NUMBER;
        double *to = y + k * NUMBER, *mirror = y + (t->length - k) % t->length * NUMBER;
        const double c = t->cosine[k], s = t->sine[k];
        for (int l = 0; l < LINES; l++) {
            const double odd = 0.5 * (a[LINES + l] + b[LINES + l]), odd_i = 0.5 * (b[l] - a[l]);
            const double re = 0.5 * (a[l] + b[l]) + (odd * c - odd_i * s);
            const double im = 0.5 * (a[LINES + l] - b[LINES + l]) + (odd * s + odd_i * c);
            mirror[l] = re;
            mirror[LINES + l] = -im;
            to[l] = re;
            to[LINES + l] = im;
        }
    }
}

static qb_fourier_plan dft_plan(const qb_fourier *how, int32_t axis, const qb_shape *x,
                                const qb_shape *y) {
    const int64_t inner = qb_shape_span(x, axis + 1, x->rank - 1);
    const int64_t parts_x = x->dim[x->rank - 1], parts_y = y->dim[y->rank - 1];
    const int64_t n_x = x->dim[axis], n_y = y->dim[axis];
    return (qb_fourier_plan){
        .length = how->length,
        .inverse = how->inverse,
        .mirrored = how->inverse && how->onesided,
        .lines = qb_shape_count(y) / parts_y / n_y,
        .from = {n_x, inner * parts_x, parts_x == 2, inner, n_x * inner * parts_x, parts_x},
        .to = {n_y, inner * parts_y, parts_y == 2, inner, n_y * inner * parts_y, parts_y}};
}

static qb_fourier_plan stft_plan(const qb_fourier *how, const qb_shape *x, const qb_shape *y) {
    const int64_t parts = x->rank == 3 ? x->dim[2] : 1, frames = y->dim[1], each = y->dim[2] * 2;
    return (qb_fourier_plan){
        .length = how->length,
        .lines = y->dim[0] * frames,
        .from = {how->length, parts, parts == 2, frames, x->dim[1] * parts, how->step * parts},
        .to = {y->dim[2], 2, true, frames, frames * each, each}};
}

qb_fourier_plan qb_fourier_plan_of(const qb_fourier *how, int32_t axis, const qb_shape *x,
                                   const qb_shape *y) {
    qb_fourier_plan plan = how->step > 0 ? stft_plan(how, x, y) : dft_plan(how, axis, x, y);
    const bool whole = plan.from.is_complex || plan.mirrored || plan.length % 2;
    plan.n = whole ? plan.length : plan.length / 2;
    return plan;
}

int64_t qb_fourier_roots(const qb_fourier_plan *plan) { return 2 * plan->length; }

void qb_fourier_fill_roots(const qb_fourier_plan *plan, double *roots) {
    for (int64_t k = 0; k < plan->length; k++) {
        const double angle = 2 * PI * (double)k / (double)plan->length;
        roots[k] = cos(angle);
        roots[plan->length + k] = sin(angle) * (plan->inverse ? 1 : -1);
    }
}

int64_t qb_fourier_workspace(const qb_fourier_plan *plan) { return 3 * plan->length * NUMBER; }

static int64_t line_at(const qb_fourier_lines *of, int64_t i) {
    return i / of->inner * of->outer_step + i % of->inner * of->inner_step;
}

void qb_fourier_run(const qb_fourier_plan *plan, const double *roots, const float *x,
                    const float *window, int64_t first, int64_t end, float *y, double *workspace) {
    const int64_t numbers = plan->length * NUMBER;
    const transform t = {.plan = plan,
                         .length = plan->length,
                         .n = plan->n,
                         .cosine = roots,
                         .sine = roots + plan->length,
                         .x = workspace,
                         .y = workspace + numbers,
                         .part = workspace + 2 * numbers};
    const bool pairs = t.n < t.length;
    memset(t.x, 0, (size_t)numbers * sizeof *t.x);
    for (int64_t i = first; i < end; i += LINES) {
        const int64_t some = end - i < LINES ? end - i : LINES;
        for (int64_t l = 0; l < some; l++)
            load(&t, &plan->from, x + line_at(&plan->from, i + l), window, t.x + l);
        transform_part(&t, 0, t.n, t.y);
        if (pairs) part_pairs(&t, t.y, t.part);
        const double *made = pairs ? t.part : t.y;
        for (int64_t l = 0; l < some; l++)
            store(&t, made + l, &plan->to, y + line_at(&plan->to, i + l));
    }
}
