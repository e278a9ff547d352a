#include "each.h"

#include <stdatomic.h>

#include "thread.h"

typedef struct team {
    qb_each_fn fn;
    void *user;
    int32_t n;
    atomic_int next;
} team;

typedef struct worker {
    team *team;
    int32_t number;
    qb_ctx cx;
    qb_status status;
    pthread_t thread;
    bool started;
} worker;

static void *work(void *argument) {
    worker *w = argument;
    int i;
    while (w->status == QB_OK && (i = atomic_fetch_add(&w->team->next, 1)) < w->team->n) {
        w->status = qb_check_cancel(&w->cx);
        if (w->status == QB_OK) w->status = w->team->fn(&w->cx, w->team->user, w->number, i);
    }
    if (w->status != QB_OK) atomic_store(&w->team->next, w->team->n); /* the others stop too */
    return NULL;
}

qb_status qb_each(qb_ctx *cx, int32_t n, qb_each_fn fn, void *user) {
    team t = {.fn = fn, .user = user, .n = n};
    const int workers = qb_threads(cx) < n ? qb_threads(cx) : n;
    QB_FREED worker *all = QB_NEW(cx, qb_alloc(cx, (size_t)workers, sizeof *all));
    qb_status status = QB_OK;
    for (int i = 0; i < workers; i++) {
        all[i].team = &t;
        all[i].number = i;
        qb_ctx_child(cx, &all[i].cx);
        /* The last share, and that of a thread that cannot start, is done here. */
        all[i].started = i < workers - 1 && qb_thread_start(&all[i].thread, work, &all[i]) == 0;
        if (!all[i].started) work(&all[i]);
    }
    for (int i = 0; i < workers; i++) {
        if (all[i].started) pthread_join(all[i].thread, NULL);
        if (status == QB_OK && all[i].status != QB_OK) {
            qb_ctx_take(cx, &all[i].cx);
            status = all[i].status;
        }
    }
    return status;
}
