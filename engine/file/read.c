/* Files to engines. */
#include <string.h>
#include <sys/mman.h>

#include "base/file_kind.h"
#include "base/log.h"
#include "base/processor.h"
#include "base/sign.h"
#include "engine/backends.h"
#include "engine/device_internal.h"
#include "engine/file/file_internal.h"
#include "engine/plans_internal.h"
#include "engine/realize/realize_internal.h"
#include "engine/tune/tune_internal.h"
#include "graph/store.h"

/* ---- container ---- */

#define TAGS_MAX ((size_t)256 << 20) /* bytes of tags, and of descriptions of steps */

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
    if (h->format != QB_ENGINE_FILE_FORMAT || h->n_sections != QB_FILE_SECTIONS ||
        (h->flags & ~QB_FILE_COMPATIBLE) || h->none)
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
        qb_hash hash;
        QB_TRY(qb_hash_all(f->cx, f->map.data + s->offset, s->size, &hash));
        if (!qb_hash_equal(s->hash, hash))
            return qb_fail(f->cx, QB_STATUS_FORMAT,
                           "%s: damaged engine file: section %s does not have its hash", f->path,
                           qb_file_names[i]);
        end = s->offset + s->size;
    }
    return end == f->map.size ? QB_OK : damaged(f, "bytes behind the last section");
}

/* Beside the file, as PATH.sig, lies the signature of all its bytes: those that are looked at here.
 */
static qb_status check_signature(const opened *f) {
    QB_FREED char *path = qb_format(f->cx, "%s.sig", f->path), *signature = NULL;
    size_t size = 0;
    if (!path) return f->cx->code;
    qb_status status = qb_file_read(f->cx, path, QB_SIGNATURE_BYTES, &signature, &size);
    if (status == QB_OK)
        status = qb_sign_check(f->cx, f->cx->engine_key, f->path, f->map.data, f->map.size,
                               (const uint8_t *)signature, size);
    else if (status == QB_STATUS_NOTFOUND)
        status = qb_fail(f->cx, QB_STATUS_MISMATCH, "%s: it is not signed: there is no %s", f->path,
                         path);
    return status;
}

static qb_status open_file(qb_ctx *cx, const char *path, opened *f) {
    *f = (opened){.cx = cx, .path = path};
    const double start = qb_now();
    QB_TRY(qb_map_open(cx, path, &f->map));
    qb_status status = cx->engine_key ? check_signature(f) : QB_OK;
    if (status == QB_OK) status = check_header(f);
    if (status == QB_OK) status = check_sections(f);
    qb_debug(cx, "load: every byte checked in %.3g ms", (qb_now() - start) * 1e3);
    return status;
}

static void opened_release(opened *f) { qb_map_close(&f->map); }

static const uint8_t *section(const opened *f, qb_file_section which, size_t *size) {
    *size = f->header.section[which].size;
    return f->map.data + f->header.section[which].offset;
}

/* ---- engine ---- */

typedef struct loading {
    opened *f;
    qb_plan *plan;         /* until the engine owns it */
    qb_compiled *compiled; /* lent from the file */
    double device_seconds; /* until it was open */
    bool same;             /* program and processor are those of the build */
    qb_engine_file *file;
} loading;

static qb_status read_plan(loading *l, int32_t ordinal) {
    qb_ctx *cx = l->f->cx;
    size_t size;
    const uint8_t *text = section(l->f, QB_FILE_PLAN, &size);
    QB_TRY(qb_plan_read(cx, l->f->path, (const char *)text, size, &l->plan));
    l->plan->spec.device = ordinal;
    text = section(l->f, QB_FILE_COMPILED, &size);
    if (cx->no_machine_code) size = 0;
    return qb_file_compiled_get(cx, l->f->path, text, size, &l->compiled);
}

/* Opens the device where one is needed, to know how long that takes; the check of fit says why it
 * cannot be. */
static void wake_device(loading *l) {
    const qb_build_spec *spec = &l->plan->spec;
    qb_backend_list list;
    qb_ctx cx;
    const double start = qb_now();
    qb_ctx_child(l->f->cx, &cx);
    if (qb_backends_parse(&cx, spec->backends, &list) == QB_OK && list.device)
        (void)list.device->open(&cx, spec->device, NULL);
    l->device_seconds = list.device ? qb_now() - start : 0;
    qb_ctx_clear(&cx);
}

