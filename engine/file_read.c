/* Files to engines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file_kind.h"
#include "base/log.h"
#include "engine/device_internal.h"
#include "engine/file_internal.h"
#include "engine/plans_internal.h"
#include "graph/store.h"

void qb_engine_file_free(qb_engine_file *file) {
    if (!file) return;
    if (file->zeros) munmap(file->zeros, file->n_zeros);
    qb_map_close(&file->map);
    qb_free(file);
}

/* ---- container ---- */

typedef struct opened {
    qb_ctx *cx;
    const char *path;
    qb_map map;
    qb_file_header header;
} opened;

static qb_status damaged(const opened *f, const char *what) {
    return qb_fail(f->cx, QB_STATUS_FORMAT, "%s: damaged engine file: %s", f->path, what);
}

static bool starts_as_one(const qb_map *map) {
    const size_t n = sizeof QB_FILE_MAGIC - 1;
    return map->size >= n && memcmp(map->data, QB_FILE_MAGIC, n) == 0;
}

static qb_status check_header(opened *f) {
    qb_file_header *h = &f->header;
    if (!starts_as_one(&f->map)) {
        qb_fail_kind(f->cx, "not a qbench engine file ('qbench build' makes one of an ONNX model)",
                     f->map.data, f->map.size);
        return qb_wrap(f->cx, "%s", f->path);
    }
    if (f->map.size < sizeof *h) return damaged(f, "it ends in the header");
    memcpy(h, f->map.data, sizeof *h);
    if (h->format > QB_ENGINE_FILE_FORMAT)
        return qb_fail(f->cx, QB_STATUS_FORMAT,
                       "%s: written by a newer qbench: format %u, this one reads up to %d", f->path,
                       h->format, QB_ENGINE_FILE_FORMAT);
    if (h->format > 0 && h->format < QB_ENGINE_FILE_FORMAT)
        return qb_fail(
            f->cx, QB_STATUS_FORMAT,
            "%s: written by an older qbench: format %u, this one reads %d: build it anew", f->path,
            h->format, QB_ENGINE_FILE_FORMAT);
    if (!qb_hash_equal(h->hash, qb_hash_bytes(h, offsetof(qb_file_header, hash))))
        return damaged(f, "the header does not have its hash");
    if (h->format != QB_ENGINE_FILE_FORMAT || h->n_sections != QB_FILE_SECTIONS)
        return damaged(f, "an unknown form");
    if (h->file_size != f->map.size)
        return qb_fail(f->cx, QB_STATUS_FORMAT,
                       "%s: damaged engine file: %zu bytes, the header says %llu", f->path,
                       f->map.size, (unsigned long long)h->file_size);
    return QB_OK;
}

/* The sections follow each other, nothing but zeros between them; each has its hash. */
static qb_status check_sections(const opened *f) {
    uint64_t end = sizeof f->header;
    for (int i = 0; i < QB_FILE_SECTIONS; i++) {
        const qb_file_entry *s = &f->header.section[i];
        const uint64_t unit = QB_FILE_UNIT(i);
        if (memcmp(s->name, qb_file_names[i], sizeof s->name) != 0 || s->offset % unit != 0 ||
            s->offset < end || s->offset - end >= unit || s->offset > f->map.size ||
            s->size > f->map.size - s->offset)
            return damaged(f, "the table of sections");
        for (uint64_t at = end; at < s->offset; at++)
            if (f->map.data[at] != 0) return damaged(f, "bytes between sections");
        if (!qb_hash_equal(s->hash, qb_hash_bytes(f->map.data + s->offset, s->size)))
            return qb_fail(f->cx, QB_STATUS_FORMAT,
                           "%s: damaged engine file: section %s does not have its hash", f->path,
                           qb_file_names[i]);
        end = s->offset + s->size;
    }
    return end == f->map.size ? QB_OK : damaged(f, "bytes behind the last section");
}

