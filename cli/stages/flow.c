#include "cli/stages/flow.h"

#include <string.h>

#include "base/file.h"
#include "cli/out/json.h"
#include "cli/settings/fingerprint.h"
#include "cli/settings/precision.h"
#include "graph/graph.h"

#define NO_MIXED_PRECISION "--no-mixing"
#define RECOVERED "recovered.calib.h5"
#define RECORD_MAX ((size_t)1 << 20)

/* ---- stages ---- */

const qb_flow_stage qb_flow_stages[QB_FLOW_STAGES] = {
    {.command = "calibrate",
     .suffix = "calib.h5",
     .sections = {"data", "preprocess", "calibration", "fixed_inputs"},
     .calibration_data = true},
    {.command = "quantize",
     .suffix = "qdq.onnx",
     .sections = {"quantization", "fixed_inputs"},
     .calibration = true},
    {.command = "compare",
     .file = "compare.json",
     .sections = {"data", "preprocess", "quantization", "compare", "fixed_inputs"},
     .evaluation_data = true,
     .calibration = true},
    {.command = "gate"},
};

qb_status qb_flow_file(const qb_flow *f, const qb_flow_stage *s, char **out) {
    *out = NULL;
    if (!s->suffix && !s->file) return QB_OK;
    *out = s->suffix ? qb_project_artifact(f->cx, f->project, s->suffix)
                     : qb_project_file(f->cx, f->project, s->file);
    return *out ? QB_OK : f->cx->code;
}

/* ---- what a stage depends on ---- */

static void add_labels(qb_hasher *hasher, const qb_labels *labels) {
    for (int32_t i = 0; i < labels->n; i++) {
        qb_hasher_string(hasher, labels->name[i]);
        qb_hasher_string(hasher, labels->synset && labels->synset[i] ? labels->synset[i] : "");
    }
}

/* What compare is asked for; a model or an engine by what is in the file. */
static qb_status add_precision(qb_ctx *cx, qb_hasher *hasher, const char *text) {
    qb_hasher_string(hasher, text);
    QB_FREED char *path = qb_format(cx, "%.*s", (int)(qb_precision_where(text) - text), text);
    if (!path) return cx->code;
    const bool is_file = qb_has_suffix(path, ".onnx") || qb_precision_names_engine(path);
    return is_file && qb_path_exists(path) ? qb_fingerprint_content(cx, hasher, path) : QB_OK;
}

static qb_status add_artifact(qb_ctx *cx, qb_hasher *hasher, const qb_project *p,
                              const char *suffix) {
    QB_FREED char *path = QB_NEW(cx, qb_project_artifact(cx, p, suffix));
    return qb_path_exists(path) ? qb_fingerprint_content(cx, hasher, path) : QB_OK;
}

static qb_status add_inputs(const qb_flow *f, const qb_flow_stage *s, qb_hasher *hasher) {
    qb_ctx *cx = f->cx;
    const qb_project *p = f->project;
    QB_FREED char *sidecar = NULL;
    qb_hasher_string(hasher, QB_VERSION);
    qb_hasher_string(hasher, s->command);
    qb_hasher_string(hasher, p->spec.backends ? p->spec.backends : "");
    qb_hasher_string(hasher, p->build.tactic_sources ? p->build.tactic_sources : "");
    qb_hasher_string(hasher, p->spec.no_mixed_precision ? NO_MIXED_PRECISION : "");
    if (s->calibration_data || s->evaluation_data)
        qb_hasher_string(hasher, p->decoder ? p->decoder : "");
    for (int i = 0; p->disabled[i]; i++) qb_hasher_string(hasher, p->disabled[i]);
    for (int i = 0; i < 5 && s->sections[i]; i++)
        qb_fingerprint_section(hasher, p->config, s->sections[i]);
    qb_hasher_update(hasher, f->model_hash.byte, sizeof f->model_hash.byte);
    QB_TRY(qb_sidecar_find(cx, p->model, &sidecar));
    if (sidecar) QB_TRY(qb_fingerprint_content(cx, hasher, sidecar));
    for (int32_t i = 0; i < qb_plugins_count(cx->plugins); i++)
        QB_TRY(qb_fingerprint_plugin(cx, hasher, qb_plugins_at(cx->plugins, i)));
    add_labels(hasher, &p->labels);
    if (s->calibration_data) QB_TRY(qb_fingerprint_path(cx, hasher, p->calibration_data));
    if (s->evaluation_data) {
        QB_TRY(qb_fingerprint_path(cx, hasher,
                                   p->evaluation_data ? p->evaluation_data : p->calibration_data));
        if (p->targets) QB_TRY(qb_fingerprint_path(cx, hasher, p->targets));
        for (int i = 0; i < (f->precisions ? f->precisions->n : 0); i++)
            QB_TRY(add_precision(cx, hasher, f->precisions->item[i]));
    }
    if (s->calibration) {
        QB_TRY(add_artifact(cx, hasher, p, qb_flow_stages[0].suffix));
        QB_TRY(add_artifact(cx, hasher, p, RECOVERED)); /* it names the model that it belongs to */
    }
    return QB_OK;
}

