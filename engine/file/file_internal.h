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

/* TAGS: JSON for people and for the check of fit. STEPS: what each step is, JSON, for people alone:
 * a part of the tags that loading need not read. GRAPH: as in graph/store.h. TAIL: what
 * runs behind it (engine/file/tail.c), or empty. PLAN: what the build
 * decided (engine/plan), JSON. COMPILED: what was compiled for the kernels of a device: of each the
 * key (qb_hash), the number of bytes (u32) and these. WEIGHTS: constants as the graph has them.
 * PACKED: constants in the kernels' own layouts. The last two are mapped. */
typedef enum qb_file_section {
    QB_FILE_TAGS,
    QB_FILE_STEPS,
    QB_FILE_GRAPH,
    QB_FILE_TAIL,
    QB_FILE_PLAN,
    QB_FILE_COMPILED,
    QB_FILE_WEIGHTS,
    QB_FILE_PACKED
} qb_file_section;
#define QB_FILE_SECTIONS 8
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
    uint32_t flags, none; /* QB_FILE_COMPATIBLE; 0 */
    uint64_t hole_bytes;  /* of the largest constant that the file does not have */
    /* that a context needs, for the largest shapes: of the host, of the device */
    uint64_t arena, workspace, device_arena, device_workspace;
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

/* engine/file/plugins.c: the tag "plugins": name, version, ABI and first node of each plugin. */
json_t *qb_file_plugins_json(const qb_engine *engine);
/* Are those that the tags name loaded, in the same version? */
qb_status qb_file_plugins_check(qb_ctx *cx, const char *path, const json_t *tags);

#define QB_FILE_VERSION_COMPATIBLE 1u
#define QB_FILE_HARDWARE_COMPATIBLE 2u
#define QB_FILE_COMPATIBLE (QB_FILE_VERSION_COMPATIBLE | QB_FILE_HARDWARE_COMPATIBLE)

/* engine/file/compiled.c */
#define QB_FILE_COMPILED_MAX ((uint32_t)16 << 20) /* bytes compiled for one kernel */
void qb_file_compiled_put(const qb_compiled *compiled, qb_strbuf *out);
/* What is read is lent from the file. */
qb_status qb_file_compiled_get(qb_ctx *cx, const char *path, const void *bytes, size_t size,
                               qb_compiled **out);

/* engine/file/tail.c: numbers of outputs and of bytes of --max-size (i32), of each output where it
 * comes from (i32), that text, the graph; nothing of an engine without a tail. */
qb_status qb_file_tail_put(qb_ctx *cx, const qb_engine *engine, qb_strbuf *out);
/* Gives the engine the tail that the bytes describe. */
qb_status qb_file_tail_get(qb_ctx *cx, const char *path, const void *bytes, size_t size,
                           qb_engine *engine);

/* engine/file/fit.c: the text of a key; "?": none. */
const char *qb_file_tag(const json_t *tags, const char *key);
/* engine/file/fit.c: the command that builds the file of these tags; new memory. */
char *qb_file_command(qb_ctx *cx, const char *path, const json_t *tags);
/* engine/file/fit.c: may a file with these tags be used here (on the device of that number)? *same:
 * program, processor and device are those that built it. */
qb_status qb_file_fit(qb_ctx *cx, const char *path, const json_t *tags, uint32_t compatible,
                      int32_t ordinal, bool *same);

#endif
