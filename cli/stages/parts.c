/* Comparisons in parts: what each has to say of itself, and several processes as one. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "cli/settings/fingerprint.h"
#include "cli/stages/stages_internal.h"
#include "datasets/listed.h"
#include "eval/part.h"

/* ---- what must be the same in all parts ------------------------------------------------------ */

typedef struct facts {
    qb_ctx *cx;
    const qb_project *project;
    const qb_compare_settings *settings;
    const qb_candidates *candidates;
    const qb_loader_options *loader;
} facts;

static qb_status add_hashed(qb_ctx *cx, qb_part *part, const char *key, const char *what,
                            qb_hash hash) {
    char hex[33];
    qb_hash_hex(hash, hex);
    QB_FREED char *text = qb_format(cx, "%s %.12s", what, hex);
    return text ? qb_part_fact_add(cx, part, key, text) : cx->code;
}

/* The whole set, before a part of it is taken. */
static qb_status add_data(const facts *f, qb_part *part) {
    qb_hash digest;
    char what[64];
    const int64_t n = qb_dataset_count(f->loader->dataset);
    QB_TRY(qb_dataset_digest(f->cx, f->loader->dataset, &digest));
    snprintf(what, sizeof what, "%lld samples", (long long)n);
    if (n < part->shards)
        return qb_fail(f->cx, QB_STATUS_INVALID, "%d parts of %lld samples: a part would be empty",
                       (int)part->shards, (long long)n);
    return add_hashed(f->cx, part, "data", what, digest);
}

static void add_ranges(qb_hasher *hasher, const qb_table *table) {
    qb_hasher_update(hasher, table->data_hash.byte, sizeof(qb_hash));
    qb_hasher_string(hasher, table->preprocess ? table->preprocess : "");
    for (int32_t m = 0; m < table->n_methods; m++) qb_hasher_string(hasher, table->method[m]);
    for (int32_t i = 0; i < table->n_entries; i++) {
        qb_hasher_string(hasher, table->entry[i].name);
        qb_hasher_update(hasher, table->entry[i].range,
                         (size_t)table->n_methods * sizeof *table->entry[i].range);
    }
}

/* Each row by what it is made of: a file's content, or ranges and the data behind them. */
static qb_status add_rows(const facts *f, qb_part *part) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf names = {0};
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_FREED char *text = NULL;
    QB_TRY(qb_hasher_create(f->cx, &hasher));
    for (int32_t i = 0; i < f->candidates->n; i++) {
        const qb_candidate *c = &f->candidates->item[i];
        qb_strbuf_addf(&names, "%s%s", i ? ", " : "", c->precision);
        qb_hasher_string(hasher, c->calibration ? c->calibration : "");
        qb_hasher_update(hasher, c->graph->hash.byte, sizeof c->graph->hash.byte);
        if (c->file) QB_TRY(qb_fingerprint_content(f->cx, hasher, c->file));
    }
    /* Other ranges may be of the same data: by another preprocessing, or merged otherwise. */
    const qb_stage_source *const source[] = {&f->candidates->plain, &f->candidates->recovered};
    for (int k = 0; k < 2; k++)
        if (source[k]->table) add_ranges(hasher, source[k]->table);
    QB_TRY(qb_strbuf_take(f->cx, &names, &text));
    return add_hashed(f->cx, part, "rows", text, qb_hasher_digest(hasher));
}

/* What the sidecar and qbench.yaml say of the task, and options of the command line. */
static qb_status add_options(const facts *f, qb_part *part) {
    static const char *const section[] = {"task", "detection", "segmentation", "quantization",
                                          "fixed_inputs"};
    const qb_project *p = f->project;
    char options[512];
    QB_FREED char *sidecar = NULL;
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_TRY(qb_hasher_create(f->cx, &hasher));
    for (size_t i = 0; i < sizeof section / sizeof *section; i++)
        qb_fingerprint_section(hasher, p->config, section[i]);
    for (int32_t i = 0; i < p->labels.n; i++) qb_hasher_string(hasher, p->labels.name[i]);
    for (int i = 0; p->disabled[i]; i++) qb_hasher_string(hasher, p->disabled[i]);
    for (int i = 0; p->keep_float[i]; i++) qb_hasher_string(hasher, p->keep_float[i]);
    for (int i = 0; p->activations_16[i]; i++) qb_hasher_string(hasher, p->activations_16[i]);
    QB_TRY(qb_sidecar_find(f->cx, p->model, &sidecar));
    if (sidecar) QB_TRY(qb_fingerprint_content(f->cx, hasher, sidecar));
    snprintf(options, sizeof options,
             "task %s, batch %lld, thumbnails %lld, backends %s, activations %d, weights %s%s%s, "
             "settings",
             p->task.task ? p->task.task->name : "not told", (long long)p->batch,
             (long long)f->settings->thumbnail, p->spec.backends ? p->spec.backends : "default",
             (int)p->activations, p->per_tensor_weights ? "by tensor" : "by channel",
             p->targets ? ", targets " : "", p->targets ? qb_path_base(p->targets) : "");
    return add_hashed(f->cx, part, "options", options, qb_hasher_digest(hasher));
}

/* What the scored samples are held against once all of them are known. */
static qb_status add_calibration(const facts *f, qb_part *part) {
    const qb_candidates *c = f->candidates;
    const qb_table *table = c->plain.table ? c->plain.table : c->recovered.table;
    part->calibrated = qb_alloc(f->cx, (size_t)c->n + 1, sizeof *part->calibrated);
    if (!part->calibrated) return f->cx->code;
    part->n_calibrated = c->n + 1;
    for (int32_t i = 0; i < c->n; i++) part->calibrated[i + 1] = c->item[i].calibrated_on;
    if (!table) return QB_OK;
    part->calibrated[0] = table->data_hash;
    part->sample = table->sample;
    part->n_samples = table->sample ? table->samples : 0;
    return QB_OK;
}

