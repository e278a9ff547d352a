/* What the tactics over oneDNN share: descriptions of memory, epilogues, making and running a
 * primitive.
 *
 * A kernel owns its engine (a CPU engine of oneDNN is a few words; the generated code lives in
 * oneDNN's own cache and is shared) and one immutable primitive. Memory objects carry pointers and
 * must not be shared by threads: each launch takes a slot with its own memory objects and stream
 * from a list and puts it back. The list grows to the number of launches that ever ran at once; one
 * slot is made at build. oneDNN itself allocates a small argument table in each execution. */
#ifndef QB_DNNL_INTERNAL_H
#define QB_DNNL_INTERNAL_H

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

#include "base/thread.h"
#include "kernels/tactic.h"

#define QB_DNNL_ARGS 8

typedef enum qb_dnnl_from {
    QB_DNNL_INPUT,
    QB_DNNL_OUT,
    QB_DNNL_PACKED,
    QB_DNNL_WORKSPACE
} qb_dnnl_from;

typedef struct qb_dnnl_arg {
    int id; /* DNNL_ARG_... */
    qb_dnnl_from from;
    int32_t input; /* QB_DNNL_INPUT: which */
    size_t offset; /* QB_DNNL_PACKED: where */
    dnnl_memory_desc_t desc;
} qb_dnnl_arg;

typedef struct qb_dnnl_slot {
    dnnl_stream_t stream;
    dnnl_exec_arg_t arg[QB_DNNL_ARGS];
    const void *handle[QB_DNNL_ARGS]; /* what arg[i].memory points to */
    struct qb_dnnl_slot *next;
} qb_dnnl_slot;

typedef struct qb_dnnl_state {
    int threads, forks;
    dnnl_engine_t engine;
    dnnl_primitive_t primitive;
    int n_args;
    qb_dnnl_arg arg[QB_DNNL_ARGS];
    dnnl_memory_desc_t weight; /* the constant as it comes */
    size_t weight_at, bias_at; /* in the packed block */
    pthread_mutex_t lock;
    bool has_lock;
    qb_dnnl_slot *free;
} qb_dnnl_state;

/* QB_OK, or an error that names the call. What oneDNN does not implement is UNSUPPORTED. */
qb_status qb_dnnl_check(qb_ctx *cx, dnnl_status_t status, const char *what);

/* Its implementations count in 32 bits and divide by what a larger dimension leaves there: such a
 * one is QB_STATUS_UNSUPPORTED. */
qb_status qb_dnnl_check_size(qb_ctx *cx, int rank, const int64_t *dims);
/* The description of a tensor, or of a slice within its buffer. Layout ANY becomes format any. */
qb_status qb_dnnl_desc(qb_ctx *cx, const qb_desc *desc, dnnl_memory_desc_t *md);
qb_status qb_dnnl_row(qb_ctx *cx, dnnl_data_type_t type, int rank, const int64_t *dims,
                      dnnl_memory_desc_t *md);
dnnl_data_type_t qb_dnnl_type(qb_dtype dtype);
/* When `desc` leaves the layout open, sets it to the one that `md` is; false when there is none. */
bool qb_dnnl_finalize(qb_desc *desc, const dnnl_memory_desc_t *md);
/* A window in oneDNN's terms. False when the sizes do not fit together. */
typedef struct qb_dnnl_window {
    dnnl_dims_t kernel, stride, dilation, pad_begin, pad_end;
} qb_dnnl_window;
/* `big` is the side that the window slides over: the input, or the output of a transposed one. */
bool qb_dnnl_window_of(const qb_window *window, const qb_shape *big, const qb_shape *small,
                       qb_dnnl_window *out);

/* Descriptions in problems. */
bool qb_dnnl_is_f32(const qb_desc *desc);       /* plain f32 */
bool qb_dnnl_is_bf16(const qb_desc *desc);      /* plain bf16 */
bool qb_dnnl_is_quantized(const qb_desc *desc); /* u8 or s8 with one scale */
int32_t qb_dnnl_zero(const qb_desc *desc);
/* Quantized values of one type, scale and zero point? */
bool qb_dnnl_same_params(const qb_desc *a, const qb_desc *b);
bool qb_dnnl_is_empty(const qb_problem *p);
/* Holds oneDNN to the tier that QB_CPU names; has to come before it looks for instruction sets. */
void qb_dnnl_limit(void);
/* Does the processor multiply bf16? Without, oneDNN converts in each step and is slower than f32.
 */
bool qb_dnnl_has_bf16(void);
/* What an anchor (CONV, CONV_TRANSPOSE, MATMUL) computes in. */
typedef enum qb_dnnl_class { QB_DNNL_F32, QB_DNNL_BF16, QB_DNNL_S8 } qb_dnnl_class;
/* Types of an anchor that oneDNN can compute, integers within one step: all f32; bf16 data and f32
 * constants (weights are rounded when they are packed) to bf16 or f32; or quantized values with
 * symmetric weights. Weight scales: one, or `channels` along `axis`. */
bool qb_dnnl_anchor_types(const qb_problem *p, qb_dnnl_class type, int64_t channels, int32_t axis);
/* The type of packed weights: bf16 beside bf16 data. */
dnnl_data_type_t qb_dnnl_weight_type(const qb_problem *p);
/* Data and result of steps without constants: both f32, or both bf16 where the processor has it. */
bool qb_dnnl_float_types(const qb_desc *in, const qb_desc *out);