static qb_status open_file(qb_ctx *cx, const char *path, opened *f) {
    *f = (opened){.cx = cx, .path = path};
    const double start = qb_now();
    QB_TRY(qb_map_open(cx, path, &f->map));
    qb_status status = check_header(f);
    if (status == QB_OK) status = check_sections(f);
    qb_debug(cx, "load: every byte checked in %.3g ms", (qb_now() - start) * 1e3);
    if (status != QB_OK) qb_map_close(&f->map);
    return status;
}

static const uint8_t *section(const opened *f, qb_file_section which, size_t *size) {
    *size = f->header.section[which].size;
    return f->map.data + f->header.section[which].offset;
}

/* ---- engine ---- */

typedef struct loading {
    opened *f;
    qb_arena *arena; /* of what was read */
    qb_file_plan_read plan;
    int32_t ordinal;       /* of the device */
    double device_seconds; /* until it was open */
    bool same;             /* program and processor are those of the build */
    qb_engine_file *file;
} loading;

/* Opens the device where one is needed, to know how long that takes; the check of fit says why it
 * cannot be. */
static void wake_device(loading *l) {
    const char *backends = l->plan.head.backends;
    char first[sizeof l->plan.head.backends];
    qb_ctx cx;
    if (l->plan.device.float_type == QB_DTYPE_NONE) return;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(backends, ","), backends);
    const qb_device_api *device = qb_device_find(first);
    const double start = qb_now();
    qb_ctx_child(l->f->cx, &cx);
    if (device) (void)device->open(&cx, l->ordinal, NULL);
    l->device_seconds = qb_now() - start;
    qb_ctx_clear(&cx);
}

static qb_status check_tags(loading *l) {
    size_t size;
    const uint8_t *text = section(l->f, QB_FILE_TAGS, &size);
    json_t *tags = json_loadb((const char *)text, size, JSON_REJECT_DUPLICATES, NULL);
    qb_status status = json_is_object(tags) ? qb_file_fit(l->f->cx, l->f->path, tags,
                                                          l->plan.head.flags & QB_FILE_COMPATIBLE,
                                                          l->ordinal, &l->same)
                                            : damaged(l->f, "tags are no JSON");
    json_decref(tags);
    return status;
}

static qb_status make_zeros(const loading *l) {
    const uint64_t bytes = l->plan.head.hole_bytes;
    if (bytes == 0) return QB_OK;
    if (bytes > SIZE_MAX / 2) return damaged(l->f, "a constant that does not fit");
    void *zeros =
        mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED)
        return qb_fail_errno(l->f->cx, "%s: %llu bytes of address space", l->f->path,
                             (unsigned long long)bytes);
    l->file->zeros = zeros;
    l->file->n_zeros = (size_t)bytes;
    return QB_OK;
}

/* The graph's constants belong to the file. */
static qb_status read_graph(const loading *l, qb_graph **out) {
    size_t size;
    const uint8_t *bytes = section(l->f, QB_FILE_GRAPH, &size);
    qb_store_memory memory = {.zeros = l->file->zeros, .n_zeros = l->file->n_zeros};
    memory.apart = section(l->f, QB_FILE_WEIGHTS, &memory.n_apart);
    QB_TRY(qb_graph_restore(l->f->cx, l->f->path, bytes, size, &memory, out));
    if ((*out)->n_inputs == l->plan.head.n_inputs) return QB_OK;
    qb_graph_free(*out);
    return damaged(l->f, "the plan is of another graph");
}

static qb_again how_of(const loading *l) {
    const qb_file_plan *head = &l->plan.head;
    return (qb_again){.backends = head->backends,
                      .threads = head->threads,
                      .workspace_limit = (size_t)head->workspace_limit,
                      .device_float = (qb_dtype)l->plan.device.float_type,
                      .mixed = l->plan.device.mixed,
                      .without = l->plan.device.without,
                      .bf16 = head->flags & QB_FILE_BF16,
                      .tf32 = l->plan.device.tf32,
                      .ordinal = l->ordinal};
}

/* The same kernels as at the build; where program or processor are others, those that are best
 * here. Takes the graph over; `plans` (NULL: none) will be the engine's. */
