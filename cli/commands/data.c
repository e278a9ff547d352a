/* qbench data COMMAND: what one can do with data sets, one row in data.def each. */
#include "cli/command.h"

#define QB_DATA_COMMAND(name) extern const qb_command qb_data_command_##name;
#include "cli/data.def"

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}}; /* what all of them take */

static const qb_command *const members[] = {
#define QB_DATA_COMMAND(name) &qb_data_command_##name,
#include "cli/data.def"
    NULL};

const qb_command qb_command_data = {
    .name = "data",
    .usage = "COMMAND [options]",
    .summary = "look for what is wrong with a data set",
    .example = "qbench data doctor --help\n"
               "qbench data doctor calib/ --evaluation val/",
    .options = table,
    .options_size = sizeof(qb_common),
    .members = members,
};
