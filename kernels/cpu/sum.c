/* The sum of two images that lie as channel slices of wider ones, as the engine lets convolutions
 * write them (see wants_capacity in engine/realize/steps.c): a residual that no convolution takes
 * in. One of the operands may be written over. */
#include "binary_internal.h"

#define FLOATS_PER_TASK 8192

typedef struct sum {
    int64_t pixels, channels, per_task;
    int64_t first[3], step[3]; /* of both operands and the result, in floats */
    qb_binary row;             /* of one pixel */
    qb_binary_fn run;
} sum;

typedef struct job {
    const sum *s;
    const float *a, *b;
    float *out;
} job;

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const sum *s = j->s;
    const int64_t end = qb_min64((task + 1) * s->per_task, s->pixels);
    for (int64_t p = task * s->per_task; p < end; p++) {
        const char *const from[2] = {(const char *)(j->a + p * s->step[0]),
                                     (const char *)(j->b + p * s->step[1])};
        s->run(&s->row, from, (char *)(j->out + p * s->step[2]), s->channels);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const sum *s = kernel->state;
    job j = {s, (const float *)args->in[0] + s->first[0], (const float *)args->in[1] + s->first[1],
             (float *)args->out + s->first[2]};
    qb_workers_run(args->workers, qb_ceil64(s->pixels, s->per_task), run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    if (p->binary != QB_BINARY_ADD || qb_epilogue_of(p).act.kind != QB_ACT_NONE) return false;
    bool sliced = false;
    for (int32_t i = 0; i < 3; i++) {
        const qb_desc *desc = i < 2 ? &p->in[i] : &p->out;
        if (!qb_cpu_is_f32(desc) || desc->layout != QB_LAYOUT_NHWC || desc->shape.rank < 3 ||
            !qb_shape_equal(&desc->shape, &p->out.shape))
            return false;
        sliced = sliced || desc->channel_total > 0;
    }
    return sliced && !constant[0] && !constant[1] && qb_shape_count(&p->out.shape) > 0;
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    sum *s = kernel->state;
    s->channels = p->out.shape.dim[1];
    s->pixels = qb_shape_count(&p->out.shape) / s->channels;
    s->per_task = qb_max64(1, FLOATS_PER_TASK / s->channels);
    s->row =
        (qb_binary){.kind = QB_BINARY_ADD,
                    .epilogue = qb_epilogue_of(p),
                    .in = {{.dtype = QB_DTYPE_F32, .step = 1}, {.dtype = QB_DTYPE_F32, .step = 1}}};
    s->run = qb_binary_best();
    for (int32_t i = 0; i < 3; i++) {
        const qb_desc *desc = i < 2 ? &p->in[i] : &p->out;
        s->first[i] = desc->channel_offset;
        s->step[i] = qb_cpu_channels(desc);
    }
    for (uint64_t i = 0; i < 2; i++) /* in place is to lie in the same place */
        if (s->first[i] == s->first[2] && s->step[i] == s->step[2])
            kernel->in_place_inputs |= UINT64_C(1) << i;
    kernel->launch = launch;
}

QB_TACTIC(cpu_sum, "cpu.sum_f32", "cpu", QB_KIND_BINARY, QB_EXACT, supports, qb_cpu_create,
          .state_bytes = sizeof(sum), .fill = fill);
