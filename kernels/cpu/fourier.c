/* Spectra: lines go to the threads in the groups that are transformed together. */
#include "kernels/fourier.h"
#include "cpu_internal.h"

#define TASKS_A_THREAD 2

typedef struct fourier {
    qb_fourier_plan plan;
    int64_t groups, parts, workspace; /* groups of lines; tasks; doubles of a task */
    double roots[];
} fourier;

typedef struct job {
    const fourier *f;
    const float *x, *window;
    float *y;
    double *workspace;
} job;

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const fourier *f = j->f;
    const int64_t first = qb_part_begin(f->groups, f->parts, task) * QB_FOURIER_LINES;
    const int64_t end = qb_part_begin(f->groups, f->parts, task + 1) * QB_FOURIER_LINES;
    qb_fourier_run(&f->plan, f->roots, j->x, j->window, first, qb_min64(end, f->plan.lines), j->y,
                   j->workspace + task * f->workspace);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const fourier *f = kernel->state;
    const bool has_window = kernel->problem.n_in > 2;
    job j = {f, args->in[0], has_window ? args->in[2] : NULL, args->out, args->workspace};
    qb_workers_run(args->workers, f->parts, run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const bool has_window = p->n_in > 2 && p->in[2].dtype != QB_DTYPE_NONE;
    return qb_cpu_is_f32(&p->in[0]) && qb_cpu_is_filled_rows(&p->in[0]) && qb_cpu_is_f32(&p->out) &&
           qb_cpu_is_filled_rows(&p->out) &&
           (!has_window || (qb_cpu_is_f32(&p->in[2]) && qb_cpu_is_filled_rows(&p->in[2])));
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    const qb_fourier_plan plan =
        qb_fourier_plan_of(&p->fourier, p->axis, &p->in[0].shape, &p->out.shape);
    const size_t roots = (size_t)qb_fourier_roots(&plan) * sizeof(double);
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(fourier) + roots, out));
    fourier *f = (*out)->state;
    f->plan = plan;
    f->groups = qb_ceil64(plan.lines, QB_FOURIER_LINES);
    f->parts = qb_min64(f->groups, (int64_t)TASKS_A_THREAD * threads);
    f->workspace = qb_fourier_workspace(&plan);
    qb_fourier_fill_roots(&plan, f->roots);
    (*out)->workspace_bytes = (size_t)(f->parts * f->workspace) * sizeof(double);
    (*out)->launch = launch;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_fourier = {.name = "cpu.fourier",
                                         .backend = "cpu",
                                         .kind = QB_KIND_FOURIER,
                                         .exactness = QB_WITHIN_1_LSB,
                                         .supports = supports,
                                         .create = create};
