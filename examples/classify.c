/* Classifies an image with an engine file: classify ENGINE.qbe SIDECAR.json IMAGE */
#include <qbench/qbench.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const qbench_session *session) {
    fprintf(stderr, "classify: %s\n", qbench_error(session));
    return 1;
}

/* The index of the largest of n scores. */
static int32_t largest(const float *score, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (score[i] > score[best]) best = i;
    return (int32_t)best;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: classify ENGINE.qbe SIDECAR.json IMAGE\n");
        return 2;
    }
    qbench_session *session = qbench_session_create();
    qbench_engine *engine = NULL;
    qbench_context *context = NULL;
    qbench_inputs *inputs = NULL;
    qbench_tensor in, out;
    if (!session) return 1;
    if (qbench_engine_load(session, argv[1], &engine) != QBENCH_OK ||
        qbench_context_create(session, engine, &context) != QBENCH_OK ||
        qbench_inputs_load(session, argv[2], &inputs) != QBENCH_OK)
        return fail(session);
    if (qbench_engine_input(engine, 0, &in) != QBENCH_OK || in.rank != 4 || in.dim[0] != 1 ||
        qbench_engine_output(engine, 0, &out) != QBENCH_OK || out.dtype != QBENCH_FLOAT32) {
        fprintf(stderr, "classify: expected one image in and float scores out\n");
        return 1;
    }
    float *image = malloc(in.bytes), *score = malloc(out.bytes);
    if (!image || !score) return 1;
    const int32_t height = (int32_t)in.dim[2], width = (int32_t)in.dim[3];
    if (qbench_inputs_image(session, inputs, argv[3], height, width, image,
                            in.bytes / sizeof *image) != QBENCH_OK)
        return fail(session);
    const void *from[] = {image};
    void *to[] = {score};
    if (qbench_context_run(session, context, from, to) != QBENCH_OK) return fail(session);
    const int32_t best = largest(score, out.bytes / sizeof *score);
    const char *label = qbench_inputs_label(inputs, best);
    printf("%s: %d %s (%.4f)\n", argv[3], best, label ? label : "", (double)score[best]);
    free(score);
    free(image);
    qbench_inputs_free(inputs);
    qbench_context_free(context);
    qbench_engine_free(engine);
    qbench_session_free(session);
    return 0;
}
