#include "quant/recover/recover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "calib/holdout.h"
#include "quant/recover/recover_internal.h"

#define QB_RECOVERY(name) extern const qb_recovery qb_recovery_##name;
#include "quant/recover.def"

static const qb_recovery *const known[] = {
#define QB_RECOVERY(name) &qb_recovery_##name,
#include "quant/recover.def"
};
#define MOST_KEPT ((size_t)1 << 30) /* constants of a model whose progress is kept */
enum { LAYER_SAMPLES = 32 };        /* that tell what each layer gained */
enum { N_KNOWN = sizeof known / sizeof known[0] };
_Static_assert(sizeof known / sizeof known[0] <= QB_RECOVER_STEPS, "room for all steps");

/* ---- the list ---- */

static bool names(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; at && *at;) {
        const size_t n = strcspn(at, ",");
        if (n == length && strncmp(at, name, n) == 0) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

qb_status qb_recover_check(qb_ctx *cx, const char *list) {
    for (const char *at = list; at && *at;) {
        const size_t n = strcspn(at, ",");
        bool found = false;
        for (int32_t i = 0; i < N_KNOWN; i++)
            found = found || (strlen(known[i]->name) == n && strncmp(at, known[i]->name, n) == 0);
        if (!found) {
            QB_RELEASED(qb_strbuf_release) qb_strbuf all = {0};
            for (int32_t i = 0; i < N_KNOWN; i++)
                qb_strbuf_addf(&all, "%s%s", i ? ", " : "", known[i]->name);
            return qb_fail(cx, QB_STATUS_USAGE, "recover: unknown '%.*s': expected some of %s",
                           (int)n, at, all.data ? all.data : "the known ones");
        }
        at += n + (at[n] == ',');
    }
    return QB_OK;
}

/* ---- scores ---- */

qb_status qb_recover_quantize(qb_ctx *cx, const qb_recover_state *state, qb_graph **out) {
    qb_quant_options options = *state->options->quant;
    options.method = state->table->method[state->method];
    return qb_quantize(cx, state->graph, state->table, &options, out, NULL);
}

static qb_status score(qb_ctx *cx, const qb_recover_state *state, const qb_graph *original,
                       const qb_calib_options *calibration, qb_graph_score *out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *quantized = NULL;
    QB_TRY(qb_recover_quantize(cx, state, &quantized));
    return state->options->score(cx, original, quantized, calibration, out);
}

bool qb_recover_is_less(const double *now, const double *before, int64_t n, double errors) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const double gain = before[i] - now[i];
        sum += gain;
        squares += gain * gain;
    }
    const double mean = sum / (double)n;
    return sum > errors * sqrt((double)n * fmax(0, squares / (double)n - mean * mean));
}

static bool is_better(const qb_graph_score *now, const qb_graph_score *before) {
    if (isnan(before->sqnr_db)) return !isnan(now->sqnr_db);
    if (isnan(now->sqnr_db) || now->samples != before->samples) return false;
    return qb_recover_is_less(now->err_square, before->err_square, now->samples, 1);
}

/* ---- one step ---- */

static qb_status calibrate(qb_ctx *cx, qb_recover_state *state, const qb_calib_options *options) {
    qb_table *table;
    QB_TRY(qb_calibrate(cx, state->graph, options, &table));
    qb_table_free(state->table);
    state->table = table;
    state->method = 0;
    if (state->options->method) state->method = qb_table_method(table, state->options->method);
    if (state->method >= 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "the calibration has no ranges by method '%s'",
                   state->options->method);
}

static qb_status take_reference(qb_ctx *cx, qb_recover_state *state) {
    qb_graph *copy;
    QB_TRY(qb_graph_clone(cx, state->graph, &copy));
    qb_graph_free(state->reference);
    state->reference = copy;
    return QB_OK;
}

static void state_release(qb_recover_state *state) {
    qb_graph_free(state->graph);
    qb_graph_free(state->reference);
    qb_table_free(state->table);
}

static qb_status copy_table(qb_ctx *cx, const qb_table *table, qb_table **out) {
    QB_FREED uint8_t *bytes = NULL;
    size_t size;
    QB_TRY(qb_table_write(cx, table, &bytes, &size));
    return qb_table_parse(cx, "ranges", bytes, size, out);
}

