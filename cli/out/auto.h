/* What auto weighed: methods by tensor, and end to end. */
#ifndef QB_CLI_OUT_AUTO_H
#define QB_CLI_OUT_AUTO_H

#include <jansson.h>

#include "calib/holdout.h"
#include "calib/table.h"

/* Method number `automatic` of the table is auto, its ranges settled. Judged as symmetric int8 or
 * affine. `holdout->n` 0: there was no end-to-end comparison. */
typedef struct qb_auto_result {
    const qb_table *table;
    int32_t automatic;
    bool symmetric;
    const qb_holdout *holdout;
} qb_auto_result;

qb_status qb_auto_print(qb_ctx *cx, const qb_auto_result *result);
/* The same with every range; NULL when memory runs out. */
json_t *qb_auto_json(qb_ctx *cx, const qb_auto_result *result);

#endif
