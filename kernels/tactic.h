/* Tactics: the ways to run a problem. One row in tactics.def and one file each.
 *
 * A tactic creates a kernel for one problem; the kernel is immutable and may be launched from many
 * threads at once, each with its own buffers. Names follow the grammar
 * backend.kind_type.how, for example "dnnl.conv_s8.brgconv" or "ref.conv". */
#ifndef QB_KERNELS_TACTIC_H
#define QB_KERNELS_TACTIC_H

#include "kernels/compiled.h"
#include "kernels/problem.h"
#include "kernels/workers.h"

/* How integer results from integer data relate to kernels/ref (and those of COPY from any data).
 * What comes from float sums is compared by tolerance, and within 1 when it is quantized. */
typedef enum qb_exactness { QB_EXACT, QB_WITHIN_1_LSB } qb_exactness;

typedef struct qb_kernel qb_kernel;

/* Buffers of 8-bit elements may be read this far behind their end (never written), so that integer
 * kernels need no special last case. The bytes there are undefined and must not reach a result. */
#define QB_BUFFER_SLACK 64

/* Pointers for one launch. `in` has n_in entries in the problem's order; constants that were packed
 * are NULL there. Buffers must not overlap, except for the output and one of in_place_inputs.
 * A channel slice is passed as the start of the whole buffer. */
typedef struct qb_launch {
    const void *const *in;
    void *out;           /* of a kind with several results: NULL when nobody wants it */
    void *const *more;   /* the others of qb_kind_outputs, NULL each when not wanted; NULL: none */
    const void *packed;  /* packed_bytes, 64-byte aligned */
    void *workspace;     /* workspace_bytes, 64-byte aligned; NULL when 0 */
    qb_workers *workers; /* cpu: who shares the work; NULL: the caller alone */
    void *stream;        /* of a device: where to launch; the call does not wait */
} qb_launch;

struct qb_kernel {
    const struct qb_tactic *tactic;
    char impl[64];            /* the library's own name of the algorithm, or "" */
    qb_problem problem;       /* with the layouts that the kernel wants; owns its arrays */
    qb_desc *in;              /* problem.in, writable until create returns */
    size_t packed_bytes;      /* constants (weight, bias, multipliers) in the kernel's own form */
    uint64_t packing_id;      /* what that form depends on beside the constants, the types and the
                                  quantization: kernels of one tactic with the same number pack the
                                  same bytes, for inputs of any size. 0: unknown */
    size_t workspace_bytes;   /* scratch for one launch */
    uint64_t packed_inputs;   /* bit i: input i is in `packed`, launch does not look at in[i] */
    uint64_t in_place_inputs; /* bit i: `out` may be the buffer of input i */
    bool in_place_required;   /* ... and must be that of the one input named there */
    qb_hash compiled;         /* of what problem.compiled has of it; zero: nothing */
    int32_t more_owners;      /* beside the first one, see qb_kernel_share */
    /* Fills `packed` from the problem's constant inputs (row-major; entries of data that are not
     * constant are NULL). Called once at build. NULL when packed_bytes is 0. */
    qb_status (*pack)(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed);
    qb_status (*launch)(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args);
    void (*destroy)(qb_kernel *kernel);
    void *state; /* the tactic's own */
};

typedef struct qb_tactic {
    const char *name;
    const char *backend; /* "ref", "cpu", "dnnl", "cuda" */
    qb_kind kind;
    qb_exactness exactness;
    /* Data, result, `packed` and workspace lie in the device's memory, 256-byte aligned; pack
     * writes host memory all the same. launch puts its work on the stream and returns: it may be
     * captured into a graph, so that it neither allocates nor waits. A constant that is not among
     * packed_inputs lies on the device as the graph has it: row-major, f32 beside f16 data. */
    bool device_memory;
    bool rounds; /* takes problems with a `rounding` */
    /* Would it run in portable C on this processor? Then the other backends' tactics go first (but
     * the reference). NULL: it has vectors of its own. */
    bool (*is_portable)(void);
    /* Can this tactic run the problem at all? Layout QB_LAYOUT_ANY in a desc means that the tactic
     * may choose; constants are always row-major. `constant[i]`: input i is known at build. */
    bool (*supports)(const qb_problem *problem, const bool *constant);
    /* Makes the kernel and finalizes all layouts in kernel->problem. `threads`: how many threads
     * launch will have (the launch's workers, or OpenMP's). QB_STATUS_UNSUPPORTED sends the engine
     * to the next tactic. */
    qb_status (*create)(qb_ctx *cx, const struct qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, int threads, qb_kernel **out);
    /* The same for a tactic that tries algorithms of a library, which may each have to be compiled:
     * it leaves off where the first ones are far behind `to_beat` seconds (0: nothing is there to
     * be beaten). NULL: it tries nothing, or all. */
    qb_status (*compete)(qb_ctx *cx, const struct qb_tactic *tactic, const qb_problem *problem,
                         const bool *constant, double to_beat, qb_kernel **out);
    /* What some backend's create makes of it: a kernel with zeroed state of so many bytes, which
     * `fill` sets, and `launch` with it. */
    size_t state_bytes;
    void (*fill)(const qb_problem *problem, int threads, qb_kernel *kernel);
} qb_tactic;

/* The descriptor qb_tactic_SYMBOL; behind `create` may stand further members. */
#define QB_TACTIC(SYMBOL, NAME, BACKEND, KIND, EXACTNESS, SUPPORTS, ...)                           \
    const qb_tactic qb_tactic_##SYMBOL = {.name = NAME,                                            \
                                          .backend = BACKEND,                                      \
                                          .kind = KIND,                                            \
                                          .exactness = EXACTNESS,                                  \
                                          .supports = SUPPORTS,                                    \
                                          .create = __VA_ARGS__}

/* All tactics compiled in, in order of preference within a backend; a reference tactic stands last
 * for each kind up to COPY but NODE (eval runs that and the kinds behind). Ends with NULL. */
const qb_tactic *const *qb_tactics(void);
const qb_tactic *qb_tactic_find(const char *name);
/* Does the tactic run the problem: is it of its kind, and does `supports` take it? `constant[i]`:
 * input i is known at build. */
bool qb_tactic_takes(const qb_tactic *tactic, const qb_problem *problem, const bool *constant);

/* A packing_id of one more number. */
static inline uint64_t qb_packing_add(uint64_t id, uint64_t number) {
    id = (id ^ number) * UINT64_C(0x9E3779B97F4A7C15);
    return (id ^ id >> 29) | 1;
}

/* Allocates a kernel with the problem copied, descs and quantization parameters included
 * (QB_MAX_INPUTS inputs at most). One block: qb_kernel_free releases it all. */
qb_status qb_kernel_alloc(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                          qb_kernel **out);
/* One more owner of the kernel, who calls qb_kernel_free as well; the last one to do so releases
 * it. All owners belong to one thread. */
qb_kernel *qb_kernel_share(qb_kernel *kernel);
void qb_kernel_free(qb_kernel *kernel); /* calls destroy; accepts NULL */
QB_RELEASE_AT(qb_kernel, qb_kernel_free)
#endif
