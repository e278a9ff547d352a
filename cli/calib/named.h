/* The calibration that a command of `qbench calib` looks at. */
#ifndef QB_CLI_CALIB_NAMED_H
#define QB_CLI_CALIB_NAMED_H

#include "cli/command.h"

/* Its first argument, else MODEL.calib.h5 of the project here. New memory. */
qb_status qb_calibration_path(qb_ctx *cx, const qb_common *common, const qb_opt_list *arguments,
                              char **out);

#endif
