#include <stdio.h>
#include <stdlib.h>

#include "calib/calib.h"
#include "calib/distribute.h"

/* A table as bytes; files need ranges, which are chosen at the end and are any here. */
static qb_status pack(qb_ctx *cx, qb_table *table, uint8_t **bytes, size_t *size) {
    qb_method_choice minmax;
    *bytes = NULL;
    *size = 0;
    if (!table) return QB_OK;
    QB_TRY(qb_method_parse(cx, "minmax", &minmax));
    QB_TRY(qb_calib_finish(cx, table, &minmax, 1));
    return qb_table_write(cx, table, bytes, size);
}

static qb_status send_table(qb_ctx *cx, const qb_ranks *ranks, int32_t to, qb_table *table) {
    uint8_t *bytes;
    size_t size;
    QB_TRY(pack(cx, table, &bytes, &size));
    const int failed = ranks->send(to, bytes, size);
    qb_free(bytes);
    return failed ? qb_fail(cx, QB_STATUS_IO, "rank %d: cannot send to rank %d", ranks->rank, to)
                  : QB_OK;
}

/* *out: NULL when the rank had none. */
static qb_status receive_table(qb_ctx *cx, const qb_ranks *ranks, int32_t from, qb_table **out) {
    QB_FREED void *bytes = NULL;
    size_t size;
    char name[32];
    snprintf(name, sizeof name, "rank %d", from);
    if (ranks->receive(from, &bytes, &size))
        return qb_fail(cx, QB_STATUS_IO, "rank %d: cannot receive from %s", ranks->rank, name);
    *out = NULL;
    return size > 0 ? qb_table_parse(cx, name, bytes, size, out) : QB_OK;
}

/* *table takes the other one's data in. */
static qb_status take_in(qb_ctx *cx, const qb_ranks *ranks, int32_t from, qb_table **table) {
    QB_RELEASED(qb_table_free_at) qb_table *other = NULL;
    qb_table *both;
    QB_TRY(receive_table(cx, ranks, from, &other));
    if (!*table || !other) {
        if (other) *table = QB_MOVE(other);
        return QB_OK;
    }
    char here[32], there[32];
    snprintf(here, sizeof here, "rank %d", ranks->rank);
    snprintf(there, sizeof there, "rank %d", from);
    QB_TRY(qb_table_merge(cx, *table, other, here, there, &both));
    qb_table_free(*table);
    *table = both;
    return QB_OK;
}

qb_status qb_ranks_reduce(qb_ctx *cx, const qb_ranks *ranks, qb_table **table) {
    for (int32_t step = 1; step < ranks->size; step *= 2) {
        if (ranks->rank & step) {
            QB_TRY(send_table(cx, ranks, ranks->rank - step, *table));
            qb_table_free(*table);
            *table = NULL;
            return QB_OK;
        }
        if (ranks->rank + step < ranks->size) QB_TRY(take_in(cx, ranks, ranks->rank + step, table));
    }
    return *table ? QB_OK : qb_fail(cx, QB_STATUS_NOTFOUND, "no usable sample in any rank");
}
