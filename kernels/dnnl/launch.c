/* Running a primitive: slots with their own memory objects, see dnnl_internal.h. */
#include <omp.h>

#include "base/forks.h"
#include "dnnl_internal.h"

void qb_dnnl_slot_free(const qb_dnnl_state *s, qb_dnnl_slot *slot) {
    for (int i = 0; i < s->n_args; i++)
        if (slot->arg[i].memory) dnnl_memory_destroy(slot->arg[i].memory);
    if (slot->stream) dnnl_stream_destroy(slot->stream);
    qb_free(slot);
}

static qb_status slot_create(qb_ctx *cx, const qb_dnnl_state *s, qb_dnnl_slot **out) {
    qb_dnnl_slot *slot = QB_NEW(cx, qb_alloc(cx, 1, sizeof *slot));
    dnnl_status_t status = dnnl_stream_create(&slot->stream, s->engine, dnnl_stream_in_order);
    for (int i = 0; i < s->n_args && status == dnnl_success; i++) {
        slot->arg[i].arg = s->arg[i].id;
        status =
            dnnl_memory_create(&slot->arg[i].memory, &s->arg[i].desc, s->engine, DNNL_MEMORY_NONE);
    }
    if (status != dnnl_success) {
        qb_dnnl_slot_free(s, slot);
        return qb_dnnl_check(cx, status, "making memory objects");
    }
    *out = slot;
    return QB_OK;
}

static void slot_put(qb_dnnl_state *s, qb_dnnl_slot *slot) {
    pthread_mutex_lock(&s->lock);
    slot->next = s->free;
    s->free = slot;
    pthread_mutex_unlock(&s->lock);
}

/* The slot that was put back last points to the same buffers when one context runs again. */
static qb_status slot_take(qb_ctx *cx, qb_dnnl_state *s, qb_dnnl_slot **out) {
    pthread_mutex_lock(&s->lock);
    *out = s->free;
    if (*out) s->free = (*out)->next;
    pthread_mutex_unlock(&s->lock);
    return *out ? QB_OK : slot_create(cx, s, out);
}

qb_status qb_dnnl_epilogue_create(qb_ctx *cx, qb_kernel *kernel) {
    qb_dnnl_state *s = kernel->state;
    qb_dnnl_slot *slot;
    QB_TRY(slot_create(cx, s, &slot));
    slot_put(s, slot);
    return QB_OK;
}

qb_dnnl_threads qb_dnnl_threads_set(const qb_dnnl_state *s) {
    qb_dnnl_threads before = {.threads = omp_get_max_threads(),
                              .dynamic = omp_get_dynamic(),
                              .levels = omp_get_max_active_levels(),
                              .blocks = s->threads > 1};
    const int levels = omp_get_active_level() + 1;
    if (before.blocks) qb_signals_block(&before.signals);
    if (before.dynamic) omp_set_dynamic(0);
    if (before.levels < levels) omp_set_max_active_levels(levels);
    omp_set_num_threads(s->threads);
    return before;
}

void qb_dnnl_threads_restore(const qb_dnnl_threads *before) {
    omp_set_num_threads(before->threads);
    if (before->dynamic) omp_set_dynamic(before->dynamic);
    if (omp_get_max_active_levels() != before->levels) omp_set_max_active_levels(before->levels);
    if (before->blocks) qb_signals_restore(&before->signals);
}

static const void *pointer_of(const qb_dnnl_arg *arg, const qb_launch *launch) {
    switch (arg->from) {
    case QB_DNNL_INPUT: return launch->in[arg->input];
    case QB_DNNL_OUT: return launch->out;
    case QB_DNNL_PACKED: return (const char *)launch->packed + arg->offset;
    case QB_DNNL_WORKSPACE: break;
    }
    return launch->workspace;
}

/* Setting a pointer also clears padding lanes, so it is done only when the pointer changes. */
static dnnl_status_t point(const qb_dnnl_state *s, qb_dnnl_slot *slot, const qb_launch *launch) {
    for (int i = 0; i < s->n_args; i++) {
        const void *at = pointer_of(&s->arg[i], launch);
        if (slot->handle[i] == at) continue;
        dnnl_status_t status = dnnl_memory_set_data_handle_v2(slot->arg[i].memory,
                                                              (void *)(uintptr_t)at, slot->stream);
        if (status != dnnl_success) return status;
        slot->handle[i] = at;
    }
    return dnnl_success;
}

qb_status qb_dnnl_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    qb_dnnl_state *s = kernel->state;
    qb_dnnl_slot *slot;
    if (s->threads > 1 && s->forks != qb_forks())
        return qb_fail(cx, QB_STATUS_INVALID,
                       "tactic %s works on %d threads of the process that forked this one: make "
                       "the engine anew here",
                       kernel->tactic->name, s->threads);
    QB_TRY(slot_take(cx, s, &slot));
    const qb_dnnl_threads before = qb_dnnl_threads_set(s);
    dnnl_status_t status = point(s, slot, args);
    if (status == dnnl_success)
        status = dnnl_primitive_execute(s->primitive, slot->stream, s->n_args, slot->arg);
    if (status == dnnl_success) status = dnnl_stream_wait(slot->stream);
    qb_dnnl_threads_restore(&before);
    slot_put(s, slot);
    return qb_dnnl_check(cx, status, kernel->tactic->name);
}