static qb_status describe(const facts *f, qb_part *part) {
    char preparation[1024];
    QB_TRY(add_calibration(f, part));
    QB_TRY(qb_part_fact_add(f->cx, part, "version", QB_VERSION));
    QB_TRY(add_hashed(f->cx, part, "model", qb_path_base(f->project->model),
                      f->candidates->graph->hash));
    QB_TRY(add_data(f, part));
    QB_TRY(qb_part_fact_add(f->cx, part, "preparation",
                            qb_loader_text(f->loader, preparation, sizeof preparation)));
    QB_TRY(add_rows(f, part));
    return add_options(f, part);
}

qb_status qb_compare_take_part(qb_ctx *cx, const qb_project *project,
                               const qb_compare_settings *settings, const qb_candidates *c,
                               qb_dataset *dataset, qb_dataset *targets,
                               qb_compare_options *options) {
    qb_part *part = settings->part;
    const facts f = {cx, project, settings, c, &options->loader};
    if (!part) return QB_OK;
    if (settings->layers)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--layers is measured on one machine: leave it out of the parts");
    QB_TRY(describe(&f, part));
    qb_dataset_keep_part(dataset, part->shard - 1, part->shards);
    if (targets) qb_dataset_keep_part(targets, part->shard - 1, part->shards);
    options->part = part;
    options->points_only = true; /* the record of all has the intervals */
    options->no_latency = part->shard > 1;
    options->before_latency = settings->before_latency;
    options->user = settings->user;
    return QB_OK;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* What no part can say alone: whether the samples of all are those of the calibration. */
static qb_status warn_of_all(qb_ctx *cx, const qb_part *part, int64_t shared, qb_run *run) {
    const qb_hash *calibrated = part->calibrated;
    if (part->n_calibrated != run->n_rows + 1)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: calibrated: expected %d hashes, got %d",
                       part->name, (int)run->n_rows + 1, (int)part->n_calibrated);
    if (!qb_hash_is_zero(calibrated[0]) && qb_hash_equal(calibrated[0], run->data_hash))
        QB_TRY(qb_compare_warn_of_calibration(cx, run->dataset, run));
    QB_TRY(qb_compare_warn_of_samples(cx, shared, run));
    for (int32_t i = 0; i < run->n_rows; i++)
        QB_TRY(qb_compare_warn_of_file(cx, run->row[i].precision, calibrated[i + 1], run));
    return QB_OK;
}

qb_status qb_stage_merge(qb_ctx *cx, const qb_part *part, int32_t n, qb_run **out) {
    int64_t shared;
    QB_RELEASED(qb_run_free_at) qb_run *run = NULL;
    QB_TRY(qb_parts_merge(cx, part, n, &run, &shared));
    QB_TRY(warn_of_all(cx, part, shared, run));
    *out = QB_MOVE(run);
    return QB_OK;
}

/* The parts of the other processes, which the first one waits for before it measures latency. */
typedef struct gathered {
    const qb_ranks *ranks;
    qb_part *part; /* [ranks]; the first one is its own */
} gathered;

static qb_status receive_parts(qb_ctx *cx, void *user) {
    const gathered *g = user;
    for (int32_t r = 1; r < g->ranks->size; r++) {
        void *text;
        size_t size;
        char name[32];
        snprintf(name, sizeof name, "process %d", (int)r);
        if (g->ranks->receive(r, &text, &size) != 0)
            return qb_fail(cx, QB_STATUS_IO, "%s: nothing arrived", name);
        const qb_status status = qb_part_parse(cx, name, text, size, &g->part[r]);
        free(text);
        QB_TRY(status);
    }
    return QB_OK;
}

static qb_status send_part(qb_ctx *cx, const qb_ranks *ranks, const char *text) {
    if (ranks->send(0, text, strlen(text)) == 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_IO, "process %d: its part could not be sent", (int)ranks->rank);
}

qb_status qb_stage_compare_ranks(qb_ctx *cx, const qb_project *project,
                                 const qb_compare_settings *settings, const qb_ranks *ranks,
                                 qb_run **out) {
    QB_RELEASED(qb_part_release) qb_part own = {.shard = ranks->rank + 1, .shards = ranks->size};
    gathered all = {ranks, qb_alloc(cx, (size_t)ranks->size, sizeof *all.part)};
    qb_compare_settings mine = *settings;
    QB_RELEASED(qb_run_free_at) qb_run *run = NULL;
    QB_FREED char *text = NULL;
    qb_status status = all.part ? QB_OK : cx->code;
    mine.part = &own;
    mine.before_latency = ranks->rank == 0 ? receive_parts : NULL;
    mine.user = &all;
    if (status == QB_OK) QB_GO(qb_stage_compare(cx, project, &mine, &run));
    QB_GO(qb_part_json(cx, &own, run, &text));
    if (ranks->rank > 0) {
        QB_GO(send_part(cx, ranks, text));
    } else {
        QB_GO(qb_part_parse(cx, "process 0", text, strlen(text), &all.part[0]));
        QB_GO(qb_stage_merge(cx, all.part, ranks->size, out));
    }
out:
    for (int32_t r = 0; all.part && r < ranks->size; r++) qb_part_release(&all.part[r]);
    qb_free(all.part);
    return status;
}
