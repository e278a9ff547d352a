/* A convolution and the max pool behind it as one step of a device, where that is faster. */
#include <math.h>

#include "engine/tune/tune_internal.h"

/* Is the group faster than the two that it is made of? */
static qb_status is_faster(qb_lowering *b, const qb_group *fused, const qb_group *pool,
                           bool *faster) {
    qb_tuning *t = b->state;
    const qb_group *conv = &b->groups.group[b->group];
    double one, first, second;
    QB_TRY(qb_device_time(b, fused, false, &one));
    if (isinf(one)) return QB_OK;
    QB_TRY(qb_device_time(b, conv, false, &first));
    QB_TRY(qb_device_time(b, pool, false, &second));
    *faster = one < first + second;
    if (!*faster) return QB_OK;
    t->fuse_reason =
        qb_arena_format(b->cx, b->engine->arena, "with its pool %.1f us, alone %.1f us and %.1f us",
                        one * 1e6, first * 1e6, second * 1e6);
    return t->fuse_reason ? QB_OK : b->cx->code;
}

qb_status qb_fuse_conv_pool(qb_lowering *b, const qb_group *fused, const qb_group *pool,
                            bool *fuse) {
    qb_tuning *t = b->state;
    t->fuse_reason = NULL;
    if (t->usual) {
        const int32_t row = qb_plan_find_fused(t->usual, qb_lower_group_name(b));
        *fuse = row >= 0;
        t->fuse_reason = *fuse ? t->usual->rows[row].fuse_reason : NULL;
        return QB_OK;
    }
    return b->spec->observable || b->spec->first_tactic ? QB_OK : is_faster(b, fused, pool, fuse);
}
