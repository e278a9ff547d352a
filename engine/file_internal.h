/* The container of engine files: a header with a table of sections, each with its hash. */
#ifndef QB_ENGINE_FILE_INTERNAL_H
#define QB_ENGINE_FILE_INTERNAL_H

#include <jansson.h>

#include "base/file.h"
#include "engine/engine_internal.h"
#include "engine/file.h"

#define QB_FILE_MAGIC "\x89QBE\r\n\x1a\n"
#define QB_FILE_PAGE 4096
#define QB_FILE_LINE 64

/* TAGS: JSON for people and for the check of fit. GRAPH: as in graph/store.h. PLAN: what the build
 * decided. PACKED: constants in the kernels' own forms, page-aligned. */
typedef enum qb_file_section {
    QB_FILE_TAGS,
    QB_FILE_GRAPH,
    QB_FILE_PLAN,
    QB_FILE_PACKED
} qb_file_section;
#define QB_FILE_SECTIONS 4

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

/* The PLAN section, followed by the tactics' names, each length-prefixed. */
typedef struct qb_file_plan {
    int64_t parts, batch; /* of the whole engine: items of a run */
    uint64_t hole_bytes;
    int32_t threads, n_tactics, n_steps, reserved;
    char backends[64];
} qb_file_plan;

#endif
