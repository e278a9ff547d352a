/* Packed constants that the plans of an engine share, on the host and on its device. */

#include "engine/device_internal.h"
#include "engine/plans_internal.h"
#include "graph/dequantize.h"

/* Smaller ones of a device lie in each plan's own block. */
#define SHARED_CONSTANT 4096 /* bytes */

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
    if (!k->packing_id) return QB_OK;
    QB_TRY(qb_hasher_create(cx, &h));
    qb_hasher_string(h, k->tactic->name);
    qb_hasher_update(h, &k->packing_id, sizeof k->packing_id);
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

/* Constants that a kernel reads from the device as the graph has them. */
static qb_status key_of_constant(qb_ctx *cx, const qb_buffer *buffer, qb_hash *key) {
    qb_hasher *h;
    QB_TRY(qb_hasher_create(cx, &h));
    qb_hasher_string(h, "constant");
    qb_hasher_update(h, &buffer->data, sizeof buffer->data);
    qb_hasher_update(h, &buffer->bytes, sizeof buffer->bytes);
    *key = qb_hasher_digest(h);
    qb_hasher_free(h);
    return QB_OK;
}

/* What no other plan could read stays in the plan's own block of the device. */
static bool is_shared(const qb_step *step) {
    const qb_kernel *kernel = step->kernel;
    return kernel && kernel->pack && kernel->packed_bytes > 0 &&
           (!step->on_device || kernel->packing_id);
}

static bool is_shared_constant(const qb_buffer *buffer) {
    return buffer->kind == QB_BUFFER_DEVICE_CONSTANT && buffer->bytes > SHARED_CONSTANT;
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
    qb_pack_free(pack);
}

void qb_pack_free(qb_pack *pack) {
    if (pack->device)
        pack->device->release(pack->own);
    else
        qb_free(pack->own);
    qb_free(pack);
}

static qb_status enter(qb_ctx *cx, qb_plans *plans, const qb_pack *pack, qb_pack **out) {
    QB_TRY(qb_grow(cx, &plans->packs, &plans->cap_packs, plans->n_packs + 1, sizeof *plans->packs));
    qb_pack *kept = QB_NEW(cx, qb_alloc(cx, 1, sizeof *kept));
    *kept = *pack;
    plans->packs[plans->n_packs++] = *out = kept;
    return QB_OK;
}

static qb_status enter_of_engine(qb_ctx *cx, qb_plans *plans, const void *data, qb_hash key) {
    const qb_pack pack = {.key = key, .data = data, .refs = 1};
    qb_pack *entered;
    return find(plans, key) ? QB_OK : enter(cx, plans, &pack, &entered);
}

qb_status qb_packs_of_engine(qb_ctx *cx, qb_plans *plans, const qb_engine *engine) {
    const char *host = engine->packed.data, *device = engine->on.block;
    qb_hash key;
    for (int32_t s = 0; s < engine->n_steps; s++) {
        const qb_step *step = &engine->steps[s];
        if (!is_shared(step)) continue;
        QB_TRY(key_of(cx, step, &key));
        QB_TRY(enter_of_engine(cx, plans, (step->on_device ? device : host) + step->packed_offset,
                               key));
    }
    for (int32_t i = 0; i < engine->n_buffers; i++) {
        const qb_buffer *buffer = &engine->buffers[i];
        if (!is_shared_constant(buffer)) continue;
        QB_TRY(key_of_constant(cx, buffer, &key));
        QB_TRY(enter_of_engine(cx, plans, device + buffer->offset, key));
    }
    return QB_OK;
}

/* Uploads what lies on the host to the device; the pack is entered with it there. */
static qb_status enter_on_device(qb_ctx *cx, qb_plans *plans, const qb_device_api *device,
                                 const void *bytes, size_t n, qb_hash key, qb_pack **out) {
    qb_pack pack = {.key = key, .device = device, .bytes = n};
    QB_TRY(qb_device_upload(cx, device, bytes, n, &pack.own));
    pack.data = pack.own;
    const qb_status status = enter(cx, plans, &pack, out);
    if (status != QB_OK) device->release(pack.own);
    return status;
}