/* The end of a fused step as attributes. `residual_sum`: the residual lies in the output's memory;
 * otherwise it is a binary post-op number `*binary` (-1: none) with description `residual`.
 * Integer anchors get their scales and zero points; `scale_mask` tells where the output channels
 * are. User scratchpad always. */
typedef struct qb_dnnl_epilogue {
    bool integer, residual_sum;
    int scale_mask;
    const dnnl_memory_desc_t *residual;
    int binary;
    dnnl_primitive_attr_t attr;
} qb_dnnl_epilogue;
qb_status qb_dnnl_epilogue_make(qb_ctx *cx, const qb_problem *p, int64_t channels,
                                qb_dnnl_epilogue *epilogue);
/* For QB_RELEASED; NULL is none. */
void qb_dnnl_epilogue_release(qb_dnnl_epilogue *epilogue);
void qb_dnnl_pd_release(dnnl_primitive_desc_t *pd);
/* The eltwise algorithm of an activation that is exactly one; false: it is not. */
bool qb_dnnl_act(qb_act act, dnnl_alg_kind_t *alg, float *alpha, float *beta);
/* Data scale times weight scale of an output channel (times MATMUL's factor). */
float qb_dnnl_multiplier(const qb_problem *p, int64_t channel);
/* Can the residual be summed in place? */
bool qb_dnnl_can_sum(const qb_problem *p);

/* A kernel with an engine and no primitive yet; qb_kernel_free releases whatever it has. */
qb_status qb_dnnl_begin(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                        qb_kernel **out);
/* Takes the first implementation that is no reference one and whose data and output have layouts
 * that we name, finalizes them in kernel->problem, makes the primitive and its workspace. The
 * caller frees *pd. */
qb_status qb_dnnl_choose(qb_ctx *cx, qb_kernel *kernel, const_dnnl_op_desc_t op,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd);
/* The same for a reorder between two descriptions. */
qb_status qb_dnnl_choose_reorder(qb_ctx *cx, qb_kernel *kernel, const dnnl_memory_desc_t *from,
                                 const dnnl_memory_desc_t *to, const_dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t *pd);
const dnnl_memory_desc_t *qb_dnnl_query(const_dnnl_primitive_desc_t pd, dnnl_query_t what);
/* Arguments of the primitive. */
void qb_dnnl_bind_input(qb_kernel *kernel, int id, int32_t input, const dnnl_memory_desc_t *md);
void qb_dnnl_bind_out(qb_kernel *kernel, const dnnl_memory_desc_t *md);
/* Constants of an anchor: weight (from `row`, its row-major form) and bias of `channels`. */
qb_status qb_dnnl_bind_constants(qb_ctx *cx, qb_kernel *kernel, const_dnnl_primitive_desc_t pd,
                                 const dnnl_memory_desc_t *row);
/* The residual of an anchor: in the output's memory, or the binary post-op of `end`. */
void qb_dnnl_bind_residual(qb_kernel *kernel, const qb_dnnl_epilogue *epilogue);

/* An anchor with packed constants, up to its end: what the kinds differ in. */
typedef struct qb_dnnl_anchor {
    union {
        dnnl_convolution_desc_t conv;
        dnnl_deconvolution_desc_t deconv;
        dnnl_matmul_desc_t matmul;
    } op;
    dnnl_memory_desc_t row;      /* the weight as it comes */
    dnnl_memory_desc_t residual; /* when there is one with a layout */
    int64_t channels;
    int scale_mask;
    bool integer;
} qb_dnnl_anchor;
qb_status qb_dnnl_anchor_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                                int threads, const qb_dnnl_anchor *anchor, qb_kernel **out);
/* A copy of the problem in which residual and output have the same layout where one is open. */
typedef struct qb_dnnl_lowered {
    qb_problem p;
    qb_desc in[4];
} qb_dnnl_lowered;
void qb_dnnl_lower(const qb_problem *p, qb_dnnl_lowered *lowered);

/* A kernel of a kind without constants; BINARY's first operand is input `first`. */
qb_status qb_dnnl_simple_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                                int threads, const_dnnl_op_desc_t op, int32_t first,
                                qb_kernel **out);

/* What OpenMP is told on this thread. */
typedef struct qb_dnnl_threads {
    int threads, dynamic, levels;
    bool blocks;      /* threads may be started, which signals are not for (base/thread.h) */
    sigset_t signals; /* then: this thread's */
} qb_dnnl_threads;

/* oneDNN works on as many threads as OpenMP would take by default on this thread, and computes a
 * part of the result alone where it then gets fewer (OMP_DYNAMIC, OMP_MAX_ACTIVE_LEVELS, a caller
 * that is in a team itself): sets that and returns what it was. */
qb_dnnl_threads qb_dnnl_threads_set(const qb_dnnl_state *s);
void qb_dnnl_threads_restore(const qb_dnnl_threads *before);
qb_status qb_dnnl_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args);
void qb_dnnl_slot_free(const qb_dnnl_state *s, qb_dnnl_slot *slot);
/* Last: makes the first slot. */
qb_status qb_dnnl_epilogue_create(qb_ctx *cx, qb_kernel *kernel);

#endif
