/* From an operation to a kernel: choosing an implementation, packing constants. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/forks.h"
#include "base/hash.h"
#include "dnnl_internal.h"

qb_status qb_dnnl_check(qb_ctx *cx, dnnl_status_t status, const char *what) {
    qb_status code = QB_STATUS_INTERNAL;
    if (status == dnnl_success) return QB_OK;
    if (status == dnnl_out_of_memory)
        return qb_fail(cx, QB_STATUS_NOMEM, "oneDNN: %s: out of memory", what);
    /* What it refuses to describe is no different from what it cannot run. */
    if (status == dnnl_unimplemented || status == dnnl_invalid_arguments)
        code = QB_STATUS_UNSUPPORTED;
    return qb_fail(cx, code, "oneDNN: %s: status %d", what, (int)status);
}

static void destroy(qb_kernel *kernel) {
    qb_dnnl_state *s = kernel->state;
    if (!s) return;
    while (s->free) {
        qb_dnnl_slot *slot = s->free;
        s->free = slot->next;
        qb_dnnl_slot_free(s, slot);
    }
    if (s->primitive) dnnl_primitive_destroy(s->primitive);
    if (s->engine) dnnl_engine_destroy(s->engine);
    if (s->has_lock) pthread_mutex_destroy(&s->lock);
    qb_free(s);
}

qb_status qb_dnnl_begin(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                        qb_kernel **out) {
    qb_kernel *kernel;
    qb_dnnl_limit();
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    kernel->destroy = destroy;
    kernel->launch = qb_dnnl_launch;
    qb_dnnl_state *s = kernel->state = qb_alloc(cx, 1, sizeof *s);
    qb_status status = s ? QB_OK : QB_STATUS_NOMEM;
    if (status == QB_OK) {
        /* In a child OpenMP waits for its parent's threads. */
        const int most = qb_forks() > 0 ? 1 : omp_get_thread_limit();
        s->forks = qb_forks();
        s->threads = threads < 1 ? 1 : threads < most ? threads : most;
        s->has_lock = pthread_mutex_init(&s->lock, NULL) == 0;
        status = s->has_lock ? qb_dnnl_check(cx, dnnl_engine_create(&s->engine, dnnl_cpu, 0),
                                             "making the engine")
                             : qb_fail(cx, QB_STATUS_NOMEM, "no mutex");
    }
    if (status != QB_OK) {
        qb_kernel_free(kernel);
        return status;
    }
    *out = kernel;
    return QB_OK;
}

const dnnl_memory_desc_t *qb_dnnl_query(const_dnnl_primitive_desc_t pd, dnnl_query_t what) {
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

static const char *impl_of(const_dnnl_primitive_desc_t pd) {
    const char *text = NULL;
    dnnl_status_t status = dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &text);
    return status == dnnl_success && text ? text : "";
}

/* Reference implementations run element by element through calls. */
static bool is_slow(const char *impl) {
    return strstr(impl, "ref") || strncmp(impl, "simple_n", 8) == 0;
}

/* The convolutions over a matrix product of 2.6.3 give wrong sums where a second operand follows a
 * leaky ReLU. */
static bool is_wrong(const qb_kernel *kernel, const_dnnl_primitive_attr_t attr, const char *impl) {
    const_dnnl_post_ops_t ops = NULL;
    if (kernel->problem.kind != QB_KIND_CONV || !strstr(impl, "gemm") ||
        dnnl_primitive_attr_get_post_ops(attr, &ops) != dnnl_success || !ops)
        return false;
    for (int i = 0; i < dnnl_post_ops_len(ops); i++)
        if (dnnl_post_ops_get_kind(ops, i) == dnnl_binary) return true;
    return false;
}

static bool has_layouts(const qb_kernel *kernel, const_dnnl_primitive_desc_t pd) {
    qb_desc in = kernel->problem.in[0], out = kernel->problem.out;
    return qb_dnnl_finalize(&in, qb_dnnl_query(pd, dnnl_query_src_md)) &&
           qb_dnnl_finalize(&out, qb_dnnl_query(pd, dnnl_query_dst_md));
}

/* oneDNN writes machine code without looking whether it got memory for it. */
static dnnl_status_t create_primitive(dnnl_primitive_t *out, const_dnnl_primitive_desc_t pd) {
    enum { CODE_BYTES = 8 << 20 }; /* many times what one primitive takes */
    void *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) return dnnl_out_of_memory;
    munmap(code, CODE_BYTES);
    return dnnl_primitive_create(out, pd);
}

