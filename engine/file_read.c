/* Files to engines. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/file_internal.h"
#include "graph/store.h"

#define TACTICS_MAX 1000000
#define THREADS_MAX 4096

void qb_engine_processor(char *text, size_t n) {
    text[0] = '\0';
#if defined(__x86_64__)
#define FEATURE(name)                                                                              \
    if (__builtin_cpu_supports(name)) {                                                            \
        const size_t at = strlen(text);                                                            \
        snprintf(text + at, n - at, "%s%s", at ? " " : "", name);                                  \
    }
    FEATURE("avx2")
    FEATURE("fma")
    FEATURE("avx512f")
    FEATURE("avx512bw")
    FEATURE("avx512dq")
    FEATURE("avx512vl")
    FEATURE("avx512vnni")
    FEATURE("avx512bf16")
#undef FEATURE
#endif
    if (!text[0]) snprintf(text, n, "portable");
}

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

static qb_status check_header(opened *f) {
    qb_file_header *h = &f->header;
    if (f->map.size < sizeof *h || memcmp(f->map.data, QB_FILE_MAGIC, sizeof h->magic) != 0)
        return qb_fail(f->cx, QB_STATUS_FORMAT, "%s: not a qbench engine file", f->path);
    memcpy(h, f->map.data, sizeof *h);
    if (h->format > QB_ENGINE_FILE_FORMAT)
        return qb_fail(f->cx, QB_STATUS_FORMAT,
                       "%s: written by a newer qbench: format %u, this one reads up to %d", f->path,
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
        const uint64_t unit = i == QB_FILE_PACKED ? QB_FILE_PAGE : QB_FILE_LINE;
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
    QB_TRY(qb_map_open(cx, path, &f->map));
    qb_status status = check_header(f);
    if (status == QB_OK) status = check_sections(f);
    if (status != QB_OK) qb_map_close(&f->map);
    return status;
}

static const uint8_t *section(const opened *f, qb_file_section which, size_t *size) {
    *size = f->header.section[which].size;
    return f->map.data + f->header.section[which].offset;
}

/* ---- does it fit? ---- */

static const char *text_of(const json_t *tags, const char *key) {
    const char *text = json_string_value(json_object_get(tags, key));
    return text ? text : "?";
}

static qb_status check_fit(const opened *f, const json_t *tags) {
    const json_t *built = json_object_get(tags, "built");
    char processor[256];
    qb_engine_processor(processor, sizeof processor);
    char *libraries = qb_engine_libraries(f->cx);
    if (!libraries) return f->cx->code;
    qb_status status = QB_OK;
    if (strcmp(text_of(built, "qbench"), QB_VERSION) != 0 ||
        strcmp(text_of(built, "processor"), processor) != 0 ||
        strcmp(text_of(built, "libraries"), libraries) != 0)
        status = qb_fail(f->cx, QB_STATUS_MISMATCH,
                         "%s: built by qbench %s (%s) for '%s'; this is qbench %s (%s) on '%s': "
                         "build it here with 'qbench build --model %s --precision %s -o %s'",
                         f->path, text_of(built, "qbench"), text_of(built, "libraries"),
                         text_of(built, "processor"), QB_VERSION, libraries, processor,
                         text_of(tags, "model"), text_of(tags, "precision"), f->path);
    qb_free(libraries);
    return status == QB_OK ? qb_file_plugins_check(f->cx, f->path, tags) : status;
}

static qb_status check_tags(const opened *f) {
    size_t size;
    const uint8_t *text = section(f, QB_FILE_TAGS, &size);
    json_t *tags = json_loadb((const char *)text, size, JSON_REJECT_DUPLICATES, NULL);
    qb_status status = json_is_object(tags) ? check_fit(f, tags) : damaged(f, "tags are no JSON");
    json_decref(tags);
    return status;
}

/* ---- plan ---- */

