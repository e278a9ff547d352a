/* Engines: what is left after the build, and questions about it. */
#include <sys/mman.h>

#include "engine/device_internal.h"
#include "engine/file/file_internal.h"
#include "engine/plans_internal.h"
#include "engine/run/tail_internal.h"
#include "graph/plugin.h"

void qb_engine_file_free(qb_engine_file *file) {
    if (!file) return;
    if (file->zeros) munmap(file->zeros, file->n_zeros);
    qb_map_close(&file->map);
    qb_free(file);
}

void qb_engine_destroy(qb_engine *engine) {
    for (int32_t s = 0; s < engine->n_steps; s++) qb_kernel_free(engine->steps[s].kernel);
    qb_tail_free(engine->tail);
    qb_engine_select(engine);
    if (engine->device) engine->device->release(engine->on.block);
    qb_free(engine->on.name);
    if (!engine->packed.mapped) qb_free(engine->packed.data);
    qb_plan_free(engine->plan);
    qb_engine_file_free(engine->file);
    qb_compiled_free(engine->compiled);
    QB_FREE_ALL(engine->use.packs, engine->observed, engine->steps, engine->layouts,
                engine->buffers);
    qb_arena_free(engine->arena);
    qb_graph_free(engine->graph);
    qb_free(engine);
}

void qb_engine_free(qb_engine *engine) {
    if (!engine) return;
    qb_plans *plans = engine->plans; /* the graph's constants lie there */
    qb_engine_destroy(engine);
    qb_plans_free(plans);
}

int32_t qb_engine_n_inputs(const qb_engine *engine) { return engine->n_inputs; }
int32_t qb_engine_n_outputs(const qb_engine *engine) {
    return engine->tail ? qb_tail_n_outputs(engine->tail) : engine->n_outputs;
}

static const qb_port *output_port(const qb_engine *engine, int32_t i) {
    return engine->tail ? qb_tail_output(engine->tail, i) : &engine->outputs[i];
}

const char *qb_engine_input_name(const qb_engine *engine, int32_t i) {
    return engine->inputs[i].name;
}
const char *qb_engine_output_name(const qb_engine *engine, int32_t i) {
    return output_port(engine, i)->name;
}
const qb_desc *qb_engine_input(const qb_engine *engine, int32_t i) {
    return &engine->inputs[i].desc;
}
const qb_desc *qb_engine_output(const qb_engine *engine, int32_t i) {
    return &output_port(engine, i)->desc;
}
const char *qb_engine_device(const qb_engine *engine) { return engine->on.name; }
double qb_engine_device_seconds(const qb_engine *engine) { return engine->on.seconds; }
int qb_engine_threads(const qb_engine *engine) { return engine->plan->spec.threads; }

size_t qb_engine_weights(const qb_engine *engine) {
    size_t in_place = 0;
    for (int32_t i = 0; i < engine->n_buffers; i++)
        if (engine->buffers[i].kind == QB_BUFFER_CONSTANT) in_place += engine->buffers[i].bytes;
    return engine->memory.weights + in_place;
}

qb_plans_need qb_engine_need(const qb_engine *engine) {
    if (engine->plans) return engine->plans->built;
    return (qb_plans_need){engine->memory.arena, engine->memory.workspace, engine->on.arena,
                           engine->on.workspace};
}

void qb_engine_memory_of(const qb_engine *engine, qb_engine_memory *out) {
    const qb_plans_need need =
        engine->plans ? qb_plans_memory(engine->plans) : qb_engine_need(engine);
    *out = engine->memory;
    out->weights = qb_engine_weights(engine);
    if (engine->plans) out->weights += qb_packs_bytes(engine->plans);
    out->arena = need.arena + need.device_arena;
    out->workspace = need.workspace + need.device_workspace;
    out->planned = engine->memory.arena + engine->on.arena;
    out->parts = engine->parts;
}

int32_t qb_engine_n_steps(const qb_engine *engine) { return engine->n_steps; }