qb_status qb_flow_inputs(const qb_flow *f, const qb_flow_stage *s, char hex[33]) {
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_TRY(qb_hasher_create(f->cx, &hasher));
    QB_TRY(add_inputs(f, s, hasher));
    qb_hash_hex(qb_hasher_digest(hasher), hex);
    return QB_OK;
}

static qb_status output_of(qb_ctx *cx, const char *path, char hex[33]) {
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_TRY(qb_hasher_create(cx, &hasher));
    QB_TRY(qb_fingerprint_content(cx, hasher, path));
    qb_hash_hex(qb_hasher_digest(hasher), hex);
    return QB_OK;
}

/* ---- the record of the last run ---- */

/* What cannot be read is no record: everything is made again. */
static qb_status record_load(qb_flow *f) {
    char *text;
    size_t size;
    f->record = NULL;
    QB_TRY_NEW(f->cx, f->record_path = qb_project_file(f->cx, f->project, QB_FLOW_RECORD));
    if (qb_file_read(f->cx, f->record_path, RECORD_MAX, &text, &size) == QB_OK) {
        json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        const char *schema = json_string_value(json_object_get(root, "schema"));
        if (schema && strcmp(schema, "qbench.run/1") == 0)
            f->record = json_incref(json_object_get(root, "stages"));
        json_decref(root);
        qb_free(text);
    }
    qb_ctx_clear(f->cx);
    if (!json_is_object(f->record)) {
        json_decref(f->record);
        f->record = json_object();
    }
    return QB_OK;
}

static qb_status record_save(const qb_flow *f) {
    const qb_common to = {.json = f->record_path};
    return qb_json_out(f->cx, &to,
                       json_pack("{s:s, s:O}", "schema", "qbench.run/1", "stages", f->record));
}

static bool same(const json_t *entry, const char *key, const char *hex) {
    const char *text = json_string_value(json_object_get(entry, key));
    return text && strcmp(text, hex) == 0;
}

qb_status qb_flow_is_current(const qb_flow *f, const qb_flow_stage *s, const char *path,
                             bool *out) {
    char inputs[33], output[33];
    const json_t *entry = json_object_get(f->record, s->command);
    *out = false;
    if (!entry || !qb_path_exists(path)) return QB_OK;
    QB_TRY(qb_flow_inputs(f, s, inputs));
    QB_TRY(output_of(f->cx, path, output));
    *out = same(entry, "inputs", inputs) && same(entry, "output", output);
    return QB_OK;
}

qb_status qb_flow_note(qb_flow *f, const qb_flow_stage *s, const char inputs[33],
                       const char *path) {
    char output[33];
    QB_TRY(output_of(f->cx, path, output));
    json_object_set_new(f->record, s->command,
                        json_pack("{s:s, s:s}", "inputs", inputs, "output", output));
    return record_save(f);
}

qb_status qb_flow_open(qb_ctx *cx, const qb_project *project, qb_hash model_hash,
                       const qb_opt_list *precisions, qb_flow *out) {
    *out =
        (qb_flow){.cx = cx, .project = project, .model_hash = model_hash, .precisions = precisions};
    return record_load(out);
}

void qb_flow_close(qb_flow *flow) {
    json_decref(flow->record);
    qb_free(flow->record_path);
    *flow = (qb_flow){0};
}
