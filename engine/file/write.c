/* Engines to files. */
#include <stdlib.h>
#include <string.h>

#include "base/sign.h"
#include "engine/backends.h"
#include "engine/device_internal.h"
#include "engine/file/file_internal.h"
#include "engine/plans_internal.h"
#include "engine/providers.h"
#include "engine/step_json.h"
#include "graph/op.h"
#include "graph/store.h"

#define SMALL_CONSTANT                                                                             \
    4096 /* bytes: kept whether a step reads it or not, planning may look at it */

const char qb_file_names[QB_FILE_SECTIONS][8] = {"tags", "steps",    "graph",   "tail",
                                                 "plan", "compiled", "weights", "packed"};

/* ---- tags ---- */

static json_t *ports_json(const qb_port *ports, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        char shape[128];
        qb_shape_text(&ports[i].desc.shape, shape, sizeof shape);
        json_array_append_new(list, json_pack("{s:s%, s:s, s:s}", "name", ports[i].name,
                                              strlen(ports[i].name), "dtype",
                                              qb_dtype_text(ports[i].desc.dtype), "shape", shape));
    }
    return list;
}

static json_t *steps_json(const qb_engine *engine) {
    json_t *list = json_array();
    for (int32_t i = 0; i < engine->n_steps; i++) {
        qb_step_info s;
        qb_engine_step(engine, i, &s);
        json_t *step = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "name", s.name, "op", s.op,
                                 "tactic", s.tactic, "impl", s.impl, "dtype",
                                 qb_dtype_text(s.dtype), "flops", s.flops, "bytes", s.bytes);
        if (engine->device) {
            json_object_set_new(step, "provider", json_string(qb_provider_of(&s)));
            qb_step_choice_json(&s, step);
        }
        json_array_append_new(list, step);
    }
    return list;
}

static json_t *hash_json(qb_hash hash) {
    char hex[33];
    qb_hash_hex(hash, hex);
    return qb_hash_is_zero(hash) ? json_null() : json_string(hex);
}

static json_t *memory_json(const qb_engine *e) {
    const qb_plans_need need = qb_engine_need(e);
    qb_engine_memory m;
    qb_engine_memory_of(e, &m);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "engine", (json_int_t)qb_engine_bytes(e),
                     "weights", (json_int_t)e->memory.weights, "arena",
                     (json_int_t)(need.arena + need.device_arena), "workspace",
                     (json_int_t)(need.workspace + need.device_workspace), "planned",
                     (json_int_t)m.planned, "lower_bound", (json_int_t)m.lower_bound);
}

static json_t *shapes_json(const qb_engine *e, const qb_shape *shapes) {
    json_t *list = json_object();
    for (int32_t i = 0; i < e->n_inputs; i++) {
        char shape[128];
        qb_shape_text(&shapes[i], shape, sizeof shape);
        json_object_set_new(list, e->inputs[i].name, json_string(shape));
    }
    return list;
}

static json_t *profiles_json(const qb_engine *e) {
    json_t *list = json_array();
    for (int32_t i = 0; i < qb_engine_n_profiles(e); i++) {
        const qb_profile *p = qb_engine_profile(e, i);
        json_array_append_new(list,
                              json_pack("{s:o, s:o, s:o}", "min", shapes_json(e, p->min), "opt",
                                        shapes_json(e, p->opt), "max", shapes_json(e, p->max)));
    }
    return list;
}

/* What the file was built to fit beside this machine. */
static json_t *compatible_json(const qb_engine_origin *o) {
    json_t *list = json_array();
    if (o->version_compatible) json_array_append_new(list, json_string("version"));
    if (o->hardware_compatible) json_array_append_new(list, json_string("hardware"));
    return list;
}

/* What the engine is bound to beside or instead of the processor. */
static json_t *device_json(const qb_engine *e, const qb_device_identity *identity) {
    int host = 0;
    for (int32_t s = 0; s < e->n_steps; s++) host += e->steps[s].kernel && !e->steps[s].on_device;
    return json_pack("{s:s, s:s, s:i}", "device", identity->hardware, "driver", identity->software,
                     "host_steps", host);
}

static json_t *tags_json(const qb_engine *e, const qb_engine_origin *o, const char *backend,
                         const char *libraries, const qb_device_identity *identity) {
    char processor[256];
    qb_engine_processor(processor, sizeof processor);
    json_t *built =
        json_pack("{s:s, s:s, s:s, s:s, s:i}", "qbench", QB_VERSION, "backend", backend,
                  "processor", processor, "libraries", libraries, "threads", e->plan->spec.threads);
    if (identity) json_object_update_new(built, device_json(e, identity));
    json_t *memory = memory_json(e);
    const qb_port *outputs = e->tail ? qb_tail_output(e->tail, 0) : e->outputs;
    return json_pack("{s:s, s:o, s:o, s:s?, s:o, s:s?, s:o, s:s?, s:s?, s:o, s:s?, s:o, s:o, s:o, "
                     "s:o}",
                     "schema", "qbench.engine/1", "built", built, "compatible", compatible_json(o),
                     "options", o->options, "profiles", profiles_json(e), "model", o->model,
                     "model_hash", hash_json(e->graph->hash), "precision", o->precision,
                     "calibration", o->calibration, "data_hash", hash_json(o->data_hash),
                     "prepared", o->prepared, "inputs", ports_json(e->inputs, e->n_inputs),
                     "outputs", ports_json(outputs, qb_engine_n_outputs(e)), "memory", memory,
                     "plugins", qb_file_plugins_json(e));
}

