/* qbench plugin list: the operators of plugins, one a line. */
#include "cli/out/json.h"
#include "cli/plugin/json.h"

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

static void print(const qb_plugin *plugin) {
    for (int32_t i = 0; i < plugin->n_ops; i++) {
        const qbench_plugin_op *op = &plugin->ops[i].api;
        printf("%-12s %-8s %s.%s %s%s%s\n", plugin->name, plugin->version, op->domain, op->name,
               op->run_cpu ? "cpu" : "", op->run_cpu && op->run_cuda ? "," : "",
               op->run_cuda ? "cuda" : "");
    }
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const qb_common *common = opts;
    QB_TRY(qb_plugin_arguments(cx, "plugin list", arguments->item, arguments->n));
    for (int32_t i = 0; !qb_json_on_stdout(common) && i < qb_plugins_count(cx->plugins); i++)
        print(qb_plugins_at(cx->plugins, i));
    return qb_json_out(cx, common, qb_plugins_json(cx));
}

const qb_command qb_plugin_command_list = {
    .name = "plugin list",
    .usage = "LIB.so... [options]",
    .summary = "list the operators of plugins and where they run",
    .example = "qbench plugin list build/plugins/gate.so build/plugins/sampler.so",
    .options = table,
    .options_size = sizeof(qb_common),
    .max_arguments = 64,
    .run = run,
};
