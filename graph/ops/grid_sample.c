/* GridSample (see kernels/grid.h) and AffineGrid. */
#include "kernels/grid.h"
#include "ops_internal.h"

typedef struct grid_attrs {
    const char *mode, *padding_mode;
    int64_t align_corners;
} grid_attrs;
QB_ATTRS(grid_table, QB_A_STRING(grid_attrs, mode, "mode", "linear"),
         QB_A_STRING(grid_attrs, padding_mode, "padding_mode", "zeros"),
         QB_A_INT(grid_attrs, align_corners, "align_corners", 0, 0, 1));

static bool is(const char *text, const char *name) { return strcmp(text, name) == 0; }

static qb_status grid_of(qb_ctx *cx, const grid_attrs *attrs, qb_grid_sampling *out) {
    *out = (qb_grid_sampling){is(attrs->mode, "nearest")  ? QB_GRID_NEAREST
                              : is(attrs->mode, "linear") ? QB_GRID_LINEAR
                                                          : QB_GRID_CUBIC,
                              is(attrs->padding_mode, "zeros")    ? QB_GRID_ZEROS
                              : is(attrs->padding_mode, "border") ? QB_GRID_BORDER
                                                                  : QB_GRID_REFLECTION,
                              attrs->align_corners != 0};
    if (out->mode == QB_GRID_CUBIC && !is(attrs->mode, "cubic"))
        return qb_fail(cx, QB_STATUS_INVALID, "mode: expected nearest, linear or cubic, got '%s'",
                       attrs->mode);
    if (out->outside == QB_GRID_REFLECTION && !is(attrs->padding_mode, "reflection"))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "padding_mode: expected zeros, border or reflection, got '%s'",
                       attrs->padding_mode);
    return QB_OK;
}

bool qb_node_grid(const qb_node *node, qb_grid_sampling *out) {
    qb_ctx quiet = {0};
    return grid_of(&quiet, node->attrs, out) == QB_OK;
}

static qb_status infer_grid(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0), *grid = qb_infer_in(args, 1);
    qb_shape out = {.rank = -1};
    qb_grid_sampling how;
    QB_TRY(grid_of(cx, qb_infer_at(args)->attrs, &how));
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 2 + QB_GRID_SPATIAL));
    if (x->shape.rank < 0 || grid->shape.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    const int32_t rank = x->shape.rank;
    QB_TRY(qb_infer_rank(cx, args, 1, rank, rank));
    const int64_t n = x->shape.dim[0], n_grid = grid->shape.dim[0];
    const int64_t places = grid->shape.dim[rank - 1];
    if (n >= 0 && n_grid >= 0 && n != n_grid)
        return qb_fail(cx, QB_STATUS_INVALID, "grid: expected %lld samples as in X, got %lld",
                       (long long)n, (long long)n_grid);
    if (places >= 0 && places != rank - 2)
        return qb_fail(cx, QB_STATUS_INVALID, "grid: expected %d coordinates, got %lld", rank - 2,
                       (long long)places);
    out = (qb_shape){.rank = rank,
                     .dim = {n >= 0 || n_grid == QB_DIM_UNKNOWN ? n : n_grid, x->shape.dim[1]}};
    for (int32_t d = 2; d < rank; d++) out.dim[d] = grid->shape.dim[d - 1];
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* All products of taps of the dimensions, elements that read 0 left out. */
static int32_t corners_of(const qb_grid_axis *axes, int32_t n, const float *place,
                          qb_grid_tap out[QB_GRID_CORNERS]) {
    int32_t count = 1;
    out[0] = (qb_grid_tap){0, 1.0};
    for (int32_t d = 0; d < n; d++) {
        qb_grid_tap taps[QB_GRID_TAPS], before[QB_GRID_CORNERS];
        const int32_t n_taps = qb_grid_taps(&axes[d], place[n - 1 - d], taps), n_before = count;
        memcpy(before, out, (size_t)count * sizeof *out);
        count = 0;
        for (int32_t i = 0; i < n_before; i++)
            for (int32_t k = 0; k < n_taps; k++)
                if (taps[k].at >= 0)
                    out[count++] =
                        (qb_grid_tap){before[i].at + taps[k].at, before[i].weight * taps[k].weight};
    }
    return count;
}

static qb_status eval_grid(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_shape *shape = &in[0].desc.shape;
    QB_EVAL_IN_F32(eval_grid);
    qb_grid_axis axes[QB_GRID_SPATIAL];
    qb_grid_sampling how;
    QB_TRY(grid_of(cx, node->attrs, &how));
    const int32_t n = qb_grid_axes(&how, shape, axes);
    const int64_t pixels = qb_shape_span(shape, 2, shape->rank);
    const int64_t places = qb_shape_span(&out[0].desc.shape, 2, shape->rank);
    const float *grid = in[1].data;
    for (int64_t sample = 0; sample < shape->dim[0]; sample++)
        for (int64_t i = 0; i < places; i++, grid += n) {
            qb_grid_tap corner[QB_GRID_CORNERS];
            const int32_t n_corners = corners_of(axes, n, grid, corner);
            for (int64_t c = 0; c < shape->dim[1]; c++) {
                const int64_t plane = sample * shape->dim[1] + c;
                const float *x = (const float *)in[0].data + plane * pixels;
                double sum = 0.0;
                for (int32_t k = 0; k < n_corners; k++)
                    sum += corner[k].weight * (double)x[corner[k].at];
                ((float *)out[0].data)[plane * places + i] = (float)sum;
            }
        }
    return QB_OK;
}

/* Opset 20 gave the modes other names. */
static qb_status upgrade_grid(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    grid_attrs *attrs = graph->nodes[node].attrs;
    (void)cx;
    if (version >= 20) return QB_OK;
    attrs->mode = is(attrs->mode, "bilinear")  ? "linear"
                  : is(attrs->mode, "bicubic") ? "cubic"
                                               : attrs->mode;
    return QB_OK;
}

QB_OP_SIMPLE(grid_sample, "GridSample", 16, 2, 2, 1, sizeof(grid_attrs), grid_table, FLOAT,
             infer_grid, eval_grid, .upgrade = upgrade_grid, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_GRID_SAMPLE});