/* JSON as text; takes it over. */
static qb_status put_json(qb_ctx *cx, json_t *root, size_t flags, qb_strbuf *out) {
    char *text = root ? json_dumps(root, flags | JSON_REAL_PRECISION(9)) : NULL;
    if (text) qb_strbuf_add(out, text);
    free(text);
    json_decref(root);
    return text ? QB_OK : qb_fail(cx, QB_STATUS_INVALID, "a name of the model is not UTF-8");
}

static qb_status put_tags(qb_ctx *cx, const qb_engine *engine, const qb_engine_origin *origin,
                          qb_strbuf *out) {
    qb_device_identity identity;
    if (engine->device) QB_TRY(engine->device->open(cx, engine->on.ordinal, &identity));
    QB_FREED char *libraries = qb_engine_libraries(cx),
                  *backend = qb_backends_name(cx, engine->plan->spec.backends);
    return libraries && backend ? put_json(cx,
                                           tags_json(engine, origin, backend, libraries,
                                                     engine->device ? &identity : NULL),
                                           JSON_INDENT(1), out)
                                : cx->code;
}

/* ---- graph ---- */

/* The graph that the file holds: with open shapes where there are profiles. */
static const qb_graph *graph_of(const qb_engine *e) {
    return e->plans ? e->plans->graph : e->graph;
}

/* Small constants lie in the graph. Of the others an engine that can pack again needs all, one of
 * fixed shapes for this machine those that a run reads. */
static void place_constants(const qb_engine *e, bool all, qb_store_where *where) {
    const qb_graph *graph = graph_of(e);
    const qb_store_where large = all ? QB_STORE_APART : QB_STORE_HOLE;
    for (int32_t v = 0; v < graph->n_values; v++)
        where[v] = graph->values[v].bytes <= SMALL_CONSTANT ? QB_STORE_INSIDE : large;
    for (int32_t i = 0; i < e->n_layouts && !all; i++) {
        const qb_value_layout *stored = &e->layouts[i];
        if (stored->value >= 0 && e->buffers[stored->buffer].kind == QB_BUFFER_CONSTANT &&
            where[stored->value] == QB_STORE_HOLE)
            where[stored->value] = QB_STORE_APART;
    }
}

/* The graph and the constants that lie apart from it. */
typedef struct graph_bytes {
    qb_strbuf graph;
    size_t hole_bytes, n_weights;
    char *weights;
} graph_bytes;

static void graph_bytes_release(graph_bytes *b) {
    qb_strbuf_release(&b->graph);
    qb_free(b->weights);
}

static qb_status store_graph(qb_ctx *cx, const qb_engine *engine, bool all, graph_bytes *out) {
    const qb_graph *graph = graph_of(engine);
    QB_FREED qb_store_where *where =
        QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_values, sizeof *where));
    place_constants(engine, all, where);
    QB_TRY(qb_graph_store(cx, graph, where, &out->graph, &out->hole_bytes, &out->n_weights));
    QB_TRY_NEW(cx, out->weights = qb_alloc_aligned(cx, out->n_weights, 1));
    qb_graph_store_apart(graph, where, out->weights);
    return QB_OK;
}

/* ---- the file ---- */

typedef struct section {
    const void *data;
    size_t size;
} section;

static void fill_header(const qb_engine *e, uint32_t flags, size_t hole_bytes,
                        const section *sections, qb_file_header *h) {
    const qb_plans_need need = qb_engine_need(e);
    *h = (qb_file_header){.format = QB_ENGINE_FILE_FORMAT,
                          .n_sections = QB_FILE_SECTIONS,
                          .flags = flags,
                          .hole_bytes = hole_bytes,
                          .arena = need.arena,
                          .workspace = need.workspace,
                          .device_arena = need.device_arena,
                          .device_workspace = need.device_workspace};
    memcpy(h->magic, QB_FILE_MAGIC, sizeof h->magic);
    uint64_t end = sizeof *h;
    for (int i = 0; i < QB_FILE_SECTIONS; i++) {
        qb_file_entry *entry = &h->section[i];
        memcpy(entry->name, qb_file_names[i], sizeof entry->name);
        entry->offset = (end + QB_FILE_UNIT(i) - 1) / QB_FILE_UNIT(i) * QB_FILE_UNIT(i);
        entry->size = sections[i].size;
        entry->hash = qb_hash_bytes(sections[i].data, sections[i].size);
        end = entry->offset + entry->size;
    }
    h->file_size = end;
    h->hash = qb_hash_bytes(h, offsetof(qb_file_header, hash));
}