static qb_status use(qb_ctx *cx, qb_kernel *kernel, const_dnnl_primitive_desc_t pd) {
    qb_dnnl_state *s = kernel->state;
    const dnnl_status_t made = create_primitive(&s->primitive, pd);
    /* Of groups of some sizes it describes what it then has no code for. */
    if (made == dnnl_runtime_error)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "oneDNN: no code for %s", impl_of(pd));
    QB_TRY(qb_dnnl_check(cx, made, "making the primitive"));
    snprintf(kernel->impl, sizeof kernel->impl, "%s", impl_of(pd));
    const dnnl_memory_desc_t *scratch = qb_dnnl_query(pd, dnnl_query_scratchpad_md);
    kernel->workspace_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    if (kernel->workspace_bytes > 0)
        s->arg[s->n_args++] =
            (qb_dnnl_arg){.id = DNNL_ARG_SCRATCHPAD, .from = QB_DNNL_WORKSPACE, .desc = *scratch};
    return QB_OK;
}

/* Implementations stand in oneDNN's order of preference; how it splits the work, and with that the
 * scratchpad, depends on the number of threads at this time. */
static qb_status first_fast(qb_ctx *cx, const qb_kernel *kernel, const_dnnl_op_desc_t op,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd) {
    const qb_dnnl_state *s = kernel->state;
    dnnl_primitive_desc_iterator_t all;
    char seen[sizeof kernel->impl] = "nothing";
    *pd = NULL;
    QB_TRY(qb_dnnl_check(cx, dnnl_primitive_desc_iterator_create(&all, op, attr, s->engine, NULL),
                         "looking for an implementation"));
    dnnl_status_t status = dnnl_success;
    while (status == dnnl_success) {
        dnnl_primitive_desc_t one = dnnl_primitive_desc_iterator_fetch(all);
        if (!one) break;
        if (!is_slow(impl_of(one)) && !is_wrong(kernel, attr, impl_of(one)) &&
            has_layouts(kernel, one)) {
            *pd = one;
            break;
        }
        snprintf(seen, sizeof seen, "%s", impl_of(one));
        dnnl_primitive_desc_destroy(one);
        status = dnnl_primitive_desc_iterator_next(all);
    }
    dnnl_primitive_desc_iterator_destroy(all);
    if (*pd) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "oneDNN has no fast implementation (last: %s)", seen);
}

static qb_status choose(qb_ctx *cx, qb_kernel *kernel, const_dnnl_op_desc_t op,
                        const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd) {
    QB_TRY(first_fast(cx, kernel, op, attr, pd));
    QB_TRY(use(cx, kernel, *pd));
    qb_dnnl_finalize(&kernel->in[0], qb_dnnl_query(*pd, dnnl_query_src_md));
    qb_dnnl_finalize(&kernel->problem.out, qb_dnnl_query(*pd, dnnl_query_dst_md));
    return QB_OK;
}

qb_status qb_dnnl_choose(qb_ctx *cx, qb_kernel *kernel, const_dnnl_op_desc_t op,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd) {
    const qb_dnnl_threads before = qb_dnnl_threads_set(kernel->state);
    qb_status status = choose(cx, kernel, op, attr, pd);
    qb_dnnl_threads_restore(&before);
    return status;
}

static qb_status choose_reorder(qb_ctx *cx, qb_kernel *kernel, const dnnl_memory_desc_t *from,
                                const dnnl_memory_desc_t *to, const_dnnl_primitive_attr_t attr,
                                dnnl_primitive_desc_t *pd) {
    const qb_dnnl_state *s = kernel->state;
    QB_TRY(qb_dnnl_check(
        cx, dnnl_reorder_primitive_desc_create(pd, from, s->engine, to, s->engine, attr),
        "looking for a reorder"));
    if (is_slow(impl_of(*pd)))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "oneDNN has no fast reorder (%s)", impl_of(*pd));
    return use(cx, kernel, *pd);
}

qb_status qb_dnnl_choose_reorder(qb_ctx *cx, qb_kernel *kernel, const dnnl_memory_desc_t *from,
                                 const dnnl_memory_desc_t *to, const_dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t *pd) {
    const qb_dnnl_threads before = qb_dnnl_threads_set(kernel->state);
    qb_status status = choose_reorder(cx, kernel, from, to, attr, pd);
    qb_dnnl_threads_restore(&before);
    return status;
}

void qb_dnnl_bind_input(qb_kernel *kernel, int id, int32_t input, const dnnl_memory_desc_t *md) {
    qb_dnnl_state *s = kernel->state;
    s->arg[s->n_args++] =
        (qb_dnnl_arg){.id = id, .from = QB_DNNL_INPUT, .input = input, .desc = *md};
}

void qb_dnnl_bind_out(qb_kernel *kernel, const dnnl_memory_desc_t *md) {
    qb_dnnl_state *s = kernel->state;
    s->arg[s->n_args++] = (qb_dnnl_arg){.id = DNNL_ARG_DST, .from = QB_DNNL_OUT, .desc = *md};
}

void qb_dnnl_bind_residual(qb_kernel *kernel, const qb_dnnl_epilogue *epilogue) {
    if (!qb_problem_has(&kernel->problem, QB_IN_RESIDUAL)) return;
    if (epilogue->residual_sum) {
        kernel->in[QB_IN_RESIDUAL].layout = kernel->problem.out.layout;
        kernel->in_place_inputs = UINT64_C(1) << QB_IN_RESIDUAL;
        kernel->in_place_required = true;
        return;
    }
    qb_dnnl_bind_input(kernel, DNNL_ARG_ATTR_MULTIPLE_POST_OP(epilogue->binary) | DNNL_ARG_SRC_1,
                       QB_IN_RESIDUAL, epilogue->residual);
}

