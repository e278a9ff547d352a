/* Writes a seed for corpus/engine: the engine of a model for the device of tests/providers, which
 * runs what it can, the processor the rest; open sizes of the model's inputs become a profile, 1
 * to 4. Part of builds for fuzzing: make_device_seed MODEL.onnx f32|f16
 * tests/fuzz/corpus/engine/NAME Those of the host are written by `qbench build`. */
#include <stdio.h>
#include <string.h>

#include "engine/file.h"
#include "graph/passes.h"

#define INPUTS_MAX 4

/* Of each input, open sizes being `size`; false when there are none. */
static bool shapes_of(const qb_graph *graph, int64_t size, qb_shape out[INPUTS_MAX]) {
    bool open = false;
    for (int32_t i = 0; i < graph->n_inputs && i < INPUTS_MAX; i++) {
        out[i] = graph->values[graph->inputs[i]].shape;
        for (int32_t d = 0; d < out[i].rank; d++) {
            if (out[i].dim[d] >= 0) continue;
            out[i].dim[d] = size;
            open = true;
        }
    }
    return open;
}

static qb_status make(qb_ctx *cx, const char *model, bool half, const char *path) {
    qb_shape shapes[3][INPUTS_MAX];
    const qb_profile profile = {shapes[0], shapes[1], shapes[2]};
    qb_build_spec options = {
        .backends = "cuda,cpu,ref", .float_type = half ? QB_DTYPE_F16 : QB_DTYPE_F32, .threads = 1};
    const qb_engine_origin origin = {.model = "seed.onnx", .precision = half ? "fp16" : "fp32"};
    qb_graph *graph = NULL;
    qb_engine *engine = NULL;
    QB_TRY(qb_onnx_load(cx, model, &graph));
    qb_status status = qb_optimize(cx, graph, NULL, NULL);
    bool open = false;
    for (int i = 0; i < 3; i++) open = shapes_of(graph, 1 << i, shapes[i]);
    if (open) {
        options.profiles = &profile;
        options.n_profiles = 1;
    }
    if (status == QB_OK) status = qb_engine_build(cx, graph, &options, &engine);
    if (status == QB_OK) status = qb_engine_save(cx, engine, &origin, path);
    qb_engine_free(engine);
    qb_graph_free(graph);
    return status;
}

int main(int argc, char **argv) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    if (argc != 4) return 2;
    if (make(&cx, argv[1], strcmp(argv[2], "f16") == 0, argv[3]) == QB_OK) return 0;
    fprintf(stderr, "%s\n", cx.message);
    return 1;
}