static qb_status read_plan(const opened *f, qb_file_plan *plan, const qb_tactic ***tactics) {
    size_t size;
    const uint8_t *at = section(f, QB_FILE_PLAN, &size), *end = at + size;
    if (size < sizeof *plan) return damaged(f, "the plan is cut short");
    memcpy(plan, at, sizeof *plan);
    at += sizeof *plan;
    if (plan->parts < 1 || plan->batch < 0 || plan->threads < 1 || plan->threads > THREADS_MAX ||
        plan->n_tactics < 0 || plan->n_tactics > TACTICS_MAX || plan->reserved != 0 ||
        (plan->parts > 1 && plan->batch % plan->parts != 0) ||
        !memchr(plan->backends, '\0', sizeof plan->backends))
        return damaged(f, "the plan's numbers");
    *tactics = qb_alloc(f->cx, (size_t)plan->n_tactics, sizeof **tactics);
    if (!*tactics) return f->cx->code;
    for (int32_t i = 0; i < plan->n_tactics; i++) {
        char name[128];
        uint32_t n;
        if ((size_t)(end - at) < sizeof n) return damaged(f, "the plan is cut short");
        memcpy(&n, at, sizeof n);
        at += sizeof n;
        if (n >= sizeof name || n > (size_t)(end - at)) return damaged(f, "a tactic's name");
        memcpy(name, at, n);
        name[n] = '\0';
        at += n;
        (*tactics)[i] = qb_tactic_find(name);
        if (!(*tactics)[i] || (*tactics)[i]->device_memory)
            return qb_fail(f->cx, QB_STATUS_MISMATCH, "%s: this qbench has no tactic '%s'", f->path,
                           name);
    }
    return at == end ? QB_OK : damaged(f, "bytes behind the plan");
}

/* ---- engine ---- */

static qb_status make_zeros(const opened *f, uint64_t bytes, qb_engine_file *file) {
    if (bytes == 0) return QB_OK;
    if (bytes > SIZE_MAX / 2) return damaged(f, "a constant that does not fit");
    void *zeros =
        mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED)
        return qb_fail_errno(f->cx, "%s: %llu bytes of address space", f->path,
                             (unsigned long long)bytes);
    file->zeros = zeros;
    file->n_zeros = (size_t)bytes;
    return QB_OK;
}

/* The graph belongs to the engine, and its holes to the file: the engine goes first. */
static qb_status rebuild(const opened *f, const qb_file_plan *plan, const qb_tactic *const *tactics,
                         const qb_engine_file *file, qb_engine **out) {
    size_t size;
    const uint8_t *bytes = section(f, QB_FILE_GRAPH, &size);
    const qb_replay replay = {.tactic = tactics, .n = plan->n_tactics};
    qb_graph *graph;
    qb_engine *engine;
    QB_TRY(qb_graph_restore(f->cx, f->path, bytes, size, file->zeros, file->n_zeros, &graph));
    QB_TRY_WRAP(f->cx,
                qb_engine_again(f->cx, graph, plan->backends, plan->threads, &replay, &engine),
                "%s", f->path);
    qb_status status = QB_OK;
    section(f, QB_FILE_PACKED, &size);
    if (engine->n_steps != plan->n_steps || engine->n_recorded != plan->n_tactics ||
        engine->memory.weights != size)
        status = qb_fail(f->cx, QB_STATUS_MISMATCH,
                         "%s: made again, the engine has %d steps and %zu bytes of weights, the "
                         "file %d and %zu: build it anew",
                         f->path, engine->n_steps, engine->memory.weights, plan->n_steps, size);
    else
        status = qb_engine_in_parts(f->cx, engine, plan->parts, plan->batch);
    if (status == QB_OK)
        *out = engine;
    else
        qb_engine_free(engine);
    return status;
}

/* The engine takes the map over. */
static qb_status load(opened *f, qb_engine **out) {
    qb_file_plan plan;
    const qb_tactic **tactics = NULL;
    qb_engine *engine = NULL;
    size_t size;
    qb_status status = QB_OK;
    qb_engine_file *file = qb_alloc(f->cx, 1, sizeof *file);
    if (!file) return f->cx->code;
    QB_GO(check_tags(f));
    QB_GO(read_plan(f, &plan, &tactics));
    QB_GO(make_zeros(f, plan.hole_bytes, file));
    QB_GO(rebuild(f, &plan, tactics, file, &engine));
    engine->packed = (void *)section(f, QB_FILE_PACKED, &size); /* never written */
    engine->file = file;
    file->map = f->map;
    f->map = (qb_map){0};
    file = NULL;
    *out = engine;
out:
    qb_engine_file_free(file);
    qb_free(tactics);
    return status;
}

qb_status qb_engine_load(qb_ctx *cx, const char *path, qb_engine **out) {
    opened f;
    QB_TRY(open_file(cx, path, &f));
    qb_status status = load(&f, out);
    qb_map_close(&f.map);
    return status;
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
