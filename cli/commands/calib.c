/* qbench calib COMMAND: what one can do with calibration files, one row in calib.def each. */
#include "cli/command.h"

#define QB_CALIB_COMMAND(name) extern const qb_command qb_calib_command_##name;
#include "cli/calib.def"

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}}; /* what all of them take */

static const qb_command *const members[] = {
#define QB_CALIB_COMMAND(name) &qb_calib_command_##name,
#include "cli/calib.def"
    NULL};

const qb_command qb_command_calib = {
    .name = "calib",
    .usage = "COMMAND [options]",
    .summary = "look into calibration files, merge, draw, export, import them",
    .example = "qbench calib show --help\n"
               "qbench calib show squeezenet1.1.calib.h5",
    .options = table,
    .options_size = sizeof(qb_common),
    .members = members,
};
