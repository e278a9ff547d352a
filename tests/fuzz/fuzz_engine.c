/* The reader of engine files: the bytes as they are and, so that mutations get past the hashes and
 * seeds of other machines past the tags, composed anew with tags of this machine. What loads also
 * runs once, when it is small. Plans of a device load and run on the one of tests/providers, which
 * needs no GPU. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/file/file_internal.h"
#include "engine/profiles.h"
#include "fake_device.h"
#include "kernels/cuda/vendor/cudnn_text/cudnn_text.h"

#define ARENA_MAX ((size_t)1 << 20)
#define FLOPS_MAX 1e7

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double flops(const qb_engine *engine) {
    double sum = 0;
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info s;
        qb_engine_step(engine, i, &s);
        sum += s.flops;
    }
    return sum;
}

static size_t port_bytes(const qb_engine *engine) {
    size_t sum = 0;
    for (int32_t i = 0; i < qb_engine_n_inputs(engine); i++)
        sum += qb_desc_bytes(qb_engine_input(engine, i));
    for (int32_t i = 0; i < qb_engine_n_outputs(engine); i++)
        sum += qb_desc_bytes(qb_engine_output(engine, i));
    return sum;
}

static bool is_small(const qb_engine *engine) {
    qb_engine_memory memory;
    qb_engine_memory_of(engine, &memory);
    return memory.arena + memory.workspace <= ARENA_MAX && port_bytes(engine) <= ARENA_MAX &&
           memory.parts <= 64 && flops(engine) < FLOPS_MAX;
}

static void run_plan(qb_ctx *cx, qb_context *context) {
    const qb_engine *engine = qb_context_engine(context);
    const int32_t n_in = qb_engine_n_inputs(engine), n_out = qb_engine_n_outputs(engine);
    if (!is_small(engine)) return;
    void **ports = calloc((size_t)(n_in + n_out) + 1, sizeof *ports);
    if (!ports) return;
    bool whole = true;
    for (int32_t i = 0; i < n_in + n_out; i++) {
        ports[i] = calloc(1, qb_desc_bytes(i < n_in ? qb_engine_input(engine, i)
                                                    : qb_engine_output(engine, i - n_in)) +
                                 1);
        whole = whole && ports[i];
    }
    if (whole) (void)qb_context_run(cx, context, (const void *const *)ports, ports + n_in);
    for (int32_t i = 0; i < n_in + n_out; i++) free(ports[i]);
    free(ports);
}

static bool is_small_shape(const qb_engine *engine, const qb_shape *shapes) {
    for (int32_t i = 0; i < qb_engine_n_inputs(engine); i++)
        if (!qb_shape_known(&shapes[i]) || qb_shape_count(&shapes[i]) < 0 ||
            qb_shape_count(&shapes[i]) > 4096)
            return false;
    return true;
}

/* At its own shapes, then at both ends of each profile. */
static void run(qb_ctx *cx, const qb_engine *engine) {
    qb_context *context = NULL;
    if (!is_small(engine) || qb_context_create(cx, engine, &context) != QB_OK) return;
    run_plan(cx, context);
    for (int32_t p = 0; p < qb_engine_n_profiles(engine); p++) {
        const qb_profile *profile = qb_engine_profile(engine, p);
        if (!is_small_shape(engine, profile->max)) continue;
        qb_ctx_clear(cx);
        if (qb_context_set_shapes(cx, context, profile->min) == QB_OK) run_plan(cx, context);
        qb_ctx_clear(cx);
        if (qb_context_set_shapes(cx, context, profile->max) == QB_OK) run_plan(cx, context);
    }
    qb_context_free(context);
}

static void load(const uint8_t *data, size_t size) {
    qb_ctx cx;
    char path[64];
    qb_engine *engine = NULL;
    qb_ctx_init(&cx);
    const int fd = memfd_create("fuzz.qbe", 0);
    if (fd < 0) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) {
        if (qb_engine_load(&cx, path, &engine) == QB_OK)
            run(&cx, engine);
        else if (engine || cx.code == QB_OK || cx.message[0] == '\0')
            abort();
    }
    qb_engine_free(engine);
    close(fd);
}

