#include "cuda_timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAUNCHES 12 /* of a graph, at least */
#define WARM_UP 5
#define SLOW_MS 10.0f /* replays that take longer are few: plain kernels on large problems */

void timing_sets_close(timing_sets *s) {
    for (int i = 0; i < s->n; i++) {
        for (int k = 0; k < TIMING_INPUTS; k++) qb_cuda_free(s->in[i][k]);
        qb_cuda_free(s->out[i]);
    }
    *s = (timing_sets){.n = 0};
}

static void fill(qb_rng *rng, const qb_desc *desc, void *data) {
    size_t bytes = qb_desc_bytes(desc);
    if (desc->dtype == QB_DTYPE_F32)
        for (size_t i = 0; i < bytes / 4; i++)
            ((float *)data)[i] = (float)qb_rng_uniform(rng) * 2.0f - 1.0f;
    else if (desc->dtype == QB_DTYPE_F16)
        for (size_t i = 0; i < bytes / 2; i++)
            ((uint16_t *)data)[i] = (uint16_t)((qb_rng_u64(rng) & 0x83ff) | 0x3800); /* 0.5 to 1 */
    else
        for (size_t i = 0; i < bytes; i++) ((uint8_t *)data)[i] = (uint8_t)qb_rng_u64(rng);
}

qb_status timing_sets_open(qb_ctx *cx, timing_sets *s, const qb_cuda_device *device,
                           const qb_problem *p, const bool *constant) {
    size_t bytes = qb_desc_bytes(&p->out), most = 1;
    *s = (timing_sets){.n = 0};
    for (int32_t i = 0; i < p->n_in; i++) {
        if (!qb_problem_has(p, i)) continue;
        if (!constant[i]) bytes += qb_desc_bytes(&p->in[i]);
        if (qb_desc_bytes(&p->in[i]) > most) most = qb_desc_bytes(&p->in[i]);
    }
    size_t n = 4 * device->l2_bytes / bytes + 2;
    char *host = malloc(most);
    qb_status status = host ? QB_OK : QB_STATUS_NOMEM;
    qb_rng rng;
    qb_rng_seed(&rng, 2);
    for (size_t i = 0; i < n && i < TIMING_MAX_SETS && status == QB_OK; i++) {
        s->n++;
        status = qb_cuda_alloc(cx, qb_desc_bytes(&p->out) + QB_BUFFER_SLACK, &s->out[i]);
    }
    for (int32_t k = 0; k < p->n_in && status == QB_OK; k++) {
        if (!qb_problem_has(p, k)) continue;
        size_t size = qb_desc_bytes(&p->in[k]);
        fill(&rng, &p->in[k], host);
        for (int i = 0; i < s->n && status == QB_OK; i++) {
            status = qb_cuda_alloc(cx, size + QB_BUFFER_SLACK, &s->in[i][k]);
            if (status == QB_OK) status = qb_cuda_upload(cx, s->in[i][k], host, size, NULL);
        }
        if (status == QB_OK) status = qb_cuda_sync(cx, NULL);
    }
    free(host);
    return status;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static qb_status time_graph(qb_ctx *cx, void *graph, void *stream, int launches, int replays,
                            double *us) {
    qb_status status = QB_OK;
    void *begin = NULL, *end = NULL;
    float *ms = qb_alloc(cx, (size_t)replays, sizeof *ms);
    if (!ms) return QB_STATUS_NOMEM;
    QB_GO(qb_cuda_event_open(cx, &begin));
    QB_GO(qb_cuda_event_open(cx, &end));
    for (int i = -WARM_UP; i < replays; i++) {
        QB_GO(qb_cuda_event_record(cx, begin, stream));
        QB_GO(qb_cuda_graph_launch(cx, graph, stream));
        QB_GO(qb_cuda_event_record(cx, end, stream));
        QB_GO(qb_cuda_sync(cx, stream));
        QB_GO(qb_cuda_event_elapsed(cx, begin, end, &ms[i < 0 ? 0 : i]));
        if (ms[i < 0 ? 0 : i] > SLOW_MS && replays > 3) replays = 3, i = i < 0 ? -1 : i;
    }
    qsort(ms, (size_t)replays, sizeof *ms, by_value);
    *us = 1e3 * (double)ms[replays / 2] / launches;
out:
    qb_cuda_event_close(begin);
    qb_cuda_event_close(end);
    qb_free(ms);
    return status;
}

qb_status timing_kernel(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                        const timing_sets *s, int replays, double *us) {
    qb_status status = QB_OK;
    void *packed = NULL, *workspace = NULL, *stream = NULL, *graph = NULL;
    char *host = qb_alloc_aligned(cx, kernel->packed_bytes + 1, 1);
    if (!host) return QB_STATUS_NOMEM;
    int launches = (LAUNCHES + s->n - 1) / s->n * s->n;
    if (kernel->pack) QB_GO(kernel->pack(cx, kernel, constants, host));
    QB_GO(qb_cuda_alloc(cx, kernel->packed_bytes, &packed));
    QB_GO(qb_cuda_alloc(cx, kernel->workspace_bytes, &workspace));
    QB_GO(qb_cuda_upload(cx, packed, host, kernel->packed_bytes, NULL));
    QB_GO(qb_cuda_sync(cx, NULL));
    QB_GO(qb_cuda_stream_open(cx, &stream));
    for (int capture = 0; capture < 2; capture++) { /* the first time loads the code */
        if (capture) QB_GO(qb_cuda_capture_begin(cx, stream));
        for (int i = 0; i < (capture ? launches : 1); i++) {
            const void *const *in = (const void *const *)s->in[i % s->n];
            qb_launch launch = {.in = in,
                                .out = s->out[i % s->n],
                                .packed = packed,
                                .workspace = workspace,
                                .stream = stream};
            QB_GO(kernel->launch(cx, kernel, &launch));
        }
        if (capture) QB_GO(qb_cuda_capture_end(cx, stream, &graph));
        QB_GO(qb_cuda_sync(cx, stream));
    }
    QB_GO(time_graph(cx, graph, stream, launches, replays, us));
out:
    qb_cuda_graph_close(graph);
    qb_cuda_stream_close(stream);
    qb_cuda_free(packed);
    qb_cuda_free(workspace);
    qb_free(host);
    return status;
}

qb_status timing_tactic(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, const void *const *constants, const timing_sets *sets,
                        int replays, double *us, char impl[64]) {
    qb_kernel *kernel = NULL;
    *us = 0.0;
    if (!qb_tactic_takes(tactic, problem, constant)) return QB_OK;
    qb_status status = tactic->create(cx, tactic, problem, constant, 1, &kernel);
    if (status == QB_STATUS_UNSUPPORTED) {
        fprintf(stderr, "%s\n", cx->message);
        qb_ctx_clear(cx);
        return QB_OK;
    }
    QB_TRY(status);
    status = timing_kernel(cx, kernel, constants, sets, replays, us);
    memcpy(impl, kernel->impl, 64);
    qb_kernel_free(kernel);
    return status;
}
