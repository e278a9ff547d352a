/* qb_compare: accuracy of all engines in one pass over the data, then latency in alternating
 * rounds. */
#include <string.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "eval/bench.h"
#include "eval/compare_internal.h"
#include "eval/layers.h"

/* ---- accuracy ---- */

typedef struct scored {
    qb_graph **graph; /* with logits exposed */
    qb_stream_model *model;
    int32_t *logits;
} scored;

static void scored_release(scored *s, int32_t n) {
    for (int32_t i = 0; s->graph && i < n; i++) qb_graph_free(s->graph[i]);
    qb_free(s->graph);
    qb_free(s->model);
    qb_free(s->logits);
}

static qb_status scored_prepare(qb_ctx *cx, const qb_compare_options *o, scored *s) {
    const size_t n = (size_t)o->n_contenders;
    s->graph = qb_alloc(cx, n, sizeof *s->graph);
    s->model = qb_alloc(cx, n, sizeof *s->model);
    s->logits = qb_alloc(cx, n, sizeof *s->logits);
    if (!s->graph || !s->model || !s->logits) return cx->code;
    bool files = false;
    for (int32_t i = 0; i < o->n_contenders; i++) files = files || o->contender[i].file;
    if (files)
        qb_info(cx, "with an engine file: outputs are compared as they are, after a Softmax");
    for (int32_t i = 0; i < o->n_contenders; i++) {
        const qb_contender *c = &o->contender[i];
        QB_TRY(files ? qb_expose_output(cx, c->graph, &s->graph[i], &s->logits[i])
                     : qb_expose_logits(cx, c->graph, &s->graph[i], &s->logits[i]));
        s->model[i] = (qb_stream_model){.graph = s->graph[i],
                                        .file = c->file,
                                        .backends = c->backends,
                                        .devices = c->devices,
                                        .float_type = c->float_type,
                                        .timing_cache = c->timing_cache,
                                        .tf32 = c->tf32,
                                        .without = c->without,
                                        .no_mixing = true, /* not what timing found this time */
                                        .name = c->precision};
    }
    return QB_OK;
}

static qb_status measure_accuracy(qb_ctx *cx, const qb_compare_options *o, qb_run *run) {
    scored s = {0};
    qb_answers answers = {0};
    qb_status status = QB_OK;
    QB_GO(scored_prepare(cx, o, &s));
    const int32_t workers = o->workers > 0 ? o->workers : qb_threads(cx);
    QB_GO(qb_answers_collect(cx, s.model, s.logits, o->n_contenders, &o->loader, workers, 0,
                             o->targets, &answers));
    QB_GO(qb_score_fill(cx, o, &answers, run));
    QB_GO(qb_thumbnails_fill(cx, o->loader.dataset, o->thumbnail, run));
out:
    qb_answers_release(&answers);
    scored_release(&s, o->n_contenders);
    return status;
}

/* ---- environment ---- */

static qb_status fill_environment(qb_ctx *cx, const qb_compare_options *o, qb_run *run) {
    struct utsname os;
    const bool known = uname(&os) == 0;
    run->version = qb_strdup(cx, QB_VERSION);
    run->cpu = qb_processor_name(cx);
    run->host_os = qb_format(cx, "%s %s", known ? os.sysname : "unknown", known ? os.release : "");
    run->libraries = qb_engine_libraries(cx);
    if (!run->version || !run->cpu || !run->host_os || !run->libraries) return cx->code;
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_run_row *row = &run->row[i];
        row->precision = qb_strdup(cx, o->contender[i].precision);
        row->calibration = qb_strdup(cx, o->contender[i].calibration);
        row->backend = qb_backends_name(cx, o->contender[i].backends);
        if (!row->precision || !row->calibration || !row->backend) return cx->code;
    }
    return QB_OK;
}

/* Rows that are float have no layers to look at; values of samples of several shapes do not add up
 * to layers. */
static qb_status measure_layers(qb_ctx *cx, const qb_compare_options *o, qb_run *run) {
    const int32_t workers = o->workers > 0 ? o->workers : qb_threads(cx);
    for (int32_t i = 1; i < run->n_rows && o->layers; i++) {
        if (o->contender[i].file) continue; /* values inside it are not to be seen */
        const qb_status status = qb_layers_measure(cx, &o->contender[0], &o->contender[i],
                                                   &o->loader, workers, &run->row[i]);
        if (status == QB_STATUS_MISMATCH) {
            qb_warn(cx, "--layers needs samples of one shape: %s", cx->message);
            qb_ctx_clear(cx);
        } else {
            QB_TRY(status);
        }
    }
    return QB_OK;
}

qb_status qb_compare(qb_ctx *cx, const qb_compare_options *options, qb_run **out) {
    qb_compare_options o = *options;
    if (o.batch < 1) o.batch = 1;
    qb_run *run;
    QB_TRY(qb_run_create(cx, o.n_contenders, &run));
    qb_status status = fill_environment(cx, &o, run);
    if (status == QB_OK) status = measure_accuracy(cx, &o, run);
    if (status == QB_OK) status = measure_layers(cx, &o, run);
    if (status == QB_OK) status = qb_timing_fill(cx, &o, run);
    if (status == QB_OK && o.layers) status = qb_ceilings_measure(cx, run->threads, &run->ceilings);
    if (status == QB_OK)
        *out = run;
    else
        qb_run_free(run);
    return status;
}