/* A copy to try a step on. */
static qb_status fork_state(qb_ctx *cx, const qb_recover_state *from, qb_recover_state *to) {
    *to = *from;
    to->graph = to->reference = NULL;
    to->table = NULL;
    qb_status status = qb_graph_clone(cx, from->graph, &to->graph);
    if (status == QB_OK) status = qb_graph_clone(cx, from->reference, &to->reference);
    if (status == QB_OK) status = copy_table(cx, from->table, &to->table);
    if (status != QB_OK) state_release(to);
    return status;
}

static qb_status run_step(qb_ctx *cx, qb_recover_state *state, const qb_calib_options *calibration,
                          qb_recover_step *step) {
    QB_TRY(step->recovery->run(cx, state, &step->changed));
    if (step->changed == 0 || step->recovery->phase != QB_RECOVER_VALUES) return QB_OK;
    QB_TRY(qb_graph_sweep(cx, state->graph));
    QB_TRY(calibrate(cx, state, calibration));
    return take_reference(cx, state);
}

/* Is what a step led to taken: measured better, or asked for by name? */
static bool is_kept(const qb_recover_state *state, const qb_recover_step *step,
                    const qb_graph_score *now, const qb_graph_score *best, bool measured) {
    if (step->changed == 0) return false;
    return state->options->list || !measured || is_better(now, best);
}

/* ---- what a step led to, on disk ---- */

/* The bytes of the graph's file: new memory of the C library. */
static qb_status graph_bytes(qb_ctx *cx, const qb_graph *graph, char **bytes, size_t *size) {
    FILE *stream = open_memstream(bytes, size);
    if (!stream) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    const qb_status status = qb_onnx_write(cx, graph, stream);
    if (fclose(stream) == 0 && status == QB_OK) return QB_OK;
    free(*bytes);
    return status == QB_OK ? qb_fail(cx, QB_STATUS_NOMEM, "out of memory") : status;
}

static void pack_graph(qb_pack *p, qb_graph **graph) {
    char *bytes = NULL;
    size_t size = 0;
    if (p->status == QB_OK && !p->reads) p->status = graph_bytes(p->cx, *graph, &bytes, &size);
    int64_t n = (int64_t)size;
    void *list = bytes;
    qb_pack_list(p, &list, &n, 1);
    if (!p->reads) {
        free(bytes);
    } else {
        if (p->status == QB_OK)
            p->status = qb_onnx_parse(p->cx, p->name, NULL, list, (size_t)n, graph);
        qb_free(list);
    }
}

static void pack_table(qb_pack *p, qb_table **table) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (p->status == QB_OK && !p->reads) p->status = qb_table_write(p->cx, *table, &bytes, &size);
    int64_t n = (int64_t)size;
    void *list = bytes;
    qb_pack_list(p, &list, &n, 1);
    if (p->status == QB_OK && p->reads)
        p->status = qb_table_parse(p->cx, p->name, list, (size_t)n, table);
    qb_free(list);
}

/* What a step led to; of the state only where it is kept. */
static void pack_trial(qb_pack *p, qb_recover_state *trial, qb_graph_score *now,
                       qb_recover_step *step) {
    void *errors = now->err_square;
    int64_t n = errors ? now->samples : 0;
    QB_PACK(p, step->changed);
    QB_PACK(p, step->sqnr_db);
    QB_PACK(p, step->agreement);
    QB_PACK(p, step->seconds);
    qb_pack_bool(p, &step->kept);
    if (!step->kept) return;
    qb_pack_list(p, &errors, &n, sizeof *now->err_square);
    *now = (qb_graph_score){step->sqnr_db, step->agreement, n, errors};
    QB_PACK(p, trial->method);
    pack_graph(p, &trial->graph);
    pack_graph(p, &trial->reference);
    pack_table(p, &trial->table);
}

/* ---- a step that is tried ---- */

static qb_status run_trial(qb_ctx *cx, qb_recover_state *trial, const qb_graph *original,
                           const qb_calib_options *calibration, bool keep,
                           const qb_graph_score *best, qb_graph_score *now, qb_recover_step *step) {
    const double start = qb_now();
    const bool measured = calibration->hold_back > 0;
    QB_TRY(run_step(cx, trial, calibration, step));
    if (step->changed > 0 && measured) QB_TRY(score(cx, trial, original, calibration, now));
    step->sqnr_db = now->sqnr_db;
    step->agreement = now->agreement;
    step->kept = step->changed > 0 && (keep || is_kept(trial, step, now, best, measured));
    step->seconds = qb_now() - start;
    if (!trial->trials->path) return QB_OK;
    qb_pack record = {.cx = cx};
    pack_trial(&record, trial, now, step);
    const qb_status status = qb_trials_add(cx, trial->trials, &record);
    qb_strbuf_release(&record.out);
    return status;
}

