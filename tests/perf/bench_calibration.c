/* What calibration costs beside FP32 inference over the same samples.
 *
 *   bench_calibration MODEL.onnx DATA SAMPLES ROUNDS > result.json
 *
 * Each round takes turns: decode (the samples alone), fp32 (an FP32 engine scores them), extremes
 * (an observer that keeps least and largest values only), minmax and all (statistics as `qbench
 * calibrate` gathers them, then ranges by one method and by all). The shortest wall time and the
 * least processor time of the rounds count. `choose` is the part of `all` after the last sample. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/pipeline.h"
#include "stream/stream.h"

#define LANES 16

typedef struct bench {
    qb_ctx *cx;
    qb_project project;
    qb_graph *graph;
    qb_dataset *dataset;
    qb_loader_options loader;
    float sink; /* keeps the compiler from leaving work out */
    double choose;
} bench;

static const char *const methods[] = {"minmax",
                                      "moving-average",
                                      "percentile:99.99",
                                      "percentile:99.99:one-sided",
                                      "entropy",
                                      "entropy:nvidia",
                                      "entropy:ort",
                                      "entropy:ncnn",
                                      "entropy:ppq",
                                      "mse",
                                      "mse:symmetric",
                                      "aciq",
                                      "lp",
                                      "auto"};
enum { N_METHODS = sizeof methods / sizeof methods[0] };

/* ---- the parts ---- */

static qb_status decode(bench *b) {
    qb_loader *loader;
    qb_batch batch;
    int32_t n = 1;
    qb_status status = QB_OK;
    QB_TRY(qb_loader_create(b->cx, &b->loader, &loader));
    while (status == QB_OK && n > 0) {
        status = qb_loader_next(b->cx, loader, &batch);
        if (status != QB_OK) break;
        n = batch.n;
        qb_loader_give_back(loader, &batch);
    }
    qb_loader_free(loader);
    return status;
}

static qb_status run_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    (void)user;
    void *outputs[QB_INPUTS_MAX] = {NULL}; /* are not copied out, as in calibration */
    return qb_context_run(cx, sample->context[0], sample->inputs, outputs);
}

static qb_status keep_extremes(qb_ctx *cx, void *user, int32_t observed, const char *name,
                               const qb_tensor *tensor) {
    (void)cx;
    (void)observed;
    (void)name;
    const float *value = tensor->data;
    const size_t n = qb_desc_bytes(&tensor->desc) / sizeof *value / LANES * LANES;
    float low[LANES] = {0}, high[LANES] = {0}, *least = user;
    if (tensor->desc.dtype != QB_DTYPE_F32) return QB_OK;
    for (size_t i = 0; i < n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            low[k] = value[i + k] < low[k] ? value[i + k] : low[k];
            high[k] = value[i + k] > high[k] ? value[i + k] : high[k];
        }
    for (size_t k = 0; k < LANES; k++) *least += low[k] + high[k];
    return QB_OK;
}

static qb_status observe_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    void *outputs[QB_INPUTS_MAX] = {NULL};
    float *sum = (float *)user + sample->worker * LANES;
    return qb_context_observe(cx, sample->context[0], sample->inputs, outputs, keep_extremes, sum);
}

static qb_status stream(bench *b, qb_sample_fn on_sample, bool observable, void *user) {
    const qb_stream_model model = {.graph = b->graph, .spec.observable = observable};
    const qb_stream_options options = {.model = &model,
                                       .n_models = 1,
                                       .loader = &b->loader,
                                       .workers = qb_threads(b->cx),
                                       .label = "run",
                                       .sample = on_sample,
                                       .user = user};
    qb_stream_result result;
    return qb_stream(b->cx, &options, &result);
}

static qb_status fp32(bench *b) { return stream(b, run_sample, false, NULL); }

static qb_status extremes(bench *b) {
    float *sum = qb_alloc(b->cx, (size_t)qb_threads(b->cx) * LANES, sizeof *sum);
    if (!sum) return b->cx->code;
    qb_status status = stream(b, observe_sample, true, sum);
    b->sink += sum[0];
    qb_free(sum);
    return status;
}

