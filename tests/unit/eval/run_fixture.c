#include "run_fixture.h"

#include <math.h>

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
        row->latency = (qb_latency){100, 5, 4, 6, 7, 8, 3, 9, 0.125};
        if (i) row->latency.median = 1.6;
        row->throughput = 200;
        row->batch = 8;
        row->weights_bytes = 1000;
        row->arena_bytes = 2000;
        row->engine_bytes = 3000;
        row->layers_int8 = i * 26;
        row->layers_fp32 = 26 - i * 26;
    }
    return run;
}
