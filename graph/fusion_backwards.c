#include "graph/fusion_backwards.h"

static qb_status find_makers(qb_fusing *f) {
    const qb_groups *groups = f->groups;
    QB_TRY(qb_uses_build(f->cx, f->graph, &f->uses));
    f->maker = qb_alloc(f->cx, (size_t)f->graph->n_values * 2 + 1, sizeof *f->maker);
    if (!f->maker) return f->cx->code;
    f->readers = f->maker + f->graph->n_values;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        f->maker[v] = -1;
        f->readers[v] = f->uses.n_users[v];
    }
    for (int32_t g = 0; g < groups->n; g++)
        if (groups->group[g].out >= 0) f->maker[groups->group[g].out] = g;
    return QB_OK;
}

qb_status qb_fuse_backwards(qb_fusing *f, qb_status (*fuse)(qb_fusing *f, int32_t group)) {
    qb_groups *groups = f->groups;
    qb_status status = find_makers(f);
    int32_t n = 0;
    for (int32_t g = groups->n - 1; g >= 0 && status == QB_OK; g--) status = fuse(f, g);
    for (int32_t g = 0; g < groups->n; g++)
        if (groups->group[g].n_nodes > 0) groups->group[n++] = groups->group[g];
    groups->n = n;
    qb_free(f->maker);
    qb_uses_release(&f->uses);
    return status;
}
