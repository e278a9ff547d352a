/* Plugins: operators of foreign libraries (include/qbench/plugin.h) as rows beside those of
 * ops.def.
 *
 * A context carries what is loaded (qb_ctx.plugins); readers of graphs look operators up there.
 * Graphs and engines point into it and must be gone before the last reference is released. */
#ifndef QB_GRAPH_PLUGIN_H
#define QB_GRAPH_PLUGIN_H

#include "graph/op.h"
#include "include/qbench/plugin.h"

typedef struct qb_plugins qb_plugins;

/* One loaded library. */
typedef struct qb_plugin {
    const char *path, *name, *version;
    uint32_t abi;
    int32_t n_ops;
    struct qb_plugin_op *ops;
    void *library; /* of dlopen */
} qb_plugin;

/* An operator of a plugin; the row comes first, so that it is found from a node. */
typedef struct qb_plugin_op {
    qb_op row;
    const qb_plugin *plugin;
    qbench_plugin_op api; /* what the plugin said, complete */
} qb_plugin_op;

/* Empty, with one reference. */
qb_status qb_plugins_create(qb_ctx *cx, qb_plugins **out);
qb_plugins *qb_plugins_retain(qb_plugins *plugins); /* accepts NULL; any thread */
void qb_plugins_release(qb_plugins *plugins); /* accepts NULL; the last one closes libraries */
/* Opens a library and checks its description. A name without '/' is looked for in the current
 * folder first and then where the system keeps libraries. One that is loaded already is no error.
 * Errors: QB_STATUS_NOTFOUND, QB_STATUS_MISMATCH (another ABI), QB_STATUS_FORMAT (a description
 * that makes no sense), QB_STATUS_INVALID (an operator that another plugin has). Not while others
 * read. */
qb_status qb_plugins_load(qb_ctx *cx, qb_plugins *plugins, const char *path);
int32_t qb_plugins_count(const qb_plugins *plugins); /* 0 for NULL */
const qb_plugin *qb_plugins_at(const qb_plugins *plugins, int32_t i);
const qb_plugin *qb_plugins_find(const qb_plugins *plugins, const char *name); /* NULL: none */

/* The operator of the context's plugins or of qbench itself; NULL when unknown. */
const qb_op *qb_op_lookup(const qb_ctx *cx, const char *name, const char *domain);
/* NULL for operators of qbench itself. */
const qb_plugin_op *qb_plugin_op_of(const qb_op *op);

/* ---- calls; what comes back is checked, messages name the plugin ---- */

void qb_plugin_tensor(const qb_desc *desc, const void *constant, qbench_plugin_tensor *out);
/* Bytes of scratch memory for one run. */
qb_status qb_plugin_workspace(qb_ctx *cx, const qb_node *node, qbench_memory_space place,
                              const qbench_plugin_tensor *in, const qbench_plugin_tensor *out,
                              size_t *bytes);
qb_status qb_plugin_run(qb_ctx *cx, const qb_node *node, qbench_memory_space place,
                        const qbench_plugin_run *run);
#endif