/* Where the input's own tags name a device, these do: the plan may say otherwise. */
static size_t tags_of_here(const uint8_t *own, size_t own_size, char *text, size_t n) {
    static const char key[] = "\"device\":";
    qb_ctx cx;
    char processor[256];
    const bool device = memmem(own, own_size, key, sizeof key - 1) != NULL;
    qb_ctx_init(&cx);
    qb_engine_processor(processor, sizeof processor);
    char *libraries = qb_engine_libraries(&cx);
    snprintf(
        text, n,
        "{\"built\": {\"qbench\": \"%s\", \"processor\": \"%s\", \"libraries\": \"%s\"%s%s%s%s%s}}",
        QB_VERSION, processor, libraries ? libraries : "",
        device ? ", \"backend\": \"cuda,cpu,ref\", \"host_steps\": 1, \"device\": \"" : "",
        device ? fake_device_hardware : "", device ? "\", \"driver\": \"" : "",
        device ? fake_device_software : "", device ? "\"" : "");
    qb_free(libraries);
    return strlen(text);
}

/* The sections that the input's table names, in a file whose table and hashes are right. New
 * memory; NULL when the table makes no sense. */
static uint8_t *compose(const uint8_t *data, size_t size, bool own_tags, size_t *composed) {
    qb_file_header from, to;
    char tags[1024];
    memcpy(&from, data, sizeof from);
    to = from;
    to.format = QB_ENGINE_FILE_FORMAT;
    to.n_sections = QB_FILE_SECTIONS;
    to.flags &= QB_FILE_COMPATIBLE;
    to.none = 0;
    memcpy(to.magic, QB_FILE_MAGIC, sizeof to.magic);
    size_t end = sizeof to;
    uint8_t *file = calloc(1, size + sizeof tags + 2 * QB_FILE_PAGE);
    for (int i = 0; file && i < QB_FILE_SECTIONS; i++) {
        const qb_file_entry *s = &from.section[i];
        const size_t unit = QB_FILE_UNIT(i);
        const bool own = i == QB_FILE_TAGS && !own_tags;
        if (s->offset > size || s->size > size - s->offset ||
            (!own && end + s->size > size + sizeof tags)) {
            free(file);
            return NULL;
        }
        qb_file_entry *entry = &to.section[i];
        memcpy(entry->name, qb_file_names[i], sizeof entry->name);
        entry->size = own ? tags_of_here(data + s->offset, s->size, tags, sizeof tags) : s->size;
        entry->offset = end = (end + unit - 1) / unit * unit;
        memcpy(file + end, own ? (const uint8_t *)tags : data + s->offset, entry->size);
        entry->hash = qb_hash_bytes(file + end, entry->size);
        end += entry->size;
    }
    if (!file) return NULL;
    to.file_size = *composed = end;
    to.hash = qb_hash_bytes(&to, offsetof(qb_file_header, hash));
    memcpy(file, &to, sizeof to);
    return file;
}

/* What was compiled for a device, looked at as it is before cuDNN gets it. */
static void look_at_compiled(const uint8_t *file) {
    qb_ctx cx;
    qb_file_header header;
    qb_compiled *compiled;
    qb_ctx_init(&cx);
    memcpy(&header, file, sizeof header);
    const qb_file_entry *section = &header.section[QB_FILE_COMPILED];
    if (qb_file_compiled_get(&cx, "fuzz", file + section->offset, section->size, &compiled) !=
        QB_OK)
        return;
    for (int32_t i = 0; i < qb_compiled_count(compiled); i++) {
        qb_hash key;
        size_t bytes;
        const char *text = qb_compiled_entry(compiled, i, &key, &bytes);
        char *moved = NULL;
        if (!qb_cudnn_text_is_plan(text, bytes)) continue;
        if (qb_cudnn_text_on(&cx, text, bytes, 1, 20, &moved) != QB_OK) abort();
        qb_free(moved);
    }
    qb_compiled_free(compiled);
}

/* The tags as people and other readers see them, whatever they are. */
static void look_at_tags(const uint8_t *data, size_t size) {
    char path[64], *text = NULL;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const int fd = memfd_create("fuzz.qbe", 0);
    if (fd < 0) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) {
        if (qb_engine_file_tags(&cx, path, &text) == QB_OK) qb_free(text);
        text = NULL;
        qb_ctx_clear(&cx);
        if (qb_engine_file_command(&cx, path, &text) == QB_OK) qb_free(text);
        text = NULL;
        qb_ctx_clear(&cx);
        if (qb_engine_file_plan(&cx, path, &text) == QB_OK) qb_free(text);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t composed;
    load(data, size);
    if (size < sizeof(qb_file_header)) return 0;
    uint8_t *file = compose(data, size, false, &composed);
    if (file) load(file, composed);
    if (file) look_at_compiled(file);
    free(file);
    file = compose(data, size, true, &composed);
    if (file) load(file, composed);
    if (file) look_at_tags(file, composed);
    free(file);
    return 0;
}
