/* A search as a table, JSON and chart. */
#ifndef QB_CLI_OUT_SEARCH_H
#define QB_CLI_OUT_SEARCH_H

#include <jansson.h>

#include "cli/pipeline.h"

/* Files that were written; NULL: not. */
typedef struct qb_search_files {
    char *plan, *model, *engine, *record;
} qb_search_files;

/* The front, the picked plan and, where it is told, what the model is about. */
void qb_search_print(const qb_searched *searched, const qb_search_files *files);
/* Schema qbench.search/1. New reference; NULL when memory runs out. */
json_t *qb_search_json(const qb_searched *searched, const qb_search_limits *limits,
                       const qb_search_files *files);
/* NAME.svg of accuracy over latency in a folder that exists; see qb_draw. */
qb_status qb_search_draw(qb_ctx *cx, const qb_searched *searched, const qb_search_limits *limits,
                         const char *folder);

#endif
