/* Quantized steps that run in f16. */
#ifndef QB_ENGINE_REALIZE_F16_CONSTANTS_INTERNAL_H
#define QB_ENGINE_REALIZE_F16_CONSTANTS_INTERNAL_H

#include "engine/realize/lowering_internal.h"

/* Is the value quantized, and no constant? */
bool qb_f16_is_quantized(const qb_lowering *b, int32_t value);
/* A group with quantized data and result may run in f16. */
bool qb_f16_is_choice(const qb_lowering *b, const qb_group *group);
/* The group's inputs with every quantized constant as floats, in the groups' arena; NULL with an
 * error. Such constants are added to the graph unless it has them: b->value comes afterwards. Of
 * those that all plans share, `keep` says that they stay. */
int32_t *qb_f16_inputs(qb_lowering *b, const qb_group *group, bool keep);
/* Groups whose rows say so run in f16; `keep` as above. */
qb_status qb_f16_as_rows(qb_lowering *b, const qb_plan_table *table, bool keep);

#endif
