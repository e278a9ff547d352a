#include "graph/zoo.h"

#include <string.h>

#include "graph/zoo/zoo_internal.h"

#define DRAWN_PIXELS (8 * 64 * 64) /* of all images together, if that makes at least four */

const qb_zoo_model *const qb_zoo_models[] = {
#define X(identifier) &qb_zoo_##identifier,
#include "graph/zoo.def"
    NULL};

const qb_zoo_model *qb_zoo_find(const char *name) {
    for (const qb_zoo_model *const *m = qb_zoo_models; *m; m++)
        if (strcmp((*m)->name, name) == 0) return *m;
    return NULL;
}

/* How an image looks: brightness, contrast, how fast details fade, and noise in each pixel. */
typedef struct image_look {
    double brightness, contrast, fade, noise;
} image_look;

/* Adds a random grid of `cells` by `cells`, interpolated. `grid` has room for its corners. */
static void add_octave(qb_rng *rng, double *grid, int64_t cells, double strength, float *plane,
                       int64_t side) {
    for (int64_t i = 0; i < (cells + 1) * (cells + 1); i++) grid[i] = qb_rng_normal(rng);
    double step = (double)cells / (double)side;
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            double v = (double)y * step, u = (double)x * step;
            int64_t row = (int64_t)v, column = (int64_t)u;
            const double *g = &grid[row * (cells + 1) + column];
            double a = u - (double)column, b = v - (double)row;
            double top = g[0] * (1 - a) + g[1] * a;
            double bottom = g[cells + 1] * (1 - a) + g[cells + 2] * a;
            plane[y * side + x] += (float)(strength * (top * (1 - b) + bottom * b));
        }
}

/* Grids of 4, 8, 16 ... cells a side, each `fade` times as strong as the one before: like
 * photographs, mostly of low frequencies. */
static void draw_images(qb_rng *rng, const qb_shape *shape, double *grid, float *plane) {
    int64_t side = shape->dim[3];
    for (int64_t i = 0; i < shape->dim[0]; i++) {
        image_look look = {.brightness = 0.7 * qb_rng_normal(rng)};
        look.contrast = 0.4 + qb_rng_uniform(rng);
        look.fade = 0.3 + 0.5 * qb_rng_uniform(rng);
        look.noise = 1.0 * qb_rng_uniform(rng);
        for (int64_t c = 0; c < shape->dim[1]; c++, plane += side * side) {
            double shift = look.brightness + 0.5 * qb_rng_normal(rng), strength = look.contrast;
            for (int64_t k = 0; k < side * side; k++)
                plane[k] = (float)(shift + look.noise * qb_rng_normal(rng));
            for (int64_t cells = 4; cells <= side; cells *= 2, strength *= look.fade)
                add_octave(rng, grid, cells, strength, plane, side);
        }
    }
}

static qb_status draw_sample(qb_zoo *z, int32_t image, const qb_shape *shape) {
    size_t corners = (size_t)(shape->dim[3] + 1);
    QB_TRY(qb_grow(z->cx, &z->sample, &z->cap_samples, (size_t)image + 1, sizeof *z->sample));
    float *pixels = qb_alloc(z->cx, (size_t)qb_shape_count(shape), sizeof *pixels);
    z->sample[image] = pixels;
    QB_FREED double *grid = pixels ? qb_alloc(z->cx, corners * corners, sizeof *grid) : NULL;
    if (!grid) return z->cx->code;
    draw_images(&z->rng, shape, grid, pixels);
    return QB_OK;
}

/* The shape of the finished model's input. */
static qb_shape input_shape(const qb_zoo *z, const qb_zoo_model *model, int64_t batch) {
    if (model->channels == 0) return (qb_shape){.rank = 2, .dim = {batch, z->length}};
    return (qb_shape){.rank = 4, .dim = {batch, model->channels, z->side, z->side}};
}

/* While the model grows, its input has the drawn images' shape. */
static int32_t add_input(qb_zoo *z, const qb_zoo_model *model, int64_t batch) {
    qb_shape shape = input_shape(z, model, batch);
    if (z->drawn) {
        int64_t side = model->drawn_side ? model->drawn_side : 64;
        int64_t images = DRAWN_PIXELS / (side * side);
        shape =
            (qb_shape){.rank = 4, .dim = {images < 4 ? 4 : images, model->channels, side, side}};
    }
    int32_t input = model->channels ? qb_zoo_input(z, "image", QB_DTYPE_F32, &shape)
                                    : qb_zoo_input(z, "input_ids", QB_DTYPE_S64, &shape);
    if (input >= 0 && z->drawn && draw_sample(z, input, &shape) != QB_OK) return -1;
    return input;
}

static qb_status finish(qb_zoo *z, const qb_zoo_model *model, int64_t batch, int32_t input,
                        int32_t out) {
    z->graph->values[input].shape = input_shape(z, model, batch);
    QB_TRY(qb_graph_rename(z->cx, z->graph, out, model->output ? model->output : "logits"));
    QB_TRY(qb_graph_add_output(z->cx, z->graph, out));
    QB_TRY(qb_graph_infer(z->cx, z->graph));
    return qb_graph_verify(z->cx, z->graph);
}

static qb_status build(qb_zoo *z, const qb_zoo_model *model, const char *batch_name) {
    QB_TRY(qb_graph_create(z->cx, &z->graph));
    z->graph->name = qb_arena_strdup(z->cx, z->graph->arena, model->name);
    int64_t batch = z->graph->name ? qb_graph_add_symbol(z->cx, z->graph, batch_name) : 0;
    const bool open = model->channels == 0 && z->length == 0;
    if (open && batch != 0) z->length = qb_graph_add_symbol(z->cx, z->graph, "length");
    const bool named = batch != 0 && !(open && z->length == 0);
    int32_t input = named ? add_input(z, model, batch) : -1;
    int32_t out = input < 0 ? -1 : model->build(z, input);
    if (out < 0) return z->cx->code;
    return finish(z, model, batch, input, out);
}

qb_status qb_zoo_build(qb_ctx *cx, const char *name, uint64_t seed, const qb_zoo_options *options,
                       qb_graph **out) {
    const qb_zoo_options given = options ? *options : (qb_zoo_options){0};
    const qb_zoo_model *model = qb_zoo_find(name);
    if (!model) return qb_fail(cx, QB_STATUS_NOTFOUND, "no model '%s' in the zoo", name);
    if (given.side < 0 || given.side > 65536)
        return qb_fail(cx, QB_STATUS_INVALID, "side: expected 1 to 65536, got %lld",
                       (long long)given.side);
    qb_zoo z = {.cx = cx,
                .drawn = !model->plain,
                .side = given.side ? given.side : model->side,
                .length = given.side};
    qb_rng_seed(&z.rng, seed);
    qb_status status = build(&z, model, given.batch ? given.batch : "N");
    for (size_t i = 0; i < z.cap_samples; i++) qb_free(z.sample[i]);
    qb_free(z.sample);
    if (status != QB_OK) {
        qb_graph_free(z.graph);
        return qb_wrap(cx, "zoo model %s", name);
    }
    *out = z.graph;
    return QB_OK;
}