/* The same from what an earlier run has kept. */
static qb_status read_trial(qb_pack *record, const qb_recover_state *from, qb_recover_state *trial,
                            qb_graph_score *now, qb_recover_step *step) {
    *trial = *from;
    trial->graph = trial->reference = NULL;
    trial->table = NULL;
    pack_trial(record, trial, now, step);
    QB_TRY(qb_pack_end(record));
    if (step->kept) trial->graph->hash = trial->reference->hash = from->graph->hash;
    return QB_OK;
}

/* A step on a copy that takes the state's place where it is kept. */
static qb_status try_step(qb_ctx *cx, qb_recover_state *state, const qb_graph *original,
                          const qb_calib_options *calibration, bool keep, qb_graph_score *best,
                          qb_recover_step *step) {
    qb_recover_state trial = {0};
    qb_graph_score now = {.sqnr_db = NAN, .agreement = NAN};
    qb_pack record;
    qb_status status;
    if (qb_trials_next(cx, state->trials, &record)) {
        status = read_trial(&record, state, &trial, &now, step);
    } else {
        status = fork_state(cx, state, &trial);
        if (status == QB_OK)
            status = run_trial(cx, &trial, original, calibration, keep, best, &now, step);
    }
    if (status == QB_OK && step->kept) {
        state_release(state);
        *state = trial;
        qb_free(best->err_square);
        *best = now;
    } else {
        state_release(&trial);
        qb_free(now.err_square);
    }
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s", step->recovery->name);
}

enum { SCORE_TEXT = 80 };

/* "38.60 dB, agreement 97.00 %"; without the latter where the output has no classes. */
static const char *score_text(double sqnr_db, double agreement, char text[SCORE_TEXT]) {
    const int n = snprintf(text, SCORE_TEXT, "%.2f dB", sqnr_db);
    if (!isnan(agreement))
        snprintf(text + n, SCORE_TEXT - (size_t)n, ", agreement %.2f %%", agreement);
    return text;
}

static void tell(qb_ctx *cx, const qb_recover_step *step) {
    char text[SCORE_TEXT];
    if (step->changed == 0)
        qb_info(cx, "recover: %s: nothing to do here", step->recovery->name);
    else if (isnan(step->sqnr_db))
        qb_info(cx, "recover: %s: %d layers, %.1f s", step->recovery->name, step->changed,
                step->seconds);
    else
        qb_info(cx, "recover: %s: %d layers, %s, %s, %.1f s", step->recovery->name, step->changed,
                score_text(step->sqnr_db, step->agreement, text), step->kept ? "kept" : "left out",
                step->seconds);
}

/* ---- all of them ---- */

/* The table's ranges by the method that they were fitted for, alone. */
static void keep_method(qb_table *table, int32_t method) {
    for (int32_t i = 0; i < table->n_entries; i++)
        table->entry[i].range[0] = table->entry[i].range[method];
    if (method > 0) memcpy(table->method[0], table->method[method], sizeof table->method[0]);
    for (int32_t m = 1; m < table->n_methods; m++)
        memset(table->method[m], 0, sizeof table->method[m]);
    table->n_methods = 1;
}

/* One way through the steps: those that change values (or none of them), then those of layers, each
 * kept where it helps. */
typedef struct way {
    qb_recover_state state;
    qb_graph_score score;
    qb_recover_step step[QB_RECOVER_STEPS];
    int32_t n_steps;
} way;

static void way_release(way *w) {
    state_release(&w->state);
    qb_free(w->score.err_square);
    *w = (way){0};
}

