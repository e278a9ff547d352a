#include "quant/recover/moments.h"

#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "kernels/ref.h"

/* Sums of each sample stay apart and are added in the samples' order: the same for any number of
 * threads. */
#define ELEMENT_BYTES ((size_t)64 << 20)
#define MOST_ELEMENTS 2048 /* of a channel */

typedef struct job {
    const qb_scales *scales;
    const qb_samples *samples;
    qb_engine *engine;
    int32_t n_observed;
    int32_t *value; /* [n_observed] of the graph; -1: not wanted */
    size_t largest;
    qb_context **context; /* [workers] */
    float **scratch;      /* [workers] */
    void **no_outputs;
    float *square;     /* [samples][scales->n_of] mean squares */
    float *low, *high; /* the same */
    float *fourth;     /* roots of mean fourth powers */
    float *eighth;     /* of mean eighth powers */
    float *element;    /* [scales->n_of][samples][each] */
    int32_t each;
} job;

typedef struct visit {
    const job *job;
    float *scratch;
    size_t sample;
} visit;

/* The elements of even samples come first. */
static size_t slot_of(const job *j, size_t sample) {
    const size_t even = ((size_t)j->samples->n + 1) / 2;
    return sample % 2 ? even + sample / 2 : sample / 2;
}

static qb_status look(qb_ctx *cx, void *user, int32_t observed, const char *name,
                      const qb_tensor *tensor) {
    (void)cx, (void)name;
    const visit *v = user;
    const qb_scales *s = v->job->scales;
    const int32_t value = v->job->value[observed];
    if (value < 0 || tensor->desc.dtype != QB_DTYPE_F32) return QB_OK;
    const qb_shape *shape = &s->graph->values[value].shape;
    const int64_t n = qb_scales_channels(s, value), count = qb_shape_count(shape);
    if (qb_shape_count(&tensor->desc.shape) != count || count == 0) return QB_OK;
    const int64_t inner = qb_shape_span(shape, s->axis[value] + 1, shape->rank);
    const size_t at = v->sample * s->n_of + (size_t)s->first[value];
    const size_t each = (size_t)v->job->each, samples = (size_t)v->job->samples->n;
    qb_tensor_floats(tensor, v->scratch);
    for (int64_t c = 0; c < n; c++) {
        double sum = 0, fourth = 0, eighth = 0;
        float low = INFINITY, high = -INFINITY;
        for (int64_t o = 0; o < count / (n * inner); o++)
            for (int64_t k = 0; k < inner; k++) {
                const float x = v->scratch[(o * n + c) * inner + k];
                const double square = (double)x * (double)x;
                sum += square;
                fourth += square * square;
                eighth += square * square * square * square;
                low = fminf(low, x);
                high = fmaxf(high, x);
            }
        float *element =
            v->job->element +
            (((size_t)s->first[value] + (size_t)c) * samples + slot_of(v->job, v->sample)) * each;
        for (size_t e = 0; e < each; e++) {
            const int64_t i =
                (int64_t)((e * samples + v->sample) * (size_t)(count / n) / each / samples);
            element[e] = v->scratch[(i / inner * n + c) * inner + i % inner];
        }
        const double all = (double)(count / n);
        v->job->square[at + (size_t)c] = (float)(sum / all);
        v->job->fourth[at + (size_t)c] = (float)pow(fourth / all, 1.0 / 4);
        v->job->eighth[at + (size_t)c] = (float)pow(eighth / all, 1.0 / 8);
        v->job->low[at + (size_t)c] = low;
        v->job->high[at + (size_t)c] = high;
    }
    return QB_OK;
}

static qb_status on_sample(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    job *j = user;
    visit v = {j, j->scratch[worker], (size_t)i};
    const void *const *inputs =
        (const void *const *)(j->samples->data + (size_t)i * (size_t)j->samples->n_inputs);
    if (!j->context[worker]) QB_TRY(qb_context_create(cx, j->engine, &j->context[worker]));
    return qb_context_observe(cx, j->context[worker], inputs, j->no_outputs, look, &v);
}

