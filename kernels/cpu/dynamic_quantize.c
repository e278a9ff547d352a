/* Quantization by the range of the data themselves: one pass finds it, one makes quantized values.
 */
#include <math.h>

#include "base/vector_loop.h"
#include "convert.h"

#define ELEMENTS_PER_TASK 16384
#define LANES 64 /* extremes that are found side by side */

typedef struct range {
    float low, high;
} range;

typedef struct job {
    const float *in;
    uint8_t *out;
    int64_t n;
    range *found; /* one a task */
    const qb_convert *convert;
} job;

/* NaN passes by. */
QB_LOOP(find_range, (const float *x, int64_t n, range *out), (x, n, out)) {
    float low[LANES] = {0}, high[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
            high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
        }
    for (int k = 0; i < n; i++, k++) {
        low[k] = x[i] < low[k] ? x[i] : low[k];
        high[k] = x[i] > high[k] ? x[i] : high[k];
    }
    for (int k = 1; k < LANES; k++) {
        low[0] = low[k] < low[0] ? low[k] : low[0];
        high[0] = high[k] > high[0] ? high[k] : high[0];
    }
    *out = (range){low[0], high[0]};
}

static int64_t begin_of(int64_t task) { return task * ELEMENTS_PER_TASK; }
static int64_t size_of(const job *j, int64_t task) {
    return qb_min64(ELEMENTS_PER_TASK, j->n - begin_of(task));
}

static void find(int64_t task, void *argument) {
    const job *j = argument;
    find_range(j->in + begin_of(task), size_of(j, task), &j->found[task]);
}

static void quantize(int64_t task, void *argument) {
    const job *j = argument;
    j->convert->run(j->convert, j->in + begin_of(task), j->out + begin_of(task), size_of(j, task));
}

static int64_t n_tasks(const qb_problem *p) {
    return qb_ceil64(qb_shape_count(&p->in[0].shape), ELEMENTS_PER_TASK);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const qb_problem *p = &kernel->problem;
    const int64_t tasks = n_tasks(p);
    job j = {.in = args->in[0],
             .out = args->out,
             .n = qb_shape_count(&p->in[0].shape),
             .found = args->workspace};
    range all = {0};
    qb_workers_run(args->workers, tasks, find, &j);
    for (int64_t i = 0; i < tasks; i++) {
        if (j.found[i].low < all.low) all.low = j.found[i].low;
        if (j.found[i].high > all.high) all.high = j.found[i].high;
    }
    const float scale = all.low == all.high ? 1.0f : (all.high - all.low) / 255.0f;
    const int32_t zero = (int32_t)rintf(fminf(fmaxf(0.0f - all.low / scale, 0.0f), 255.0f));
    qb_desc quantized = p->out;
    quantized.q = (qb_qparams){QB_DTYPE_U8, -1, 1, &scale, &zero};
    const qb_convert convert = qb_convert_of(&p->in[0], &quantized);
    j.convert = &convert;
    if (j.out) qb_workers_run(args->workers, tasks, quantize, &j);
    if (args->more && args->more[0]) *(float *)args->more[0] = scale;
    if (args->more && args->more[1]) *(uint8_t *)args->more[1] = (uint8_t)zero;
    return QB_OK;
}

static bool is_row(const qb_desc *d) { return qb_cpu_is_rows(d) && d->q.n == 0; }

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    return p->kind == QB_KIND_DYNAMIC_QUANTIZE && p->in[0].dtype == QB_DTYPE_F32 &&
           p->out.dtype == QB_DTYPE_U8 && is_row(&p->in[0]) && is_row(&p->out) &&
           qb_shape_known(&p->in[0].shape);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, out));
    (*out)->workspace_bytes = (size_t)n_tasks(p) * sizeof(range);
    (*out)->launch = launch;
    return QB_OK;
}

QB_TACTIC(cpu_dynamic_quantize, "cpu.dynamic_quantize", "cpu", QB_KIND_DYNAMIC_QUANTIZE, QB_EXACT,
          supports, create);
