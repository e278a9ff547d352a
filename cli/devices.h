/* Several GPUs on the command line. */
#ifndef QB_CLI_DEVICES_H
#define QB_CLI_DEVICES_H

#include "engine/devices.h"

/* "0,1,3"; NULL: zeroed. */
qb_status qb_devices_parse(qb_ctx *cx, const char *text, qb_devices *out);

#endif
