/* What a model is for, from its sidecar (`task`, `detection`) and from qbench.yaml (the same keys).
 */
#ifndef QB_CLI_SETTINGS_TASK_H
#define QB_CLI_SETTINGS_TASK_H

#include "base/config.h"
#include "datasets/sidecar.h"
#include "eval/task.h"

/* Keys that are not there leave the settings alone. A task that a sidecar calls by a word of its
 * own stays unknown; what `detection` holds beside the known keys is left to other readers. */
qb_status qb_task_from_sidecar(qb_ctx *cx, const qb_sidecar *sidecar, qb_task_settings *out);
qb_status qb_task_from_config(qb_ctx *cx, const qb_config *config, qb_task_settings *out);

#endif
