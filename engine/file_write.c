/* Engines to files. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/file_internal.h"
#include "graph/op.h"
#include "graph/store.h"

#define SMALL_CONSTANT                                                                             \
    4096 /* bytes: kept whether a step reads it or not, planning may look at it */

const char qb_file_names[QB_FILE_SECTIONS][8] = {"tags", "graph", "plan", "packed"};

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
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "name", s.name,
                                              "op", s.op, "tactic", s.tactic, "impl", s.impl,
                                              "dtype", qb_dtype_text(s.dtype), "flops", s.flops,
                                              "bytes", s.bytes));
    }
    return list;
}

static json_t *hash_json(qb_hash hash) {
    char hex[33];
    qb_hash_hex(hash, hex);
    return qb_hash_is_zero(hash) ? json_null() : json_string(hex);
}

static json_t *tags_json(const qb_engine *e, const qb_engine_origin *o, const char *libraries) {
    char processor[256];
    qb_engine_processor(processor, sizeof processor);
    json_t *built =
        json_pack("{s:s, s:s, s:s, s:s, s:i}", "qbench", QB_VERSION, "backend", "cpu", "processor",
                  processor, "libraries", libraries, "threads", e->threads);
    json_t *memory =
        json_pack("{s:I, s:I, s:I}", "weights", (json_int_t)e->memory.weights, "arena",
                  (json_int_t)e->memory.arena, "workspace", (json_int_t)e->memory.workspace);
    return json_pack("{s:s, s:o, s:s?, s:o, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
                     "qbench.engine/1", "built", built, "model", o->model, "model_hash",
                     hash_json(e->graph->hash), "precision", o->precision, "calibration",
                     o->calibration, "data_hash", hash_json(o->data_hash), "inputs",
                     ports_json(e->inputs, e->n_inputs), "outputs",
                     ports_json(e->outputs, e->n_outputs), "memory", memory, "plugins",
                     qb_file_plugins_json(e), "steps", steps_json(e));
}

static qb_status put_tags(qb_ctx *cx, const qb_engine *engine, const qb_engine_origin *origin,
                          qb_strbuf *out) {
    char *libraries = qb_engine_libraries(cx);
    if (!libraries) return cx->code;
    json_t *root = tags_json(engine, origin, libraries);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    if (text) qb_strbuf_add(out, text);
    free(text);
    json_decref(root);
    qb_free(libraries);
    return text ? QB_OK : qb_fail(cx, QB_STATUS_INVALID, "a name of the model is not UTF-8");
}

/* ---- graph ---- */

/* Constants that a run reads, and small ones. */
static qb_status kept_constants(qb_ctx *cx, const qb_engine *e, bool **out) {
    const qb_graph *graph = e->graph;
    bool *keep = qb_alloc(cx, (size_t)graph->n_values, sizeof *keep);
    if (!keep) return cx->code;
    for (int32_t v = 0; v < graph->n_values; v++)
        keep[v] = graph->values[v].bytes <= SMALL_CONSTANT;
    for (int32_t i = 0; i < e->n_images; i++) {
        const qb_image *image = &e->images[i];
        if (image->value >= 0 && e->buffers[image->buffer].kind == QB_BUFFER_CONSTANT)
            keep[image->value] = true;
    }
    *out = keep;
    return QB_OK;
}

static qb_status put_graph(qb_ctx *cx, const qb_engine *engine, qb_strbuf *out,
                           size_t *hole_bytes) {
    bool *keep;
    QB_TRY(kept_constants(cx, engine, &keep));
    qb_status status = qb_graph_store(cx, engine->graph, keep, out, hole_bytes);
    qb_free(keep);
    return status;
}

/* ---- plan ---- */

static qb_status put_plan(qb_ctx *cx, const qb_engine *e, size_t hole_bytes, qb_strbuf *out) {
    qb_file_plan plan = {.parts = e->parts,
                         .batch = e->n_inputs > 0 && e->inputs[0].desc.shape.rank > 0
                                      ? e->inputs[0].desc.shape.dim[0]
                                      : 1,
                         .hole_bytes = hole_bytes,
                         .threads = e->threads,
                         .n_tactics = e->n_recorded,
                         .n_steps = e->n_steps};
    if (strlen(e->backends) >= sizeof plan.backends)
        return qb_fail(cx, QB_STATUS_INTERNAL, "engine file: '%s' is too long", e->backends);
    memcpy(plan.backends, e->backends, strlen(e->backends));
    qb_strbuf_addn(out, (const char *)&plan, sizeof plan);
    for (int32_t i = 0; i < e->n_recorded; i++) {
        const uint32_t n = (uint32_t)strlen(e->recorded[i]->name);
        qb_strbuf_addn(out, (const char *)&n, sizeof n);
        qb_strbuf_add(out, e->recorded[i]->name);
    }
    return out->failed ? qb_fail(cx, QB_STATUS_NOMEM, "out of memory") : QB_OK;
}

/* ---- the file ---- */

typedef struct section {
    const void *data;
    size_t size;
} section;

static uint64_t aligned(uint64_t offset, uint64_t to) { return (offset + to - 1) / to * to; }

static void fill_header(const section *sections, qb_file_header *h) {
    *h = (qb_file_header){.format = QB_ENGINE_FILE_FORMAT, .n_sections = QB_FILE_SECTIONS};
    memcpy(h->magic, QB_FILE_MAGIC, sizeof h->magic);
    uint64_t end = sizeof *h;
    for (int i = 0; i < QB_FILE_SECTIONS; i++) {
        qb_file_entry *entry = &h->section[i];
        memcpy(entry->name, qb_file_names[i], sizeof entry->name);
        entry->offset = aligned(end, i == QB_FILE_PACKED ? QB_FILE_PAGE : QB_FILE_LINE);
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

static qb_status check_supported(qb_ctx *cx, const qb_engine *engine, const char *path) {
    if (engine->device)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: engines of %s cannot be written to a file",
                       path, engine->device_name);
    return QB_OK;
}

qb_status qb_engine_save(qb_ctx *cx, const qb_engine *engine, const qb_engine_origin *origin,
                         const char *path) {
    qb_status status = QB_OK;
    qb_strbuf tags = {0}, graph = {0}, plan = {0};
    qb_file_header header;
    qb_writer writer = {0};
    size_t hole_bytes;
    QB_TRY(check_supported(cx, engine, path));
    QB_GO(put_tags(cx, engine, origin, &tags));
    QB_GO(put_graph(cx, engine, &graph, &hole_bytes));
    QB_GO(put_plan(cx, engine, hole_bytes, &plan));
    const section sections[QB_FILE_SECTIONS] = {{tags.data, tags.size},
                                                {graph.data, graph.size},
                                                {plan.data, plan.size},
                                                {engine->packed, engine->memory.weights}};
    fill_header(sections, &header);
    QB_GO(qb_writer_open(cx, path, true, &writer));
    write_all(writer.stream, &header, sections);
    QB_GO(qb_writer_commit(cx, &writer)); /* looks whether all could be written */
out:
    qb_writer_abort(&writer);
    qb_strbuf_release(&tags);
    qb_strbuf_release(&graph);
    qb_strbuf_release(&plan);
    return status;
}
