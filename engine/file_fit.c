/* Does an engine file fit this program and this processor? */
#include <stdio.h>
#include <string.h>

#include "engine/file_internal.h"

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

static const char *text_of(const json_t *tags, const char *key) {
    const char *text = json_string_value(json_object_get(tags, key));
    return text ? text : "?";
}

typedef struct machine {
    const char *version, *libraries, *processor;
} machine;

/* Both sides, and the command that builds the same engine here. */
static qb_status misfit(qb_ctx *cx, const char *path, const json_t *tags, const machine *built,
                        const machine *here, const char *way_out) {
    const char *more = json_string_value(json_object_get(tags, "options"));
    return qb_fail(cx, QB_STATUS_MISMATCH,
                   "%s: built by qbench %s (%s) for '%s'; this is qbench %s (%s) on '%s': "
                   "build it here with 'qbench build --model %s --precision %s%s%s -o %s', or "
                   "there with %s",
                   path, built->version, built->libraries, built->processor, here->version,
                   here->libraries, here->processor, text_of(tags, "model"),
                   text_of(tags, "precision"), more && *more ? " " : "", more ? more : "", path,
                   way_out);
}

static qb_status compare(qb_ctx *cx, const char *path, const json_t *tags, uint32_t compatible,
                         const machine *here, bool *same) {
    const json_t *tag = json_object_get(tags, "built");
    const machine built = {text_of(tag, "qbench"), text_of(tag, "libraries"),
                           text_of(tag, "processor")};
    const bool program =
        strcmp(built.version, here->version) == 0 && strcmp(built.libraries, here->libraries) == 0;
    const bool processor = strcmp(built.processor, here->processor) == 0;
    const bool program_fits = program || (compatible & QB_FILE_VERSION_COMPATIBLE);
    const bool processor_fits = processor || (compatible & QB_FILE_HARDWARE_COMPATIBLE);
    *same = program && processor;
    if (program_fits && processor_fits) return QB_OK;
    return misfit(cx, path, tags, &built, here,
                  program_fits     ? "--hardware-compatible"
                  : processor_fits ? "--version-compatible"
                                   : "--version-compatible --hardware-compatible");
}

qb_status qb_file_fit(qb_ctx *cx, const char *path, const json_t *tags, uint32_t compatible,
                      bool *same) {
    char processor[256];
    qb_engine_processor(processor, sizeof processor);
    char *libraries = qb_engine_libraries(cx);
    if (!libraries) return cx->code;
    const machine here = {QB_VERSION, libraries, processor};
    qb_status status = compare(cx, path, tags, compatible, &here, same);
    qb_free(libraries);
    return status == QB_OK ? qb_file_plugins_check(cx, path, tags) : status;
}