static qb_status make(qb_ctx *cx, qb_plans *plans, const qb_engine *plan, const qb_step *step,
                      qb_hash key, qb_pack **out) {
    const qb_kernel *kernel = step->kernel;
    qb_pack pack = {.key = key, .bytes = kernel->packed_bytes};
    pack.data = pack.own = qb_alloc_aligned(cx, pack.bytes, 1);
    if (!pack.own) return cx->code;
    qb_status status = kernel->pack(cx, kernel, step->constants, pack.own);
    if (status != QB_OK)
        qb_wrap(cx, "packing the constants of '%s' for %s", step->name, step->tactic);
    else if (step->on_device)
        status = enter_on_device(cx, plans, plan->device, pack.own, pack.bytes, key, out);
    else
        status = enter(cx, plans, &pack, out);
    if (status != QB_OK || step->on_device) qb_free(pack.own);
    return status;
}

static const void *take(qb_engine *plan, qb_pack *pack) {
    pack->refs++;
    plan->use.packs[plan->use.n_packs++] = pack;
    return pack->data;
}

qb_status qb_packs_take(qb_ctx *cx, qb_plans *plans, qb_engine *plan) {
    qb_hash key;
    QB_TRY_NEW(cx, plan->use.packs = qb_alloc(cx, (size_t)plan->n_steps + (size_t)plan->n_buffers,
                                              sizeof *plan->use.packs));
    for (int32_t s = 0; s < plan->n_steps; s++) {
        qb_step *step = &plan->steps[s];
        if (!is_shared(step)) continue;
        QB_TRY(key_of(cx, step, &key));
        qb_pack *pack = find(plans, key);
        if (!pack) QB_TRY(make(cx, plans, plan, step, key, &pack));
        step->shared = take(plan, pack);
    }
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        qb_buffer *buffer = &plan->buffers[i];
        if (!is_shared_constant(buffer)) continue;
        QB_TRY(key_of_constant(cx, buffer, &key));
        qb_pack *pack = find(plans, key);
        if (!pack)
            QB_TRY(
                enter_on_device(cx, plans, plan->device, buffer->data, buffer->bytes, key, &pack));
        buffer->shared = take(plan, pack);
    }
    return plan->device ? qb_device_pack(cx, plan) : QB_OK;
}

void qb_packs_give_back(qb_plans *plans, qb_engine *plan) {
    for (int32_t i = 0; i < plan->use.n_packs; i++)
        if (--plan->use.packs[i]->refs == 0) drop(plans, plan->use.packs[i]);
    plan->use.n_packs = 0;
}

size_t qb_packs_bytes(qb_plans *plans) {
    size_t bytes = 0;
    pthread_mutex_lock(&plans->lock);
    for (size_t i = 0; i < plans->n_packs; i++) bytes += plans->packs[i]->bytes;
    for (size_t i = 0; i < plans->n_floats; i++) bytes += plans->floats[i].bytes;
    pthread_mutex_unlock(&plans->lock);
    return bytes;
}

bool qb_plans_own(const qb_plans *plans, const qb_value *value) {
    const int32_t id = qb_graph_find_value(plans->graph, value->name);
    return id >= 0 && plans->graph->values[id].data == value->data;
}

const float *qb_plans_floats(qb_ctx *cx, qb_plans *plans, const qb_value *value) {
    for (size_t i = 0; i < plans->n_floats; i++)
        if (plans->floats[i].quantized == value->data) return plans->floats[i].f32;
    if (qb_grow(cx, &plans->floats, &plans->cap_floats, plans->n_floats + 1,
                sizeof *plans->floats) != QB_OK)
        return NULL;
    const size_t n = (size_t)qb_shape_count(&value->shape);
    float *f32 = qb_alloc_aligned(cx, n, sizeof *f32);
    if (!f32) return NULL;
    qb_value_dequantized(value, f32);
    plans->floats[plans->n_floats++] =
        (qb_shared_floats){.quantized = value->data, .f32 = f32, .bytes = n * sizeof *f32};
    return f32;
}

void qb_plans_keep_floats(qb_plans *plans, const float *f32) {
    for (size_t i = 0; i < plans->n_floats; i++)
        if (plans->floats[i].f32 == f32) plans->floats[i].kept = true;
}

void qb_plans_drop_floats(qb_plans *plans, bool all) {
    size_t n = 0;
    for (size_t i = 0; i < plans->n_floats; i++) {
        if (plans->floats[i].kept && !all)
            plans->floats[n++] = plans->floats[i];
        else
            qb_free(plans->floats[i].f32);
    }
    plans->n_floats = n;
}
