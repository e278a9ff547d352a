#include "run_fixture.h"

#include <math.h>

/* Lists with one entry each, every field filled. */
static bool fill_lists(qb_ctx *cx, qb_run_row *row) {
    row->paired = (qb_paired){300, 8, 3, 189, 0.2266, {-0.3, 2.4}};
    row->metric = qb_alloc(cx, 1, sizeof *row->metric);
    row->recall = qb_alloc(cx, 1, sizeof *row->recall);
    row->confusion = qb_alloc(cx, 1, sizeof *row->confusion);
    row->worst = qb_alloc(cx, 1, sizeof *row->worst);
    row->layer = qb_alloc(cx, 1, sizeof *row->layer);
    row->step = qb_alloc(cx, 1, sizeof *row->step);
    row->batches = qb_alloc(cx, 1, sizeof *row->batches);
    row->round = qb_alloc(cx, 2, sizeof *row->round);
    if (!row->metric || !row->recall || !row->confusion || !row->worst || !row->layer ||
        !row->step || !row->batches || !row->round)
        return false;
    row->n_metrics = row->n_recall = row->n_confusion = row->n_worst = 1;
    row->n_layers = row->n_steps = row->n_batches = 1;
    row->n_rounds = 2;
    row->metric[0] = (qb_run_metric){.name = qb_strdup(cx, "top1"),
                                     .title = qb_strdup(cx, "top-1"),
                                     .unit = qb_strdup(cx, "%"),
                                     .definition = qb_strdup(cx, "right samples"),
                                     .value = row->top1,
                                     .ci = {row->top1 - 4, row->top1 + 4}};
    row->recall[0] = (qb_run_recall){7, 5, 4};
    row->confusion[0] = (qb_run_confusion){7, 9, 1};
    row->worst[0] = (qb_run_worst){.answer = 9, .reference_answer = 7, .sqnr_db = INFINITY};
    row->layer[0] = (qb_run_layer){.name = qb_strdup(cx, "conv1"),
                                   .op = qb_strdup(cx, "Conv+Relu"),
                                   .value = qb_strdup(cx, "y"),
                                   .precision = qb_strdup(cx, "s8"),
                                   .own_db = 40,
                                   .total_db = 35,
                                   .saturated = 0.5,
                                   .range_hi = 6,
                                   .seen_hi = 7,
                                   .unused_codes = -1,
                                   .share = 12};
    row->step[0] = (qb_run_step){.name = qb_strdup(cx, "conv1"),
                                 .op = qb_strdup(cx, "Conv+Relu"),
                                 .tactic = qb_strdup(cx, "cpu.conv"),
                                 .dtype = qb_strdup(cx, "s8"),
                                 .ms = 0.25,
                                 .flops = 1e6,
                                 .bytes = 1e4};
    row->batches[0] = (qb_run_batch){32, 9, 3555};
    row->round[0] = 1.5;
    row->round[1] = 1.75;
    return true;
}

qb_run *run_fixture(qb_ctx *cx) {
    qb_run *run;
    if (qb_run_create(cx, 2, &run) != QB_OK) return NULL;
    run->model = qb_strdup(cx, "net \"x\".onnx");
    run->dataset = qb_strdup(cx, "val/");
    run->version = qb_strdup(cx, "0.1.0");
    run->cpu = qb_strdup(cx, "a processor");
    run->host_os = qb_strdup(cx, "Linux 6");
    run->libraries = qb_strdup(cx, "oneDNN 2.6.3");
    run->samples = 500;
    run->skipped = 2;
    run->threads = 2;
    run->model_hash = qb_hash_bytes("model", 5);
    run->data_hash = qb_hash_bytes("data", 4);
    for (int i = 0; i < 2; i++) {
        qb_run_row *row = &run->row[i];
        row->precision = qb_strdup(cx, i ? "int8" : "fp32");
        row->backend = qb_strdup(cx, "cpu");
        row->calibration = qb_strdup(cx, i ? "entropy" : "");
        row->top1 = i ? 60.5 : 61.5;
        row->top5 = i ? NAN : 82.25;
        row->agreement_top1 = i ? 94.0 : 100;
        row->sqnr_db = i ? 31.0 : INFINITY;
        row->drop = i ? 1.0 : 0;
        row->speedup = i ? 2.5 : 1;
        row->latency = (qb_latency){.runs = 100,
                                    .mean = 5,
                                    .median = i ? 1.6 : 4,
                                    .p90 = 6,
                                    .p95 = 7,
                                    .p99 = 8,
                                    .min = 3,
                                    .max = 9,
                                    .cv = 0.125,
                                    .median_ci = {i ? 1.5 : 3.9, i ? 1.7 : 4.1},
                                    .ratio_ci = {i ? 0.37 : 1, i ? 0.43 : 1}};
        row->throughput = 200;
        row->batch = 8;
        row->weights_bytes = 1000;
        row->arena_bytes = 2000;
        row->engine_bytes = 3000;
        row->layers.int8 = i * 26;
        row->layers.fp32 = 26 - i * 26;
        if (!fill_lists(cx, row)) return NULL;
    }
    run->class_name = qb_alloc(cx, 1, sizeof *run->class_name);
    run->shown = qb_alloc(cx, 1, sizeof *run->shown);
    if (!run->class_name || !run->shown) return NULL;
    run->n_classes = run->n_shown = 1;
    run->class_name[0] = (qb_run_class){7, qb_strdup(cx, "horse")};
    run->shown[0] = (qb_run_shown){.index = 3,
                                   .label = 7,
                                   .name = qb_strdup(cx, "a.png"),
                                   .thumbnail = qb_strdup(cx, "iVBOR")};
    run->ceilings.f32_gops = 100;
    return run;
}