static qb_status check_tags(loading *l) {
    size_t size;
    const uint8_t *text = section(l->f, QB_FILE_TAGS, &size);
    json_auto_t *tags = size <= TAGS_MAX
                            ? json_loadb((const char *)text, size, JSON_REJECT_DUPLICATES, NULL)
                            : NULL;
    return json_is_object(tags) ? qb_file_fit(l->f->cx, l->f->path, tags, l->f->header.flags,
                                              l->plan->spec.device, &l->same)
                                : damaged(l->f, "tags are no JSON");
}

static qb_status make_zeros(const loading *l) {
    const uint64_t bytes = l->f->header.hole_bytes;
    if (bytes == 0) return QB_OK;
    /* Weights that are packed here would be zeros. */
    if (l->f->header.flags || l->plan->spec.n_profiles > 0)
        return damaged(l->f, "constants are left out that it packs at each load");
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
    if ((*out)->n_inputs == l->plan->n_inputs) return QB_OK;
    qb_graph_free(*out);
    return damaged(l->f, "the plan is of another graph");
}

/* Where program or processor are others, rows are chosen anew for a graph that is bound. */
static qb_status tune_anew(loading *l, const qb_graph *graph, qb_plans *plans) {
    qb_tuning_state known = {0};
    qb_graph *copy;
    QB_RELEASED(qb_plan_free_at) qb_plan *tuned = NULL;
    QB_TRY(qb_graph_clone(l->f->cx, graph, &copy));
    qb_build_spec spec = l->plan->spec;
    spec.n_profiles = 0;
    if (plans) spec.input_shapes = l->plan->spec.profiles[0].opt;
    const qb_status status = qb_plan_tune_bound(l->f->cx, copy, &spec, plans, &known, &tuned);
    qb_timings_free(known.timings);
    QB_TRY(status);
    tuned->table[0].parts = l->plan->table[0].parts;
    return qb_plan_set_table(l->f->cx, l->plan, 0, &tuned->table[0]);
}

/* Takes the bound graph over; `plans` (NULL: none) will be the engine's. */
static qb_status realize(loading *l, qb_graph *graph, qb_plans *plans, qb_engine **out) {
    const double start = qb_now();
    qb_backend_list list;
    qb_status status = qb_processor_check(l->f->cx);
    if (status == QB_OK) status = qb_backends_parse(l->f->cx, l->plan->spec.backends, &list);
    if (status == QB_OK) status = qb_build_check_float_type(l->f->cx, &l->plan->spec, &list);
    if (status == QB_OK && !l->same) status = tune_anew(l, graph, plans);
    if (status == QB_OK)
        status = qb_realize(l->f->cx, graph, l->plan, plans, l->compiled, out);
    else
        qb_graph_free(graph);
    if (status != QB_OK) return qb_wrap(l->f->cx, "%s", l->f->path);
    l->plan = NULL;
    qb_debug(l->f->cx, "load: realized in %.3g ms", (qb_now() - start) * 1e3);
    return QB_OK;
}

/* Packed constants from the file, or from its plain weights. */
static qb_status take_weights(const loading *l, qb_engine *engine) {
    size_t size;
    const uint8_t *packed = section(l->f, QB_FILE_PACKED, &size);
    if (l->f->header.flags) return qb_engine_pack(l->f->cx, engine);
    if (engine->memory.weights != size)
        return qb_fail(l->f->cx, QB_STATUS_MISMATCH,
                       "%s: made again, the engine has %zu bytes of weights, the file %zu: build "
                       "it anew",
                       l->f->path, engine->memory.weights, size);
    engine->packed.data = (void *)(uintptr_t)packed; /* never written */
    engine->packed.mapped = true;
    if (!engine->device) return QB_OK;
    const double start = qb_now();
    QB_TRY(qb_device_upload_constants(l->f->cx, engine, packed + size - engine->on.constants));
    qb_debug(l->f->cx, "load: %zu bytes uploaded in %.3g ms", engine->on.constants,
             (qb_now() - start) * 1e3);
    return QB_OK;
}

static qb_status make_engine(loading *l, qb_graph *graph, qb_plans *plans, qb_engine **out) {
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    size_t size;
    QB_TRY(realize(l, graph, plans, &engine));
    QB_TRY(take_weights(l, engine));
    const uint8_t *tail = section(l->f, QB_FILE_TAIL, &size);
    if (size > 0 && plans) return damaged(l->f, "a tail behind ranges of shapes");
    QB_TRY(qb_file_tail_get(l->f->cx, l->f->path, tail, size, engine));
    *out = QB_MOVE(engine);
    return QB_OK;
}

