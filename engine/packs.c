/* Packed constants that the plans of an engine share. */
#include <string.h>

#include "plans_internal.h"

static void add(qb_hasher *h, const qb_qparams *q) {
    qb_hasher_update(h, &q->n, sizeof q->n);
    if (q->n <= 0) return;
    qb_hasher_update(h, q->scale, (size_t)q->n * sizeof *q->scale);
    if (q->zero) qb_hasher_update(h, q->zero, (size_t)q->n * sizeof *q->zero);
}

/* All that what `pack` writes depends on: constants by where they lie, which is the same for all
 * plans. Zero when only the kernel itself knows. */
static qb_status key_of(qb_ctx *cx, const qb_step *step, qb_hash *key) {
    const qb_kernel *k = step->kernel;
    const qb_problem *p = &k->problem;
    qb_hasher *h;
    *key = (qb_hash){0};
    if (!k->packed_form) return QB_OK;
    QB_TRY(qb_hasher_create(cx, &h));
    qb_hasher_string(h, k->tactic->name);
    qb_hasher_update(h, &k->packed_form, sizeof k->packed_form);
    qb_hasher_update(h, &k->packed_bytes, sizeof k->packed_bytes);
    qb_hasher_update(h, &p->scale, sizeof p->scale);
    for (int32_t i = 0; i < p->n_in; i++) {
        qb_hasher_update(h, &p->in[i].dtype, sizeof p->in[i].dtype);
        qb_hasher_update(h, &step->constants[i], sizeof step->constants[i]);
        add(h, &p->in[i].q);
    }
    add(h, &p->out.q);
    *key = qb_hasher_digest(h);
    qb_hasher_free(h);
    return QB_OK;
}

static bool is_packed(const qb_step *step) {
    return step->kernel && step->kernel->pack && step->kernel->packed_bytes > 0;
}

static qb_pack *find(const qb_plans *plans, qb_hash key) {
    if (qb_hash_is_zero(key)) return NULL;
    for (size_t i = 0; i < plans->n_packs; i++)
        if (qb_hash_equal(plans->packs[i]->key, key)) return plans->packs[i];
    return NULL;
}

static void drop(qb_plans *plans, qb_pack *pack) {
    for (size_t i = 0; i < plans->n_packs; i++)
        if (plans->packs[i] == pack) plans->packs[i] = plans->packs[--plans->n_packs];
    qb_free(pack->own);
    qb_free(pack);
}

static qb_status enter(qb_ctx *cx, qb_plans *plans, const qb_pack *pack, qb_pack **out) {
    QB_TRY(qb_grow(cx, &plans->packs, &plans->cap_packs, plans->n_packs + 1, sizeof *plans->packs));
    qb_pack *kept = qb_alloc(cx, 1, sizeof *kept);
    if (!kept) return cx->code;
    *kept = *pack;
    plans->packs[plans->n_packs++] = *out = kept;
    return QB_OK;
}

qb_status qb_packs_of_engine(qb_ctx *cx, qb_plans *plans, const qb_engine *engine) {
    for (int32_t s = 0; s < engine->n_steps; s++) {
        const qb_step *step = &engine->steps[s];
        qb_pack pack = {.data = (const char *)engine->packed + step->packed_offset, .refs = 1};
        qb_pack *entered;
        if (!is_packed(step)) continue;
        QB_TRY(key_of(cx, step, &pack.key));
        if (!find(plans, pack.key)) QB_TRY(enter(cx, plans, &pack, &entered));
    }
    return QB_OK;
}

static qb_status make(qb_ctx *cx, qb_plans *plans, const qb_step *step, qb_hash key,
                      qb_pack **out) {
    qb_pack pack = {.key = key, .bytes = step->kernel->packed_bytes};
    pack.data = pack.own = qb_alloc_aligned(cx, pack.bytes, 1);
    if (!pack.own) return cx->code;
    qb_status status = step->kernel->pack(cx, step->kernel, step->constants, pack.own);
    if (status == QB_OK)
        status = enter(cx, plans, &pack, out);
    else
        qb_wrap(cx, "packing the constants of '%s' for %s", step->name, step->tactic);
    if (status != QB_OK) qb_free(pack.own);
    return status;
}

qb_status qb_packs_take(qb_ctx *cx, qb_plans *plans, qb_engine *plan) {
    plan->packs = qb_alloc(cx, (size_t)plan->n_steps, sizeof *plan->packs);
    if (!plan->packs) return cx->code;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        qb_step *step = &plan->steps[s];
        qb_hash key;
        if (!is_packed(step)) continue;
        QB_TRY(key_of(cx, step, &key));
        qb_pack *pack = find(plans, key);
        if (!pack) QB_TRY(make(cx, plans, step, key, &pack));
        pack->refs++;
        plan->packs[plan->n_packs++] = pack;
        step->shared = pack->data;
    }
    return QB_OK;
}

void qb_packs_give_back(qb_plans *plans, qb_engine *plan) {
    for (int32_t i = 0; i < plan->n_packs; i++)
        if (--plan->packs[i]->refs == 0) drop(plans, plan->packs[i]);
    plan->n_packs = 0;
}

size_t qb_packs_bytes(qb_plans *plans) {
    size_t bytes = 0;
    pthread_mutex_lock(&plans->lock);
    for (size_t i = 0; i < plans->n_packs; i++) bytes += plans->packs[i]->bytes;
    pthread_mutex_unlock(&plans->lock);
    return bytes;
}