static const char *impl_of(const qb_step *step) {
    if (step->kernel) return step->kernel->impl;
    return step->kind == QB_STEP_PLUGIN ? qb_plugin_op_of(step->node->op)->plugin->version : "";
}

/* A step that has nothing to do is where its result lies. */
static bool is_on_device(const qb_engine *engine, const qb_step *step) {
    if (step->kind != QB_STEP_ALIAS) return step->on_device;
    return step->n_out > 0 && step->out[0] >= 0 && qb_layout_on_device(engine, step->out[0]);
}

/* Times of the host's kernels are for its plan alone. */
static void add_choice(const qb_plan_row *row, qb_step_info *out) {
    out->fallback_reason = row->fallback_reason;
    out->tactic_reason = row->tactic_reason;
    if (!row->on_device) return;
    out->seconds = row->seconds;
    out->alternatives = row->alternatives;
    out->n_alternatives = row->n_alternatives;
    out->f16_reason = row->f16_reason;
    out->fuse_reason = row->fuse_reason;
    out->note = row->note;
}

void qb_engine_step(const qb_engine *engine, int32_t index, qb_step_info *out) {
    const qb_step *step = &engine->steps[index];
    const qb_plan_row *row = step->row >= 0 ? &engine->plan->table[0].rows[step->row] : NULL;
    int32_t value = -1;
    for (int32_t i = 0; i < step->n_out && value < 0; i++)
        if (step->out[i] >= 0) value = engine->layouts[step->out[i]].value;
    *out = (qb_step_info){.name = step->name,
                          .op = step->op,
                          .tactic = step->tactic,
                          .impl = impl_of(step),
                          .dtype = step->dtype,
                          .flops = step->flops * (double)engine->parts,
                          .bytes = step->bytes * (double)engine->parts,
                          .output = value >= 0 ? engine->graph->values[value].name : step->name,
                          .on_device = is_on_device(engine, step)};
    if (row) add_choice(row, out);
}

qb_layer_counts qb_engine_layers(const qb_engine *engine) {
    qb_layer_counts n = {0};
    for (int32_t s = 0; s < engine->n_steps; s++) {
        const qb_step *step = &engine->steps[s];
        if (step->flops <= 0.0) continue;
        switch (step->dtype) {
        case QB_DTYPE_S8:
        case QB_DTYPE_U8: n.int8++; break;
        case QB_DTYPE_F16: n.fp16++; break;
        case QB_DTYPE_BF16: n.bf16++; break;
        default: n.fp32++; break;
        }
    }
    return n;
}

static void hash_row(qb_hasher *hasher, const qb_plan_row *row) {
    const int32_t numbers[] = {row->variant, row->is_copy, row->on_device, (int32_t)row->precision,
                               row->n_in};
    char text[64];
    qb_hasher_string(hasher, row->value);
    qb_hasher_string(hasher, row->op ? row->op : "");
    qb_hasher_string(hasher, row->tactic ? row->tactic : "");
    qb_hasher_string(hasher, row->fuses ? row->fuses : "");
    qb_hasher_update(hasher, numbers, sizeof numbers);
    for (int32_t i = 0; i < row->n_in; i++)
        qb_hasher_string(hasher, qb_plan_layout_text(&row->in[i], text, sizeof text));
    qb_hasher_string(hasher, qb_plan_layout_text(&row->out, text, sizeof text));
}

qb_status qb_engine_plan_hash(qb_ctx *cx, const qb_engine *engine, qb_hash *out) {
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_TRY(qb_hasher_create(cx, &hasher));
    for (int32_t t = 0; t < engine->plan->n_tables; t++)
        for (int32_t r = 0; r < engine->plan->table[t].n_rows; r++)
            hash_row(hasher, &engine->plan->table[t].rows[r]);
    *out = qb_hasher_digest(hasher);
    return QB_OK;
}

int32_t qb_engine_n_observed(const qb_engine *engine) { return engine->n_observed; }
const char *qb_engine_observed_name(const qb_engine *engine, int32_t observed) {
    return engine->graph->values[engine->observed[observed]].name;
}