static qb_status load_profiles(loading *l, qb_graph *graph, qb_engine **out) {
    const qb_file_header *h = &l->f->header;
    qb_ctx *cx = l->f->cx;
    QB_RELEASED(qb_plans_free_at) qb_plans *plans = NULL;
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    qb_graph *bound;
    QB_TRY(qb_plans_create(cx, graph, l->plan, qb_profile_realize, &plans));
    QB_TRY(qb_plan_bind(cx, plans->graph, l->plan, true, &bound));
    QB_TRY(make_engine(l, bound, plans, &engine));
    if (engine->device && !l->same) qb_plans_drop_floats(plans, false);
    if (engine->device && l->same)
        QB_TRY(qb_compiled_borrow_all(cx, engine->compiled, l->compiled));
    plans->built = (qb_plans_need){.arena = (size_t)h->arena,
                                   .workspace = (size_t)h->workspace,
                                   .device_arena = (size_t)h->device_arena,
                                   .device_workspace = (size_t)h->device_workspace};
    plans->need = plans->built;
    QB_TRY(qb_plans_attach(cx, QB_MOVE(plans), engine));
    *out = QB_MOVE(engine);
    return QB_OK;
}

/* The engine takes the map over. */
static qb_status load(opened *f, int32_t ordinal, qb_engine **out) {
    loading l = {.f = f};
    qb_engine *engine = NULL;
    qb_graph *graph;
    qb_status status = QB_OK;
    QB_GO_NEW(f->cx, l.file = qb_alloc(f->cx, 1, sizeof *l.file));
    QB_GO(read_plan(&l, ordinal));
    wake_device(&l);
    QB_GO(check_tags(&l));
    QB_GO(make_zeros(&l));
    QB_GO(read_graph(&l, &graph));
    QB_GO(l.plan->spec.n_profiles > 0 ? load_profiles(&l, graph, &engine)
                                      : make_engine(&l, graph, NULL, &engine));
    engine->on.seconds = l.device_seconds;
    engine->file = l.file;
    l.file->map = QB_MOVE(f->map);
    l.file = NULL;
    *out = engine;
out:
    qb_engine_file_free(l.file);
    qb_compiled_free(l.compiled);
    qb_plan_free(l.plan);
    return status;
}

qb_status qb_engine_load_on(qb_ctx *cx, const char *path, int32_t device, qb_engine **out) {
    QB_RELEASED(opened_release) opened f = {0};
    QB_TRY(open_file(cx, path, &f));
    return load(&f, device, out);
}

qb_status qb_engine_load(qb_ctx *cx, const char *path, qb_engine **out) {
    return qb_engine_load_on(cx, path, 0, out);
}

bool qb_engine_file_is(const char *path) {
    qb_ctx quiet; /* what cannot be read is for its reader to tell */
    QB_RELEASED(qb_map_close) qb_map map = {0};
    qb_ctx_init(&quiet);
    if (qb_map_open(&quiet, path, &map) != QB_OK) return false;
    return starts_as_one(&map);
}

/* The steps become the last key of the tags. */
qb_status qb_engine_file_tags(qb_ctx *cx, const char *path, char **json) {
    QB_RELEASED(opened_release) opened f = {0};
    size_t n_tags, n_steps;
    QB_TRY(open_file(cx, path, &f));
    const char *tags = (const char *)section(&f, QB_FILE_TAGS, &n_tags);
    const char *steps = (const char *)section(&f, QB_FILE_STEPS, &n_steps);
    while (n_tags > 0 && tags[n_tags - 1] != '}') n_tags--;
    if (n_tags == 0 || n_tags > TAGS_MAX || n_steps > TAGS_MAX)
        return damaged(&f, "tags are no JSON of an accepted size");
    qb_strbuf text = {0};
    qb_strbuf_addn(&text, tags, n_tags - 1);
    qb_strbuf_add(&text, ", \"steps\": ");
    qb_strbuf_addn(&text, steps, n_steps);
    qb_strbuf_add(&text, "}");
    return qb_strbuf_take(cx, &text, json);
}

qb_status qb_engine_file_plan(qb_ctx *cx, const char *path, char **json) {
    QB_RELEASED(opened_release) opened f = {0};
    size_t size;
    QB_TRY(open_file(cx, path, &f));
    const char *text = (const char *)section(&f, QB_FILE_PLAN, &size);
    return qb_plan_indent(cx, path, text, size, json);
}

qb_status qb_engine_file_command(qb_ctx *cx, const char *path, char **command) {
    char *text;
    QB_TRY(qb_engine_file_tags(cx, path, &text));
    json_auto_t *tags = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    qb_free(text);
    if (!json_is_object(tags))
        qb_fail(cx, QB_STATUS_FORMAT, "%s: the tags are no JSON object", path);
    else
        *command = qb_file_command(cx, path, tags);
    return json_is_object(tags) && *command ? QB_OK : cx->code;
}
