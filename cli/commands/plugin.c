/* qbench plugin COMMAND: operators of one's own, one row in plugin.def each. */
#include "cli/command.h"

#define QB_PLUGIN_COMMAND(name) extern const qb_command qb_plugin_command_##name;
#include "cli/plugin.def"

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}}; /* what all of them take */

static const qb_command *const members[] = {
#define QB_PLUGIN_COMMAND(name) &qb_plugin_command_##name,
#include "cli/plugin.def"
    NULL};

const qb_command qb_command_plugin = {
    .name = "plugin",
    .usage = "COMMAND [options]",
    .summary = "operators of your own: start a plugin, look into plugins",
    .example = "qbench plugin new gate\n"
               "qbench plugin inspect gate/build/gate.so\n"
               "qbench inspect gate/test.onnx --steps --plugin gate/build/gate.so",
    .options = table,
    .options_size = sizeof(qb_common),
    .members = members,
};