static qb_status go(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *calibration,
                    qb_recover_phase phase, way *w) {
    for (int32_t i = 0; i < N_KNOWN; i++) {
        const char *list = w->state.options->list;
        const bool wanted = list ? names(list, known[i]->name) : !known[i]->optional;
        if (!wanted || known[i]->phase != phase) continue;
        qb_recover_step *step = &w->step[w->n_steps];
        *step = (qb_recover_step){.recovery = known[i]};
        QB_TRY(try_step(cx, &w->state, graph, calibration, phase == QB_RECOVER_VALUES, &w->score,
                        step));
        tell(cx, step);
        w->n_steps++;
    }
    return QB_OK;
}

static qb_status copy_score(qb_ctx *cx, const qb_graph_score *from, qb_graph_score *to) {
    *to = *from;
    to->err_square = qb_alloc(cx, (size_t)from->samples + 1, sizeof *to->err_square);
    if (!to->err_square) return cx->code;
    if (from->err_square)
        memcpy(to->err_square, from->err_square, (size_t)from->samples * sizeof *to->err_square);
    return QB_OK;
}

static bool has_changed(const way *w) {
    for (int32_t i = 0; i < w->n_steps; i++)
        if (w->step[i].changed > 0) return true;
    return false;
}

/* What changes values shows its worth behind bias correction only: other ranges shift other means.
 * So the way through the layers is gone with those steps and without them, and the better end stays
 * in `w`. */
static qb_status without_values(qb_ctx *cx, const qb_graph *graph,
                                const qb_calib_options *calibration, way *w, way *without) {
    const int32_t n = w->n_steps;
    for (int32_t i = 0; i < n; i++)
        if (w->step[i].recovery->phase == QB_RECOVER_VALUES) {
            without->step[without->n_steps] = w->step[i];
            without->step[without->n_steps++].kept = false;
        }
    qb_info(cx, "recover: the same without what changes values");
    QB_TRY(go(cx, graph, calibration, QB_RECOVER_LAYERS, without));
    if (is_better(&w->score, &without->score)) return QB_OK;
    const way better = *without;
    *without = *w;
    *w = better;
    return QB_OK;
}

static qb_status run_all(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *calibration,
                         way *w, way *without) {
    const bool judges = calibration->hold_back > 0 && !w->state.options->list;
    if (judges) {
        QB_TRY(copy_score(cx, &w->score, &without->score));
        QB_TRY(fork_state(cx, &w->state, &without->state));
    }
    QB_TRY(go(cx, graph, calibration, QB_RECOVER_VALUES, w));
    const bool changed = has_changed(w);
    QB_TRY(go(cx, graph, calibration, QB_RECOVER_LAYERS, w));
    if (judges && changed) QB_TRY(without_values(cx, graph, calibration, w, without));
    return go(cx, graph, calibration, QB_RECOVER_OUTPUT, w);
}

static void report(const way *w, qb_recovered *out) {
    out->sqnr_after_db = w->score.sqnr_db;
    out->agreement_after = w->score.agreement;
    out->n_steps = w->n_steps;
    memcpy(out->step, w->step, sizeof out->step);
}

/* Layer by layer, on some of the samples that are held back. */
static qb_status add_layers(qb_ctx *cx, const qb_graph *graph, const qb_graph *before,
                            const qb_recover_state *state, const qb_calib_options *calibration,
                            qb_recovered *out) {
    QB_RELEASED(qb_samples_release) qb_samples samples = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *after = NULL;
    QB_TRY(qb_samples_load(cx, &calibration->loader, calibration->hold_back, true, LAYER_SAMPLES,
                           QB_RECOVER_MEMORY / 4, &samples));
    QB_TRY(qb_recover_quantize(cx, state, &after));
    const qb_graph_pair was = {graph, before}, is = {state->reference, after};
    return qb_layer_gains(cx, &was, &is, &samples, out);
}

/* Bytes of the constants: what is near to 2 GiB is no single file any more. */
static size_t constants_of(const qb_graph *graph) {
    size_t sum = 0;
    for (int32_t v = 0; v < graph->n_values; v++) sum += graph->values[v].bytes;
    return sum;
}

static void pack_words(qb_pack *p, const char *const *words) {
    for (; words && *words; words++) {
        char *word = (char *)(uintptr_t)*words; /* it is only read */
        qb_pack_text(p, &word);
    }
    qb_pack_text(p, &(char *){NULL});
}

/* What steps depend on: the model as it is optimized, its ranges and with them the data, and what
 * was asked for. */