/* --- AffineGrid: the places of an image's pixels, moved by a matrix -------------------------- */

QB_ATTRS(affine_table, QB_A_INT(grid_attrs, align_corners, "align_corners", 0, 0, 1));

static qb_status infer_affine(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *theta = qb_infer_in(args, 0);
    int64_t size[2 + QB_GRID_SPATIAL];
    int32_t n;
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 3));
    QB_TRY(qb_infer_ints(cx, args, 1, size, 2 + QB_GRID_SPATIAL, &n));
    const int64_t known = n >= 0 ? n : qb_infer_length(args, 1);
    qb_shape out = {.rank = -1};
    if (known < 0) return qb_infer_set(cx, args, 0, theta->dtype, &out);
    if (known < 4 || known > 2 + QB_GRID_SPATIAL)
        return qb_fail(cx, QB_STATUS_INVALID, "size: expected 4 or 5 numbers, got %lld",
                       (long long)known);
    out = qb_shape_unknown((int32_t)known);
    out.dim[known - 1] = known - 2;
    for (int32_t d = 0; d < n - 1; d++) {
        out.dim[d] = size[d == 0 ? 0 : d + 1];
        if (out.dim[d] < 0)
            return qb_fail(cx, QB_STATUS_INVALID, "size: expected no negative number, got %lld",
                           (long long)out.dim[d]);
    }
    if (theta->shape.rank == 3) {
        const int64_t expected[3] = {out.dim[0], known - 2, known - 1};
        for (int32_t d = 0; d < 3; d++)
            if (expected[d] >= 0 && theta->shape.dim[d] >= 0 && theta->shape.dim[d] != expected[d])
                return qb_fail(cx, QB_STATUS_INVALID,
                               "theta: dimension %d: expected %lld, got %lld", d,
                               (long long)expected[d], (long long)theta->shape.dim[d]);
        if (out.dim[0] == QB_DIM_UNKNOWN) out.dim[0] = theta->shape.dim[0];
    }
    return qb_infer_set(cx, args, 0, theta->dtype, &out);
}

/* The middle of pixel i of n, where -1 and 1 are the middles of the corners or their outer edges. A
 * single pixel lies in the middle. */
static double pixel_place(int64_t i, int64_t n, bool corners) {
    if (corners) return n > 1 ? 2.0 * (double)i / (double)(n - 1) - 1.0 : 0.0;
    return (2.0 * (double)i + 1.0) / (double)n - 1.0;
}

/* The place of pixel i of a grid [N, ..., n], x first; returns the number of its item. */
static int64_t place_of(const qb_shape *grid, bool corners, int64_t i, double *at) {
    const int32_t n = grid->rank - 2;
    for (int32_t d = 0; d < n; d++) {
        const int64_t size = grid->dim[n - d];
        at[d] = pixel_place(i % size, size, corners);
        i /= size;
    }
    return i;
}

void qb_node_affine_places(const qb_node *node, const qb_shape *grid, float *places) {
    const grid_attrs *attrs = node->attrs;
    const int32_t n = grid->rank - 2;
    const int64_t pixels = qb_shape_count(grid) / n / grid->dim[0];
    for (int64_t i = 0; i < pixels; i++) {
        double at[QB_GRID_SPATIAL];
        place_of(grid, attrs->align_corners != 0, i, at);
        for (int32_t d = 0; d < n; d++) *places++ = (float)at[d];
        *places++ = 1;
    }
}

static qb_status eval_affine(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const grid_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_affine);
    const qb_shape *shape = &out[0].desc.shape;
    const int32_t n = shape->rank - 2;
    const int64_t places = qb_shape_count(shape) / n;
    float *to = out[0].data;
    for (int64_t i = 0; i < places; i++) {
        double at[QB_GRID_SPATIAL];
        const int64_t item = place_of(shape, attrs->align_corners != 0, i, at);
        const float *theta = (const float *)in[0].data + item * n * (n + 1);
        for (int32_t row = 0; row < n; row++, theta += n + 1) {
            double sum = (double)theta[n];
            for (int32_t d = 0; d < n; d++) sum += (double)theta[d] * at[d];
            *to++ = (float)sum;
        }
    }
    return QB_OK;
}

QB_OP_SIMPLE(affine_grid, "AffineGrid", 20, 2, 2, 1, sizeof(grid_attrs), affine_table, FLOAT,
             infer_affine, eval_affine, .bound = qb_bound_none, .types = QB_TYPES_FLOATS);
