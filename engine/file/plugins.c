/* Plugins in engine files: which ones an engine needs, and whether they are loaded. */
#include <string.h>

#include "engine/file/file_internal.h"
#include "graph/plugin.h"

/* The first node of the plugin that this step runs, unless an earlier step runs one. */
static bool is_first_of(const qb_engine *e, int32_t step) {
    const qb_plugin *plugin = qb_plugin_op_of(e->steps[step].node->op)->plugin;
    for (int32_t s = 0; s < step; s++)
        if (e->steps[s].kind == QB_STEP_PLUGIN &&
            qb_plugin_op_of(e->steps[s].node->op)->plugin == plugin)
            return false;
    return true;
}

json_t *qb_file_plugins_json(const qb_engine *e) {
    json_t *list = json_array();
    for (int32_t s = 0; s < e->n_steps; s++) {
        char node[160];
        if (e->steps[s].kind != QB_STEP_PLUGIN || !is_first_of(e, s)) continue;
        const qb_plugin *plugin = qb_plugin_op_of(e->steps[s].node->op)->plugin;
        qb_node_text(e->graph, e->steps[s].node_index, node, sizeof node);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:i, s:s}", "name", plugin->name, "version",
                                        plugin->version, "abi", (int)plugin->abi, "node", node));
    }
    return list;
}

qb_status qb_file_plugins_check(qb_ctx *cx, const char *path, const json_t *tags) {
    const json_t *needed;
    size_t i;
    json_array_foreach(json_object_get(tags, "plugins"), i, needed) {
        const char *name = qb_file_tag(needed, "name"), *version = qb_file_tag(needed, "version");
        const int abi = (int)json_integer_value(json_object_get(needed, "abi"));
        const qb_plugin *have = qb_plugins_find(cx->plugins, name);
        if (!have)
            return qb_fail(cx, QB_STATUS_MISMATCH,
                           "%s: %s needs plugin %s %s, which is not loaded: give its library with "
                           "--plugin LIB.so",
                           path, qb_file_tag(needed, "node"), name, version);
        if (strcmp(have->version, version) == 0 && (int)have->abi == abi) continue;
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s: %s was built with plugin %s %s (ABI %d), %s has version %s (ABI %u): "
                       "load that version, or build here with 'qbench build --model %s --precision "
                       "%s --plugin %s --saveEngine=%s'",
                       path, qb_file_tag(needed, "node"), name, version, abi, have->path,
                       have->version, have->abi, qb_file_tag(tags, "model"),
                       qb_file_tag(tags, "precision"), have->path, path);
    }
    return QB_OK;
}