static qb_status plan_again(const loading *l, qb_graph *graph, qb_plans *plans, qb_engine **out) {
    const qb_file_plan *head = &l->plan.head;
    const qb_replay replay = {.tactic = l->plan.tactics,
                              .name = l->plan.names,
                              .variant = l->plan.variants,
                              .n = head->n_tactics,
                              .half = l->plan.half,
                              .n_half = l->plan.device.n_half,
                              .compiled = l->plan.compiled};
    qb_again how = how_of(l);
    how.replay = l->same ? &replay : NULL;
    how.plans = plans;
    how.hints = plans && l->same ? &plans->hints[0] : NULL;
    qb_engine *engine;
    const double start = qb_now();
    QB_TRY_WRAP(l->f->cx, qb_engine_again(l->f->cx, graph, &how, &engine), "%s", l->f->path);
    qb_debug(l->f->cx, "load: planned again in %.3g ms", (qb_now() - start) * 1e3);
    qb_status status = QB_OK;
    if (l->same && (engine->n_steps != head->n_steps || engine->n_recorded != head->n_tactics))
        status = qb_fail(l->f->cx, QB_STATUS_MISMATCH,
                         "%s: made again, the engine has %d steps, the file %d: build it anew",
                         l->f->path, engine->n_steps, head->n_steps);
    else
        status = qb_engine_in_parts(l->f->cx, engine, head->parts, head->batch);
    if (status == QB_OK)
        *out = engine;
    else
        qb_engine_free(engine);
    return status;
}

/* Packed constants from the file, or from its plain weights. */
static qb_status take_weights(const loading *l, qb_engine *engine) {
    size_t size;
    const uint8_t *packed = section(l->f, QB_FILE_PACKED, &size);
    if (l->plan.head.flags & QB_FILE_COMPATIBLE) return qb_engine_pack(l->f->cx, engine);
    if (engine->memory.weights != size)
        return qb_fail(l->f->cx, QB_STATUS_MISMATCH,
                       "%s: made again, the engine has %zu bytes of weights, the file %zu: build "
                       "it anew",
                       l->f->path, engine->memory.weights, size);
    engine->packed = (void *)(uintptr_t)packed; /* never written */
    engine->packed_mapped = true;
    if (!engine->device) return QB_OK;
    const double start = qb_now();
    QB_TRY(qb_device_adopt(l->f->cx, engine, packed + size - engine->device_constants));
    qb_debug(l->f->cx, "load: %zu bytes brought to the device in %.3g ms", engine->device_constants,
             (qb_now() - start) * 1e3);
    return QB_OK;
}

static qb_status make_engine(const loading *l, qb_graph *graph, qb_plans *plans, qb_engine **out) {
    qb_engine *engine;
    QB_TRY(plan_again(l, graph, plans, &engine));
    qb_status status = take_weights(l, engine);
    if (status == QB_OK)
        *out = engine;
    else
        qb_engine_free(engine);
    return status;
}

static qb_status load_fixed(const loading *l, qb_graph *graph, qb_engine **out) {
    return make_engine(l, graph, NULL, out);
}

/* The engine's own shapes; those of a part where it runs the batch in parts. */
static qb_status bind_usual(const loading *l, const qb_plans *plans, qb_graph **out) {
    const size_t n = (size_t)plans->n_inputs;
    qb_shape *shapes = qb_alloc(l->f->cx, n, sizeof *shapes);
    if (!shapes) return l->f->cx->code;
    for (size_t i = 0; i < n; i++) {
        shapes[i] = plans->profiles[0].opt[i];
        if (shapes[i].rank > 0) shapes[i].dim[0] /= l->plan.head.parts;
    }
    qb_status status = qb_graph_bind_sharing(l->f->cx, plans->graph, shapes, out);
    qb_free(shapes);
    return status;
}

