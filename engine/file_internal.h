/* The container of engine files: a header with a table of sections, each with its hash. */
#ifndef QB_ENGINE_FILE_INTERNAL_H
#define QB_ENGINE_FILE_INTERNAL_H

#include <jansson.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "engine/engine_internal.h"
#include "engine/file.h"

#define QB_FILE_MAGIC "\x89QBE\r\n\x1a\n"
#define QB_FILE_PAGE 4096
#define QB_FILE_LINE 64

/* TAGS: JSON for people and for the check of fit. GRAPH: as in graph/store.h. PLAN: what the build
 * decided. WEIGHTS: constants as the graph has them. PACKED: constants in the kernels' own forms.
 * The last two are mapped. */
typedef enum qb_file_section {
    QB_FILE_TAGS,
    QB_FILE_GRAPH,
    QB_FILE_PLAN,
    QB_FILE_WEIGHTS,
    QB_FILE_PACKED
} qb_file_section;
#define QB_FILE_SECTIONS 5
/* The multiple of which a section's offset is. */
#define QB_FILE_UNIT(section) ((section) == QB_FILE_PACKED ? QB_FILE_PAGE : QB_FILE_LINE)

typedef struct qb_file_entry {
    char name[8];
    uint64_t offset, size;
    qb_hash hash;
} qb_file_entry;

typedef struct qb_file_header {
    char magic[8];
    uint32_t format, n_sections;
    uint64_t file_size;
    qb_file_entry section[QB_FILE_SECTIONS];
    qb_hash hash; /* of all before it */
} qb_file_header;

extern const char qb_file_names[QB_FILE_SECTIONS][8];

/* What is left of a file in the engine that was loaded from it. */
typedef struct qb_engine_file {
    qb_map map;
    void *zeros; /* what constants read as whose only use was packing */
    size_t n_zeros;
} qb_engine_file;
void qb_engine_file_free(qb_engine_file *file); /* accepts NULL */

/* engine/file_plugins.c: the tag "plugins": name, version, ABI and first node of each plugin. */
json_t *qb_file_plugins_json(const qb_engine *engine);
/* Are those that the tags name loaded, in the same version? */
qb_status qb_file_plugins_check(qb_ctx *cx, const char *path, const json_t *tags);

#define QB_FILE_VERSION_COMPATIBLE 1u
#define QB_FILE_HARDWARE_COMPATIBLE 2u
#define QB_FILE_COMPATIBLE (QB_FILE_VERSION_COMPATIBLE | QB_FILE_HARDWARE_COMPATIBLE)
#define QB_FILE_BF16 4u /* float steps are in bf16 where they can */

/* The head of the PLAN section. Behind it, texts being length-prefixed: the name of each tactic;
 * for each profile min, opt and max, each with a shape an input; for each profile the number of its
 * hints, and for each hint the value's and the tactic's name; for an engine of a device its part.
 */
typedef struct qb_file_plan {
    int64_t parts, batch; /* of the whole engine: items of a run */
    uint64_t hole_bytes, arena, workspace, workspace_limit;
    int32_t threads, n_tactics, n_steps, n_profiles, n_inputs;
    uint32_t flags;
    char backends[64];
} qb_file_plan;

/* The device's part of the PLAN section. Behind it the variant of each tactic (i32), n_half numbers
 * (i32, see qb_engine), what was compiled for its kernels: how many (i32), and of each the key
 * (qb_hash), the number of bytes (u32) and these; and for each profile the variant of each hint
 * (i32), the number of values in f16 (i32) and their names. */
typedef struct qb_file_device {
    uint32_t float_type; /* qb_dtype: F32 or F16 */
    int32_t mixed, n_half, tf32;
    uint32_t without, none;    /* sources of tactics; 0 */
    uint64_t arena, workspace; /* the device's part of the plan's */
} qb_file_device;

/* engine/file_plan.c */
qb_status qb_file_plan_put(qb_ctx *cx, const qb_engine *engine, size_t hole_bytes, uint32_t flags,
                           qb_strbuf *out);
#define QB_FILE_COMPILED_MAX ((uint32_t)16 << 20) /* bytes compiled for one kernel */
/* What was read: everything is in the arena but what was compiled. A tactic that this program lacks
 * is NULL. */
typedef struct qb_file_plan_read {
    qb_file_plan head;
    const qb_tactic **tactics; /* [n_tactics] */
    const char **names;        /* of the tactics */
    const int32_t *variants;   /* [n_tactics] */
    qb_profile *profiles;      /* [n_profiles] */
    struct qb_hints *hints;    /* [n_profiles] */
    qb_file_device device;     /* zeros where it is the host's */
    const int32_t *half;       /* [device.n_half] */
    qb_compiled *compiled;     /* lent from the file; the caller frees it. NULL: it is the host's */
} qb_file_plan_read;
qb_status qb_file_plan_get(qb_ctx *cx, qb_arena *arena, const char *path, const void *bytes,
                           size_t size, qb_file_plan_read *out);

/* engine/file_fit.c: the command that builds the file of these tags; new memory. */
char *qb_file_command(qb_ctx *cx, const char *path, const json_t *tags);
/* engine/file_fit.c: may a file with these tags be used here (on the device of that number)? *same:
 * program, processor and device are those that built it. */
qb_status qb_file_fit(qb_ctx *cx, const char *path, const json_t *tags, uint32_t compatible,
                      int32_t ordinal, bool *same);

#endif