static void write_all(FILE *stream, const qb_file_header *h, const section *sections) {
    static const char zeros[QB_FILE_PAGE];
    uint64_t at = sizeof *h;
    fwrite(h, sizeof *h, 1, stream);
    for (int i = 0; i < QB_FILE_SECTIONS; i++) {
        fwrite(zeros, 1, (size_t)(h->section[i].offset - at), stream);
        if (sections[i].size) fwrite(sections[i].data, 1, sections[i].size, stream);
        at = h->section[i].offset + h->section[i].size;
    }
}

static qb_status check_supported(qb_ctx *cx, const qb_engine *engine, bool compatible,
                                 const char *path) {
    if (engine->use.of)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: a plan is no engine of its own", path);
    if (compatible && engine->file && engine->file->n_zeros > 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: the engine's weights are packed for one processor; build it from the "
                       "model",
                       path);
    return QB_OK;
}

/* The host's packed constants, then the device's; `own` is new memory where these must be one. */
static qb_status packed_of(qb_ctx *cx, const qb_engine *e, char **own, section *out) {
    *out = (section){e->packed.data, e->memory.weights};
    if (!e->device || e->packed.mapped) return QB_OK;
    const size_t host = e->memory.weights - e->on.constants;
    QB_TRY_NEW(cx, *own = qb_alloc_aligned(cx, e->memory.weights, 1));
    if (host > 0) memcpy(*own, e->packed.data, host);
    out->data = *own;
    return qb_device_constants(cx, e, *own + host);
}

static qb_status put_plan(qb_ctx *cx, const qb_engine *e, qb_strbuf *out) {
    QB_FREED const char **names = QB_NEW(cx, qb_alloc(cx, (size_t)e->n_inputs, sizeof *names));
    for (int32_t i = 0; i < e->n_inputs; i++) names[i] = e->inputs[i].name;
    return qb_plan_write(cx, e->plan, names, out);
}

qb_status qb_engine_file_sign(qb_ctx *cx, const char *key, const char *path) {
    uint8_t signature[QB_SIGNATURE_BYTES];
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_FREED char *to = qb_format(cx, "%s.sig", path);
    QB_TRY(to ? qb_map_open(cx, path, &map) : cx->code);
    QB_TRY(qb_sign(cx, key, map.data, map.size, signature));
    return qb_file_write(cx, to, signature, sizeof signature);
}

qb_status qb_engine_save(qb_ctx *cx, const qb_engine *engine, const qb_engine_origin *origin,
                         const char *path) {
    const uint32_t compatible = (origin->version_compatible ? QB_FILE_VERSION_COMPATIBLE : 0) |
                                (origin->hardware_compatible ? QB_FILE_HARDWARE_COMPATIBLE : 0);
    QB_RELEASED(qb_strbuf_release) qb_strbuf tags = {0}, steps = {0}, tail = {0};
    QB_RELEASED(qb_strbuf_release) qb_strbuf plan = {0}, compiled = {0};
    QB_RELEASED(graph_bytes_release) graph_bytes stored = {0};
    qb_file_header header;
    QB_RELEASED(qb_writer_abort) qb_writer writer = {0};
    QB_FREED char *own = NULL;
    section packed = {0};
    QB_TRY(check_supported(cx, engine, compatible != 0, path));
    QB_TRY(put_tags(cx, engine, origin, &tags));
    QB_TRY(put_json(cx, steps_json(engine), JSON_INDENT(1), &steps));
    QB_TRY(store_graph(cx, engine, compatible != 0 || engine->plans, &stored));
    QB_TRY(qb_file_tail_put(cx, engine, &tail));
    QB_TRY(put_plan(cx, engine, &plan));
    qb_file_compiled_put(engine->compiled, &compiled);
    if (compiled.failed || tail.failed) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    if (!compatible) QB_TRY(packed_of(cx, engine, &own, &packed));
    const section sections[QB_FILE_SECTIONS] = {{tags.data, tags.size},
                                                {steps.data, steps.size},
                                                {stored.graph.data, stored.graph.size},
                                                {tail.data, tail.size},
                                                {plan.data, plan.size},
                                                {compiled.data, compiled.size},
                                                {stored.weights, stored.n_weights},
                                                packed};
    fill_header(engine, compatible, stored.hole_bytes, sections, &header);
    QB_TRY(qb_writer_open(cx, path, &writer));
    write_all(writer.stream, &header, sections);
    return qb_writer_commit(cx, &writer); /* looks whether all could be written */
}
