/* Group and instance normalization as a tactic, ROW or NHWC. */
#include <string.h>

#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/group_norm.h"

#define WIDTH 8
#define PLANE_CHUNK 16384 /* elements of a chunk, row-major */
#define PIXEL_CHUNK 256   /* pixels of a chunk, channels last */

static bool is_factor(const qb_problem *p, const bool *constant, int32_t i, int64_t channels) {
    return constant[i] && p->in[i].dtype == QB_DTYPE_F32 &&
           qb_shape_count(&p->in[i].shape) == channels;
}

static bool lower(const qb_problem *p, const bool *constant, qb_problem *finalized, qb_desc *in,
                  qb_cuda_group_norm *n) {
    *n = (qb_cuda_group_norm){.epsilon = p->epsilon, .width = 1};
    if (p->kind != QB_KIND_GROUP_NORM || p->n_in != 3) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    const qb_desc *x = &in[0], *y = &finalized->out;
    if (x->shape.rank < 2 || !qb_cuda_is_countable(x) || qb_shape_count(&x->shape) == 0 ||
        x->layout != y->layout || x->channel_total > 0 || y->channel_total > 0 ||
        (x->layout != QB_LAYOUT_ROW && (x->layout != QB_LAYOUT_NHWC || x->shape.rank < 3)) ||
        !qb_cuda_value_of(x, &n->in) || !qb_cuda_value_of(y, &n->out))
        return false;
    const int64_t images = x->shape.dim[0], channels = x->shape.dim[1];
    const int64_t plane = qb_shape_count(&x->shape) / (images * channels);
    if (p->group < 1 || channels % p->group || !is_factor(p, constant, 1, channels) ||
        !is_factor(p, constant, 2, channels))
        return false;
    n->images = (int32_t)images;
    n->channels = (int32_t)channels;
    n->groups = (int32_t)p->group;
    n->plane = (uint32_t)plane;
    n->channels_last = x->layout == QB_LAYOUT_NHWC;
    n->chunk = n->channels_last ? PIXEL_CHUNK : PLANE_CHUNK;
    n->chunks = (n->plane + n->chunk - 1) / n->chunk;
    if ((n->channels_last ? channels : plane) % WIDTH == 0) n->width = WIDTH;
    return n->chunks <= UINT16_MAX;
}

static bool cuda_group_norm_supports(const qb_problem *problem, const bool *constant) {
    qb_problem finalized;
    qb_desc in[QB_MAX_INPUTS];
    qb_cuda_group_norm n;
    return lower(problem, constant, &finalized, in, &n);
}

/* Scale, then bias. */
static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const qb_cuda_group_norm *n = kernel->state;
    for (int32_t i = 1; i < 3; i++)
        memcpy((float *)packed + (i - 1) * n->channels, constants[i],
               (size_t)n->channels * sizeof(float));
    return QB_OK;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_cuda_group_norm *n = kernel->state;
    const float *scale = args->packed;
    const float *bias = scale + n->channels;
    const int code = n->blocks > 0 ? qb_cuda_group_norm_cluster_run(n, args->in[0], scale, bias,
                                                                    args->out, args->stream)
                                   : qb_cuda_group_norm_run(n, args->in[0], scale, bias, args->out,
                                                            args->workspace, args->stream);
    return qb_cuda_check(cx, code, kernel->tactic->name);
}

static qb_status cuda_group_norm_create(qb_ctx *cx, const qb_tactic *tactic,
                                        const qb_problem *problem, const bool *constant,
                                        int threads, qb_kernel **out) {
    qb_problem finalized;
    qb_desc in[QB_MAX_INPUTS];
    qb_cuda_group_norm n;
    qb_cuda_device device;
    (void)threads;
    if (!lower(problem, constant, &finalized, in, &n)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_current(cx, &device));
    n.blocks = qb_cuda_group_norm_blocks(&n, &device, qb_cuda_has_code_90());
    QB_TRY(qb_cuda_create(cx, tactic, &finalized, &n, sizeof n, out));
    (*out)->packed_bytes = (size_t)n.channels * 2 * sizeof(float);
    (*out)->packed_inputs = 6; /* inputs 1 and 2 */
    (*out)->pack = pack;
    (*out)->launch = launch;
    (*out)->workspace_bytes = n.blocks > 0 ? 0 : qb_cuda_group_norm_bytes(&n);
    (*out)->in_place_inputs = n.in.dtype == n.out.dtype;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_group_norm, "group_norm", QB_KIND_GROUP_NORM, QB_WITHIN_1_LSB);