static size_t pad64(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* One reorder at build; `scale` on the values. */
static dnnl_status_t reorder(const qb_dnnl_state *s, const dnnl_memory_desc_t *from, const void *in,
                             const dnnl_memory_desc_t *to, void *out, float scale) {
    dnnl_engine_t engine = s->engine;
    const qb_dnnl_threads before = qb_dnnl_threads_set(s);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_memory_t source = NULL, target = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success && scale != 1.0f)
        status = dnnl_primitive_attr_set_output_scales(attr, 1, 0, &scale);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr);
    if (status == dnnl_success) status = create_primitive(&primitive, pd);
    if (status == dnnl_success) status = dnnl_stream_create(&stream, engine, dnnl_stream_in_order);
    if (status == dnnl_success)
        status = dnnl_memory_create(&source, from, engine, (void *)(uintptr_t)in);
    if (status == dnnl_success) status = dnnl_memory_create(&target, to, engine, out);
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
    if (status == dnnl_success) status = dnnl_primitive_execute(primitive, stream, 2, args);
    if (status == dnnl_success) status = dnnl_stream_wait(stream);
    if (source) dnnl_memory_destroy(source);
    if (target) dnnl_memory_destroy(target);
    if (stream) dnnl_stream_destroy(stream);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    qb_dnnl_threads_restore(&before);
    return status;
}

/* oneDNN adds the bias before it scales, so a real one is divided by the multiplier. */
static void pack_bias(const qb_problem *p, const void *bias, int64_t channels, float *to) {
    bool integer = p->in[QB_IN_DATA].q.n > 0;
    bool quantized = p->in[QB_IN_BIAS].dtype == QB_DTYPE_S32;
    for (int64_t c = 0; c < channels; c++) {
        float value = quantized ? (float)((const int32_t *)bias)[c] : ((const float *)bias)[c];
        to[c] = integer && !quantized ? value / qb_dnnl_multiplier(p, c) : value;
    }
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const qb_dnnl_state *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    const dnnl_memory_desc_t *to = NULL;
    for (int i = 0; i < s->n_args; i++)
        if (s->arg[i].id == DNNL_ARG_WEIGHTS) to = &s->arg[i].desc;
    bool factor = p->kind == QB_KIND_MATMUL && p->in[QB_IN_DATA].q.n == 0;
    QB_TRY(qb_dnnl_check(cx,
                         reorder(s, &s->weight, constants[QB_IN_WEIGHT], to,
                                 (char *)packed + s->weight_at, factor ? p->scale : 1.0f),
                         "packing the weight"));
    if (qb_problem_has(p, QB_IN_BIAS))
        pack_bias(p, constants[QB_IN_BIAS], qb_shape_count(&p->in[QB_IN_BIAS].shape),
                  (float *)(void *)((char *)packed + s->bias_at));
    return QB_OK;
}

qb_status qb_dnnl_bind_constants(qb_ctx *cx, qb_kernel *kernel, const_dnnl_primitive_desc_t pd,
                                 const dnnl_memory_desc_t *row) {
    qb_dnnl_state *s = kernel->state;
    const dnnl_memory_desc_t *weight = qb_dnnl_query(pd, dnnl_query_weights_md);
    if (!weight) return qb_fail(cx, QB_STATUS_INTERNAL, "oneDNN: no weight to pack");
    s->weight = *row;
    s->weight_at = 0;
    s->bias_at = pad64(dnnl_memory_desc_get_size(weight));
    kernel->packed_bytes = s->bias_at;
    kernel->packed_inputs = UINT64_C(1) << QB_IN_WEIGHT | UINT64_C(1) << QB_IN_BIAS;
    kernel->pack = pack;
    const qb_hash hash = qb_hash_bytes(weight, sizeof *weight);
    memcpy(&kernel->packing_id, hash.byte, sizeof kernel->packing_id);
    s->arg[s->n_args++] =
        (qb_dnnl_arg){.id = DNNL_ARG_WEIGHTS, .from = QB_DNNL_PACKED, .desc = *weight};
    if (!qb_problem_has(&kernel->problem, QB_IN_BIAS)) return QB_OK;
    const dnnl_memory_desc_t *bias = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1);
    if (!bias || bias->ndims == 0)
        return qb_fail(cx, QB_STATUS_INTERNAL, "oneDNN: no bias to pack");
    kernel->packed_bytes += pad64(dnnl_memory_desc_get_size(bias));
    s->arg[s->n_args++] = (qb_dnnl_arg){
        .id = DNNL_ARG_BIAS, .from = QB_DNNL_PACKED, .offset = s->bias_at, .desc = *bias};
    return QB_OK;
}