static qb_status plan_of(qb_ctx *cx, const qb_recover_state *state, qb_hash *out) {
    const qb_recover_options *o = state->options;
    qb_pack p = {.cx = cx};
    qb_recover_state all = *state;
    char options[64];
    snprintf(options, sizeof options, "activations %d, per tensor %d", (int)o->quant->activations,
             (int)o->quant->per_tensor_weights);
    const char *const words[] = {options, o->list ? o->list : "what helps",
                                 o->quant->weights ? o->quant->weights->name : "the default", NULL};
    pack_words(&p, words);
    for (int32_t i = 0; i < N_KNOWN; i++) /* another qbench may have other ones */
        pack_words(&p, (const char *const[]){known[i]->name, NULL});
    pack_words(&p, o->quant->keep_float);
    pack_words(&p, o->quant->activations_16);
    pack_graph(&p, &all.graph);
    pack_table(&p, &all.table);
    QB_PACK(&p, all.method);
    const qb_status status = qb_pack_end(&p);
    *out = qb_hash_bytes(p.out.data, p.out.size);
    qb_strbuf_release(&p.out);
    return status;
}

qb_status qb_recover(qb_ctx *cx, const qb_graph *graph, const qb_recover_options *options,
                     qb_recovered *out) {
    qb_calib_options calibration = *options->calibration;
    const int64_t n = qb_dataset_count(calibration.loader.dataset);
    qb_samples samples = {0};
    qb_trials trials = {0};
    qb_hash plan;
    way with = {.state = {.options = options, .samples = &samples, .trials = &trials},
                .score = {.sqnr_db = NAN, .agreement = NAN}},
        without = {0};
    qb_recover_state *state = &with.state;
    qb_graph *before = NULL;
    qb_recovered result = {0};
    char text[SCORE_TEXT];
    qb_status status = QB_OK;
    calibration.hold_back = n < 2 * QB_HOLDOUT_EVERY ? 0 : QB_HOLDOUT_EVERY;
    calibration.checkpoint = NULL;
    calibration.resume = false;
    calibration.memory = NULL;
    QB_GO(qb_recover_check(cx, options->list));
    if (calibration.hold_back == 0)
        qb_warn(cx, "recover: %lld samples are too few to hold some back: nothing says what helps",
                (long long)n);
    QB_GO(qb_samples_load(cx, &calibration.loader, calibration.hold_back, false, QB_RECOVER_SAMPLES,
                          QB_RECOVER_MEMORY / 4, &samples));
    result.fitted = samples.n;
    QB_GO(qb_graph_clone(cx, graph, &state->graph));
    QB_GO(calibrate(cx, state, &calibration));
    QB_GO(take_reference(cx, state));
    QB_GO(qb_recover_quantize(cx, state, &before));
    if (calibration.hold_back > 0) QB_GO(score(cx, state, graph, &calibration, &with.score));
    result.held_back = with.score.samples;
    result.sqnr_db = with.score.sqnr_db;
    result.agreement = with.score.agreement;
    if (with.score.samples > 0)
        qb_info(cx, "recover: before: %s on %lld samples held back",
                score_text(result.sqnr_db, result.agreement, text), (long long)result.held_back);
    if (options->progress && constants_of(graph) < MOST_KEPT) {
        QB_GO(plan_of(cx, state, &plan));
        QB_GO(qb_trials_open(cx, options->progress, plan, options->resume, &trials));
    }
    QB_GO(run_all(cx, graph, &calibration, &with, &without));
    report(&with, &result);
    if (calibration.hold_back > 0)
        QB_GO(add_layers(cx, graph, before, state, &calibration, &result));
    keep_method(state->table, state->method);
    result.graph = state->graph;
    result.unrounded = state->reference;
    result.table = state->table;
    state->graph = state->reference = NULL;
    state->table = NULL;
    *out = QB_MOVE(result);
out:
    qb_trials_close(&trials);
    qb_graph_free(before);
    way_release(&with);
    way_release(&without);
    qb_recovered_release(&result);
    qb_samples_release(&samples);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "recover");
}

void qb_recovered_release(qb_recovered *r) {
    for (int32_t i = 0; r->layer && i < r->n_layers; i++) qb_free(r->layer[i].name);
    qb_free(r->layer);
    qb_graph_free(r->graph);
    qb_graph_free(r->unrounded);
    qb_table_free(r->table);
    *r = (qb_recovered){0};
}
