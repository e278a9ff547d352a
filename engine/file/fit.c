/* Does an engine file fit this program, this processor and this device? */
#include <stdio.h>
#include <string.h>

#include "base/processor.h"
#include "base/shell.h"
#include "base/text.h"
#include "engine/device_internal.h"
#include "engine/file/file_internal.h"

void qb_engine_processor(char *text, size_t n) {
    text[0] = '\0';
    for (int tier = QB_TIER_SCALAR + 1; tier < QB_TIER_COUNT; tier++) {
        if (!qb_processor_has((qb_tier)tier)) continue;
        const size_t at = strlen(text);
        snprintf(text + at, n - at, "%s%s", at ? " " : "", qb_tier_features((qb_tier)tier));
    }
    if (!text[0]) snprintf(text, n, "portable");
}

const char *qb_file_tag(const json_t *tags, const char *key) {
    const char *text = json_string_value(json_object_get(tags, key));
    return text ? text : "?";
}

/* Two sides of a file's fit: what --version-compatible and --hardware-compatible do without. New
 * memory. */
typedef struct machine {
    char *software; /* "0.1.0 (oneDNN 2.6.3)" */
    char *hardware; /* "avx2 fma avx512f", "NVIDIA H200, compute capability 9.0" */
} machine;

static void release(machine *m) { QB_FREE_ALL(m->software, m->hardware); }

char *qb_file_command(qb_ctx *cx, const char *path, const json_t *tags) {
    const char *more = json_string_value(json_object_get(tags, "options"));
    qb_strbuf out = {0};
    char *command = NULL;
    qb_strbuf_add(&out, "qbench build --model ");
    qb_shell_add_word(&out, QB_SHOWN(qb_file_tag(tags, "model")));
    qb_strbuf_add(&out, " --precision ");
    qb_shell_add_word(&out, QB_SHOWN(qb_file_tag(tags, "precision")));
    /* Options that only a hand could have written are left out. */
    if (more && *more && qb_shell_is_words(more)) qb_strbuf_addf(&out, " %s", more);
    qb_strbuf_add(&out, " --saveEngine=");
    qb_shell_add_word(&out, QB_SHOWN(path));
    return qb_strbuf_take(cx, &out, &command) == QB_OK ? command : NULL;
}

/* Both sides, and the command that builds the same engine here. */
static qb_status misfit(qb_ctx *cx, const char *path, const json_t *tags, const machine *built,
                        const machine *here, const char *way_out) {
    QB_FREED char *command = QB_NEW(cx, qb_file_command(cx, path, tags));
    qb_status status = qb_fail(cx, QB_STATUS_MISMATCH,
                               "%s: built by qbench %s for '%s'; this is qbench %s on '%s': "
                               "build it here with '%s', or there with %s",
                               path, built->software, built->hardware, here->software,
                               here->hardware, command, way_out);
    return status;
}

static qb_status compare(qb_ctx *cx, const char *path, const json_t *tags, uint32_t compatible,
                         const machine *built, const machine *here, bool *same) {
    const bool software = strcmp(built->software, here->software) == 0;
    const bool hardware = strcmp(built->hardware, here->hardware) == 0;
    const bool software_fits = software || (compatible & QB_FILE_VERSION_COMPATIBLE);
    const bool hardware_fits = hardware || (compatible & QB_FILE_HARDWARE_COMPATIBLE);
    *same = software && hardware;
    if (software_fits && hardware_fits) return QB_OK;
    return misfit(cx, path, tags, built, here,
                  software_fits   ? "--hardware-compatible"
                  : hardware_fits ? "--version-compatible"
                                  : "--version-compatible --hardware-compatible");
}

/* An engine of a device is bound to that, and to the processor and its libraries only where these
 * run some of its steps. */
static qb_status describe(qb_ctx *cx, const char *version, const char *libraries,
                          const char *processor, const qb_device_identity *device, bool host,
                          machine *out) {
    const bool both = device && host;
    out->software = qb_format(cx, "%s (%s%s%s)", version, device ? device->software : "",
                              both ? ", " : "", host ? libraries : "");
    out->hardware = qb_format(cx, "%s%s%s", device ? device->hardware : "", both ? ", " : "",
                              host ? processor : "");
    return out->software && out->hardware ? QB_OK : cx->code;
}

static qb_status describe_built(qb_ctx *cx, const json_t *tag, bool device, bool host,
                                machine *out) {
    qb_device_identity identity;
    snprintf(identity.hardware, sizeof identity.hardware, "%s", qb_file_tag(tag, "device"));
    snprintf(identity.software, sizeof identity.software, "%s", qb_file_tag(tag, "driver"));
    return describe(cx, qb_file_tag(tag, "qbench"), qb_file_tag(tag, "libraries"),
                    qb_file_tag(tag, "processor"), device ? &identity : NULL, host, out);
}

/* Why there is no such device stands in its place. */
static void look(qb_ctx *cx, const char *backend, int32_t ordinal, qb_device_identity *out) {
    const qb_device_api *device = qb_device_find(backend);
    *out = (qb_device_identity){0};
    if (!device) {
        snprintf(out->hardware, sizeof out->hardware, "a machine, without %s in it", backend);
    } else if (device->open(cx, ordinal, out) != QB_OK) {
        *out = (qb_device_identity){0};
        snprintf(out->hardware, sizeof out->hardware, "%.150s", cx->message);
        qb_ctx_clear(cx);
    }
    if (!out->software[0])
        snprintf(out->software, sizeof out->software, "no driver of %s", backend);
}

static qb_status describe_here(qb_ctx *cx, const char *backend, int32_t ordinal, bool device,
                               bool host, machine *out) {
    char processor[256];
    qb_device_identity identity;
    qb_engine_processor(processor, sizeof processor);
    if (device) look(cx, backend, ordinal, &identity);
    QB_FREED char *libraries = QB_NEW(cx, qb_engine_libraries(cx));
    return describe(cx, QB_VERSION, libraries, processor, device ? &identity : NULL, host, out);
}

/* Without the device not even a compatible engine runs. */
static qb_status need_device(qb_ctx *cx, const char *path, const char *backend, int32_t ordinal) {
    const qb_device_api *device = qb_device_find(backend);
    if (!device)
        return qb_fail(cx, QB_STATUS_MISMATCH, "%s: built for %s, which this qbench does not have",
                       path, backend);
    QB_TRY_WRAP(cx, device->open(cx, ordinal, NULL), "%s", path);
    return QB_OK;
}

qb_status qb_file_fit(qb_ctx *cx, const char *path, const json_t *tags, uint32_t compatible,
                      int32_t ordinal, bool *same) {
    const json_t *tag = json_object_get(tags, "built");
    const bool device = json_object_get(tag, "device") != NULL;
    const bool host = !device || json_integer_value(json_object_get(tag, "host_steps")) > 0;
    char backend[32]; /* of the device */
    snprintf(backend, sizeof backend, "%.*s", (int)strcspn(qb_file_tag(tag, "backend"), ","),
             qb_file_tag(tag, "backend"));
    machine built = {0}, here = {0};
    qb_status status = describe_built(cx, tag, device, host, &built);
    if (status == QB_OK) status = describe_here(cx, backend, ordinal, device, host, &here);
    if (status == QB_OK) status = compare(cx, path, tags, compatible, &built, &here, same);
    release(&built);
    release(&here);
    if (status == QB_OK && device) status = need_device(cx, path, backend, ordinal);
    return status == QB_OK ? qb_file_plugins_check(cx, path, tags) : status;
}