static qb_status prepare(qb_ctx *cx, job *j) {
    const qb_scales *s = j->scales;
    const qb_build_spec spec = {
        .input_shapes = j->samples->shape, .threads = 1, .observable = true};
    QB_TRY(qb_engine_build(cx, s->graph, &spec, &j->engine));
    j->n_observed = qb_engine_n_observed(j->engine);
    const size_t workers = (size_t)qb_threads(cx), cells = (size_t)j->samples->n * s->n_of + 1;
    j->value = qb_alloc(cx, (size_t)j->n_observed, sizeof *j->value);
    j->no_outputs = qb_alloc(cx, (size_t)qb_engine_n_outputs(j->engine), sizeof(void *));
    j->context = qb_alloc(cx, workers, sizeof(qb_context *));
    j->scratch = qb_alloc(cx, workers, sizeof(float *));
    j->square = qb_alloc(cx, cells, sizeof *j->square);
    j->low = qb_alloc(cx, cells, sizeof *j->low);
    j->high = qb_alloc(cx, cells, sizeof *j->high);
    j->fourth = qb_alloc(cx, cells, sizeof *j->fourth);
    j->eighth = qb_alloc(cx, cells, sizeof *j->eighth);
    const size_t all = ELEMENT_BYTES / sizeof(float) / (s->n_of + 1);
    const size_t most = all < MOST_ELEMENTS ? all : MOST_ELEMENTS;
    j->each = (int32_t)(most / (size_t)j->samples->n) + 1;
    j->element = qb_alloc(cx, cells * (size_t)j->each, sizeof *j->element);
    if (!j->element || !j->value || !j->no_outputs || !j->context || !j->scratch || !j->square ||
        !j->low || !j->high || !j->fourth || !j->eighth)
        return cx->code;
    for (int32_t i = 0; i < j->n_observed; i++) {
        const int32_t value = qb_graph_find_value(s->graph, qb_engine_observed_name(j->engine, i));
        j->value[i] = value >= 0 && s->axis[value] >= 0 ? value : -1;
        if (j->value[i] < 0) continue;
        const size_t count = (size_t)qb_shape_count(&s->graph->values[value].shape);
        if (count > j->largest) j->largest = count;
    }
    for (size_t w = 0; w < workers; w++)
        if (!(j->scratch[w] = qb_alloc_aligned(cx, j->largest + 1, sizeof(float)))) return cx->code;
    return QB_OK;
}

static void job_release(qb_ctx *cx, job *j) {
    for (int w = 0; w < qb_threads(cx); w++) {
        if (j->context) qb_context_free(j->context[w]);
        if (j->scratch) qb_free(j->scratch[w]);
    }
    QB_FREE_ALL(j->context, j->scratch, j->value, j->no_outputs, j->square, j->element, j->low,
                j->high, j->fourth, j->eighth);
    qb_engine_free(j->engine);
}

/* One channel, over each `every`-th sample. */
static void reach_of(const job *j, size_t channel, int32_t every, float *const *reach) {
    double fourth = 0, eighth = 0;
    float most = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < j->samples->n; i += every, n++) {
        const size_t at = (size_t)i * j->scales->n_of + channel;
        most = fmaxf(most, fmaxf(-j->low[at], j->high[at]));
        fourth += pow((double)j->fourth[at], 4);
        eighth += pow((double)j->eighth[at], 8);
    }
    reach[0][channel] = most;
    reach[1][channel] = (float)pow(eighth / n, 1.0 / 8);
    reach[2][channel] = (float)pow(fourth / n, 1.0 / 4);
}

static qb_status gather(qb_ctx *cx, job *j, qb_moments *m) {
    const qb_scales *s = j->scales;
    const int32_t even = (j->samples->n + 1) / 2;
    m->element = j->element;
    m->n_elements = j->each * j->samples->n;
    m->others = even < j->samples->n ? even * j->each : 0;
    j->element = NULL;
    for (int k = 0; k < QB_REACHES; k++) {
        m->reach[k] = qb_alloc(cx, s->n_of + 1, sizeof *m->reach[k]);
        m->reach_of_half[k] = qb_alloc(cx, s->n_of + 1, sizeof *m->reach_of_half[k]);
        if (!m->reach[k] || !m->reach_of_half[k]) return cx->code;
    }
    QB_TRY_NEW(cx, m->low = qb_alloc(cx, s->n_of + 1, sizeof *m->low));
    QB_TRY_NEW(cx, m->high = qb_alloc(cx, s->n_of + 1, sizeof *m->high));
    QB_TRY_NEW(cx, m->square = qb_alloc(cx, s->n_of + 1, sizeof *m->square));
    QB_TRY_NEW(cx, m->seen = qb_alloc(cx, (size_t)s->graph->n_values, sizeof *m->seen));
    for (int32_t i = 0; i < j->n_observed; i++)
        if (j->value[i] >= 0) m->seen[j->value[i]] = true;
    for (size_t c = 0; c < s->n_of; c++) {
        m->low[c] = INFINITY;
        m->high[c] = -INFINITY;
        for (int32_t i = 0; i < j->samples->n; i++) {
            const size_t at = (size_t)i * s->n_of + c;
            m->low[c] = fminf(m->low[c], j->low[at]);
            m->high[c] = fmaxf(m->high[c], j->high[at]);
            m->square[c] += (double)j->square[at] / j->samples->n;
        }
        reach_of(j, c, 1, m->reach);
        reach_of(j, c, 2, m->reach_of_half);
    }
    return QB_OK;
}

qb_status qb_moments_measure(qb_ctx *cx, const qb_scales *scales, const qb_samples *samples,
                             qb_moments *out) {
    job j = {.scales = scales, .samples = samples};
    QB_RELEASED(qb_moments_release) qb_moments m = {0};
    qb_status status = prepare(cx, &j);
    if (status == QB_OK) status = qb_each(cx, samples->n, on_sample, &j);
    if (status == QB_OK) status = gather(cx, &j, &m);
    if (status == QB_OK) *out = QB_MOVE(m);
    job_release(cx, &j);
    return status;
}

void qb_moments_release(qb_moments *m) {
    QB_FREE_ALL(m->low, m->high, m->square, m->seen, m->element);
    for (int k = 0; k < QB_REACHES; k++) QB_FREE_ALL(m->reach[k], m->reach_of_half[k]);
    *m = (qb_moments){0};
}