static qb_status calibrate(bench *b, int n_methods) {
    qb_method_choice choice[N_METHODS];
    const qb_calib_options options = {.loader = b->loader};
    qb_table *table;
    for (int i = 0; i < n_methods; i++) QB_TRY(qb_method_parse(b->cx, methods[i], &choice[i]));
    QB_TRY(qb_calib_gather(b->cx, b->graph, &options, &table));
    const double start = qb_now();
    qb_status status = qb_calib_finish(b->cx, table, choice, n_methods);
    b->choose = qb_now() - start;
    qb_table_free(table);
    return status;
}

static qb_status minmax(bench *b) { return calibrate(b, 1); }
static qb_status all(bench *b) { return calibrate(b, N_METHODS); }

static const struct {
    const char *name;
    qb_status (*run)(bench *b);
} parts[] = {
    {"decode", decode}, {"fp32", fp32}, {"extremes", extremes}, {"minmax", minmax}, {"all", all}};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

/* ---- measuring ---- */

typedef struct cost {
    double wall, processor; /* seconds; the least of the rounds */
} cost;

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static qb_status measure(bench *b, int rounds, cost least[N_PARTS], double *choose) {
    *choose = INFINITY;
    for (int p = 0; p < N_PARTS; p++) least[p] = (cost){INFINITY, INFINITY};
    for (int round = 0; round < rounds; round++)
        for (int p = 0; p < N_PARTS; p++) {
            const double wall = qb_now(), processor = processor_time();
            QB_TRY(parts[p].run(b));
            least[p].wall = fmin(least[p].wall, qb_now() - wall);
            least[p].processor = fmin(least[p].processor, processor_time() - processor);
            if (parts[p].run == all) *choose = fmin(*choose, b->choose);
        }
    return QB_OK;
}

static void report(const bench *b, const cost c[N_PARTS], double choose) {
    enum { DECODE, FP32, EXTREMES, MINMAX, ALL };
    printf("{\"model\": \"%s\", \"samples\": %lld, \"threads\": %d, \"methods\": %d",
           qb_path_base(b->project.model), (long long)qb_dataset_count(b->dataset),
           qb_threads(b->cx), N_METHODS);
    for (int p = 0; p < N_PARTS; p++)
        printf(", \"%s_s\": %.4f, \"%s_processor_s\": %.4f", parts[p].name, c[p].wall,
               parts[p].name, c[p].processor);
    printf(", \"choose_s\": %.4f, \"calibrate_to_fp32\": %.3f, \"observers_to_inference\": %.3f, "
           "\"all_to_minmax\": %.3f, \"all_to_extremes\": %.3f, \"peak_mib\": %.1f}\n",
           choose, c[ALL].wall / c[FP32].wall,
           (c[MINMAX].processor - c[FP32].processor) / (c[FP32].processor - c[DECODE].processor),
           c[ALL].wall / c[MINMAX].wall, c[ALL].wall / c[EXTREMES].wall,
           (double)qb_peak_rss() / 0x1p20);
}

static qb_status run(bench *b, int argc, char **argv) {
    static const qb_common none = {0};
    if (argc != 5)
        return qb_fail(b->cx, QB_STATUS_USAGE,
                       "usage: bench_calibration MODEL DATA SAMPLES ROUNDS");
    const qb_project_flags flags = {
        .model = argv[1], .data = argv[2], .samples = atoll(argv[3]), .samples_given = true};
    cost least[N_PARTS];
    double choose;
    QB_TRY(qb_project_open(b->cx, &none, &flags, true, &b->project));
    QB_TRY(qb_stage_load(b->cx, &b->project, NULL, &b->graph, NULL));
    QB_TRY(qb_stage_data(b->cx, &b->project, b->graph, argv[2], (qb_split){0}, &b->dataset,
                         &b->loader));
    QB_TRY(measure(b, atoi(argv[4]), least, &choose));
    report(b, least, choose);
    return QB_OK;
}

int main(int argc, char **argv) {
    static qb_ctx cx;
    qb_ctx_init(&cx);
    bench b = {.cx = &cx};
    qb_status status = run(&b, argc, argv);
    qb_dataset_close(b.dataset);
    qb_graph_free(b.graph);
    qb_project_close(&b.project);
    if (status != QB_OK) fprintf(stderr, "bench_calibration: %s\n", cx.message);
    return status == QB_OK ? 0 : status == QB_STATUS_USAGE ? 2 : 1;
}
