/* What this machine reaches: the best kernels on a convolution large enough to keep them busy, and
 * a copy of memory too large for the caches. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "eval/compare_internal.h"
#include "graph/op.h"

enum { CHANNELS = 256, SIDE = 28, KERNEL = 3, COPY_MIB = 64, REPEAT = 5 };

/* Conv 256 -> 256, 3x3 on 28x28; in integers when `integer`. */
static qb_status make_graph(qb_ctx *cx, bool integer, qb_graph **out) {
    static const float activation_scale = 0.02f, weight_scale = 0.001f;
    static const qb_qparams u8 = {QB_DTYPE_U8, -1, 1, &activation_scale, NULL},
                            s8 = {QB_DTYPE_S8, -1, 1, &weight_scale, NULL};
    const qb_shape image = qb_shape_of(4, 1, CHANNELS, SIDE, SIDE),
                   weight = qb_shape_of(4, CHANNELS, CHANNELS, KERNEL, KERNEL),
                   result = qb_shape_of(4, 1, CHANNELS, SIDE - KERNEL + 1, SIDE - KERNEL + 1);
    const size_t bytes = (size_t)qb_shape_count(&weight) * sizeof(float);
    QB_FREED char *ones = QB_NEW(cx, qb_alloc(cx, 1, bytes));
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_graph_create(cx, &graph));
    const qb_dtype data = integer ? QB_DTYPE_U8 : QB_DTYPE_F32,
                   kernel = integer ? QB_DTYPE_S8 : QB_DTYPE_F32;
    memset(ones, integer ? 1 : 0, bytes);
    int32_t in[2] = {qb_graph_add_value(cx, graph, "x", data, &image),
                     qb_graph_add_constant(cx, graph, "w", kernel, &weight, ones)};
    const int32_t y = qb_graph_add_value(cx, graph, "y", data, &result);
    if (in[0] < 0 || in[1] < 0 || y < 0) return cx->code;
    if (integer) {
        graph->values[in[0]].q = graph->values[y].q = u8;
        graph->values[in[1]].q = s8;
    }
    QB_TRY(qb_graph_add_input(cx, graph, in[0]));
    QB_TRY(qb_graph_add_output(cx, graph, y));
    if (qb_graph_add_node(cx, graph, qb_op_find("Conv", ""), "conv", in, 2, &y, 1) < 0)
        return cx->code;
    *out = QB_MOVE(graph);
    return QB_OK;
}

/* The convolution's share of the fastest run. */
static qb_status fastest(qb_ctx *cx, const qb_engine *engine, double *gops) {
    const int32_t n = qb_engine_n_steps(engine);
    QB_FREED double *seconds = qb_alloc(cx, (size_t)n, sizeof *seconds);
    QB_FREED float *in = qb_alloc_aligned(cx, 1, qb_desc_bytes(qb_engine_input(engine, 0)));
    QB_FREED float *out = qb_alloc_aligned(cx, 1, qb_desc_bytes(qb_engine_output(engine, 0)));
    QB_RELEASED(qb_context_free_at) qb_context *context = NULL;
    qb_status status = seconds && in && out ? qb_context_create(cx, engine, &context) : cx->code;
    const void *inputs[1] = {in};
    void *outputs[1] = {out};
    *gops = 0;
    for (int r = 0; r < REPEAT && status == QB_OK; r++) {
        memset(seconds, 0, (size_t)n * sizeof *seconds);
        status = qb_context_profile(cx, context, inputs, outputs, seconds);
        for (int32_t s = 0; s < n && status == QB_OK; s++) {
            qb_step_info info;
            qb_engine_step(engine, s, &info);
            if (info.flops > 0) *gops = fmax(*gops, info.flops / seconds[s] * 1e-9);
        }
    }
    return status;
}

static qb_status measure_ops(qb_ctx *cx, int threads, bool integer, double *gops) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    const qb_build_spec options = {.batch = 1, .threads = threads, .time_tactics = true};
    QB_TRY(make_graph(cx, integer, &graph));
    QB_TRY(qb_engine_build(cx, graph, &options, &engine));
    return fastest(cx, engine, gops);
}

/* Bytes read and written by a copy. */
static qb_status measure_memory(qb_ctx *cx, int threads, double *gbs) {
    const size_t bytes = (size_t)COPY_MIB << 20;
    char *from = qb_alloc_aligned(cx, 1, bytes), *to = qb_alloc_aligned(cx, 1, bytes);
    double best = INFINITY;
    for (int r = 0; r <= REPEAT && from && to; r++) { /* the first one brings the pages in */
        const double start = qb_now();
#pragma omp parallel for num_threads(threads)
        for (int t = 0; t < threads; t++) {
            const size_t first = bytes / (size_t)threads * (size_t)t;
            memcpy(to + first, from + first, bytes / (size_t)threads);
        }
        if (r > 0) best = fmin(best, qb_now() - start);
    }
    *gbs = 2.0 * (double)bytes / best * 1e-9;
    const bool done = from && to;
    QB_FREE_ALL(from, to);
    return done ? QB_OK : cx->code;
}

qb_status qb_ceilings_measure(qb_ctx *cx, int threads, qb_ceilings *out) {
    qb_ceilings c;
    QB_TRY(measure_ops(cx, threads, false, &c.f32_gops));
    QB_TRY(measure_ops(cx, threads, true, &c.s8_gops));
    QB_TRY(measure_memory(cx, threads, &c.memory_gbs));
    *out = c;
    return QB_OK;
}