static qb_status load_profiles(const loading *l, qb_graph *graph, qb_engine **out) {
    const qb_file_plan *head = &l->plan.head;
    qb_ctx *cx = l->f->cx;
    qb_status status = QB_OK;
    qb_plans *plans;
    qb_engine *engine = NULL;
    qb_graph *bound;
    const qb_file_device *device = &l->plan.device;
    const qb_again how = how_of(l);
    QB_TRY(qb_plans_create(cx, graph, l->plan.profiles, head->n_profiles, &how, &plans));
    QB_GO(qb_plans_hint(cx, plans, l->plan.hints));
    QB_GO(bind_usual(l, plans, &bound));
    QB_GO(make_engine(l, bound, plans, &engine));
    if (engine->device && !l->same) {
        QB_GO(qb_plans_take_hints(cx, plans, 0, engine));
        qb_plans_drop_reals(plans, false);
    }
    if (engine->device && l->same)
        QB_GO(qb_compiled_lend_all(cx, engine->compiled, l->plan.compiled));
    plans->built = (qb_plans_need){.arena = (size_t)(head->arena - device->arena),
                                   .workspace = (size_t)(head->workspace - device->workspace),
                                   .device_arena = (size_t)device->arena,
                                   .device_workspace = (size_t)device->workspace};
    plans->need = plans->built;
    status = qb_plans_attach(cx, plans, engine);
    plans = NULL;
    if (status != QB_OK) goto out;
    *out = engine;
    engine = NULL;
out:
    qb_engine_free(engine);
    qb_plans_free(plans);
    return status;
}

/* The engine takes the map over. */
static qb_status load(opened *f, int32_t ordinal, qb_engine **out) {
    loading l = {.f = f, .ordinal = ordinal};
    qb_engine *engine = NULL;
    qb_graph *graph;
    size_t size;
    qb_status status = QB_OK;
    QB_TRY(qb_arena_create(f->cx, &l.arena));
    l.file = qb_alloc(f->cx, 1, sizeof *l.file);
    if (!l.file) QB_GO(f->cx->code);
    const uint8_t *plan = section(f, QB_FILE_PLAN, &size);
    QB_GO(qb_file_plan_get(f->cx, l.arena, f->path, plan, size, &l.plan));
    wake_device(&l);
    QB_GO(check_tags(&l));
    QB_GO(make_zeros(&l));
    QB_GO(read_graph(&l, &graph));
    QB_GO((l.plan.head.n_profiles > 0 ? load_profiles : load_fixed)(&l, graph, &engine));
    engine->device_seconds = l.device_seconds;
    engine->file = l.file;
    l.file->map = f->map;
    f->map = (qb_map){0};
    l.file = NULL;
    *out = engine;
out:
    qb_engine_file_free(l.file);
    qb_compiled_free(l.plan.compiled);
    qb_arena_free(l.arena);
    return status;
}

qb_status qb_engine_load_on(qb_ctx *cx, const char *path, int32_t device, qb_engine **out) {
    opened f;
    QB_TRY(open_file(cx, path, &f));
    qb_status status = load(&f, device, out);
    qb_map_close(&f.map);
    return status;
}

qb_status qb_engine_load(qb_ctx *cx, const char *path, qb_engine **out) {
    return qb_engine_load_on(cx, path, 0, out);
}

bool qb_engine_file_is(const char *path) {
    qb_ctx quiet; /* what cannot be read is for its reader to tell */
    qb_map map;
    qb_ctx_init(&quiet);
    if (qb_map_open(&quiet, path, &map) != QB_OK) return false;
    const bool is = starts_as_one(&map);
    qb_map_close(&map);
    return is;
}

qb_status qb_engine_file_tags(qb_ctx *cx, const char *path, char **json) {
    opened f;
    size_t size;
    QB_TRY(open_file(cx, path, &f));
    const uint8_t *text = section(&f, QB_FILE_TAGS, &size);
    *json = qb_format(cx, "%.*s", (int)size, (const char *)text);
    qb_map_close(&f.map);
    return *json ? QB_OK : cx->code;
}

qb_status qb_engine_file_command(qb_ctx *cx, const char *path, char **command) {
    char *text;
    QB_TRY(qb_engine_file_tags(cx, path, &text));
    json_t *tags = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    qb_free(text);
    if (!json_is_object(tags))
        qb_fail(cx, QB_STATUS_FORMAT, "%s: the tags are no JSON object", path);
    else
        *command = qb_file_command(cx, path, tags);
    const qb_status status = json_is_object(tags) && *command ? QB_OK : cx->code;
    json_decref(tags);
    return status;
}
