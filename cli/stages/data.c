/* The data stage: which samples, and how they become the model's inputs. */
#include <stdlib.h>
#include <string.h>

#include "cli/pipeline.h"

/* ---- images ---- */

/* Height and width of the images that the graph's input takes; 0 where each keeps its own. */
static qb_status image_size(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                            qb_loader_options *loader) {
    const qb_preprocess *p = &loader->preprocess;
    if (graph->n_inputs != 1)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: images feed models with one input, this one has %d: fix the others, "
                       "such as an image's size, by fixed_inputs in " QB_CONFIG_NAME
                       " ('qbench init' guesses them), or give tensors (.npz, .h5, folders of "
                       ".npy; see 'qbench help data')",
                       project->model, graph->n_inputs);
    const qb_value *input = &graph->values[graph->inputs[0]];
    char text[128];
    const qb_shape *s = &input->shape;
    const int32_t channels = qb_preprocess_channels(p);
    qb_image_input size;
    if (!qb_image_input_of(s, p->channels_last, &size) ||
        (size.channels >= 0 && size.channels != channels))
        return qb_fail(
            cx, QB_STATUS_UNSUPPORTED,
            p->channels_last ? "%s: input '%s' is %s; images of %d channels need N x H x W x %d"
                             : "%s: input '%s' is %s; images of %d channels need N x %d x H x W "
                               "(with preprocess.layout NHWC: N x H x W x channels)",
            project->model, input->name, qb_shape_text(s, text, sizeof text), channels, channels);
    if (size.items > 1)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: input '%s' is %s: it takes %lld images at once, and samples run one "
                       "by one: export it with a batch of 1 or an open one",
                       project->model, input->name, qb_shape_text(s, text, sizeof text),
                       (long long)size.items);
    const int64_t height = size.height, width = size.width;
    const bool sized =
        p->resize == QB_RESIZE_STRETCH || (p->resize == QB_RESIZE_LETTERBOX && p->stride == 0);
    const int64_t h = height >= 0      ? height
                      : p->crop_height ? p->crop_height
                      : sized          ? p->resize_height
                                       : 0;
    const int64_t w = width >= 0      ? width
                      : p->crop_width ? p->crop_width
                      : sized         ? p->resize_width
                                      : 0;
    if (h > 65535 || w > 65535)
        return qb_fail(cx, QB_STATUS_INVALID, "%s: input '%s' of %lld x %lld pixels",
                       project->model, input->name, (long long)w, (long long)h);
    loader->dtype = qb_image_type(qb_graph_input_type(graph, 0));
    if (loader->dtype == QB_DTYPE_NONE)
        return qb_fail(
            cx, QB_STATUS_UNSUPPORTED,
            "%s: input '%s' takes %s; images feed inputs in f32, f16, bf16, u8 or s8: give "
            "tensors (.npz, .h5, folders of .npy; see 'qbench help data')",
            project->model, input->name, qb_dtype_text(input->dtype));
    loader->height = (int32_t)h;
    loader->width = (int32_t)w;
    loader->preprocess.single = s->rank == 3;
    loader->any_size = h == 0 || w == 0;
    return QB_OK;
}

/* Samples run alone whatever the batch is, so batches and read-ahead of large inputs shrink until
 * the loader keeps within this. */
#define LOADER_BYTES ((int64_t)256 << 20)

static void bound_memory(qb_loader_options *loader) {
    const int64_t sample =
        (int64_t)loader->height * loader->width * 4 * qb_preprocess_channels(&loader->preprocess);
    if (sample == 0) { /* sizes are known one at a time */
        loader->batch = 1;
        return;
    }
    const int64_t fit = LOADER_BYTES / sample; /* samples, at least two batches of them */
    if (loader->batch > fit / 2) loader->batch = fit / 2 > 0 ? (int32_t)(fit / 2) : 1;
    if (loader->prefetch > fit / loader->batch)
        loader->prefetch = fit / loader->batch > 0 ? (int32_t)(fit / loader->batch) : 1;
}

/* ---- tensors ---- */

static qb_input_spec *find_spec(qb_loader_options *loader, const char *name, size_t length) {
    for (int32_t i = 0; i < loader->n_inputs; i++)
        if (strncmp(loader->input[i].name, name, length) == 0 &&
            loader->input[i].name[length] == '\0')
            return &loader->input[i];
    return NULL;
}

static qb_status bad_shapes(qb_ctx *cx, const char *text, const char *why) {
    return qb_fail(cx, QB_STATUS_USAGE, "--shapes %s: %s: expected NAME:1x3x224x224[,NAME:...]",
                   text, why);
}

/* "1x3x224x224" up to `end`. */
static bool parse_shape(const char *at, const char *end, qb_shape *out) {
    *out = (qb_shape){0};
    while (at < end) {
        char *next;
        if (*at < '0' || *at > '9' || out->rank == QB_MAX_RANK) return false;
        out->dim[out->rank++] = strtoll(at, &next, 10);
        if (next > end || (next < end && (*next != 'x' || next + 1 == end))) return false;
        at = next + (next < end);
    }
    return out->rank > 0;
}

/* Names may hold colons: the last one before the shape counts. */
static qb_status apply_shapes(qb_ctx *cx, const char *text, qb_loader_options *loader) {
    for (const char *at = text; *at != '\0';) {
        const char *end = at + strcspn(at, ","), *colon = end;
        while (colon > at && *colon != ':') colon--;
        if (colon == at) return bad_shapes(cx, text, "no name");
        qb_input_spec *spec = find_spec(loader, at, (size_t)(colon - at));
        if (!spec) return bad_shapes(cx, text, "the model has no input of this name");
        qb_shape shape;
        if (!parse_shape(colon + 1, end, &shape)) return bad_shapes(cx, text, "not a shape");
        if (spec->shape.rank >= 0 && spec->shape.rank != shape.rank)
            return bad_shapes(cx, text, "the model's input has another number of dimensions");
        spec->shape = shape;
        at = end + (*end == ',');
    }
    return QB_OK;
}

static qb_status tensor_inputs(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                               qb_loader_options *loader) {
    if (graph->n_inputs < 1 || graph->n_inputs > QB_INPUTS_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: expected 1 to %d inputs, got %d",
                       project->model, QB_INPUTS_MAX, graph->n_inputs);
    loader->n_inputs = graph->n_inputs;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const qb_value *input = &graph->values[graph->inputs[i]];
        loader->input[i] =
            (qb_input_spec){input->name, qb_graph_input_type(graph, i), input->shape};
    }
    return project->shapes ? apply_shapes(cx, project->shapes, loader) : QB_OK;
}

/* ---- */

qb_status qb_stage_data(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                        const char *path, qb_split part, qb_dataset **dataset,
                        qb_loader_options *loader) {
    const qb_dataset_options options = {.split = part,
                                        .labels = project->labels.n > 0 ? &project->labels : NULL,
                                        .max_samples = project->samples,
                                        .folder = project->images,
                                        .decoder = project->decoder};
    QB_RELEASED(qb_dataset_close_at) qb_dataset *opened = NULL;
    QB_TRY(qb_dataset_open(cx, path, &options, &opened));
    *loader = (qb_loader_options){.dataset = opened,
                                  .preprocess = project->preprocess,
                                  .batch = (int32_t)project->batch,
                                  .threads = qb_threads(cx),
                                  .prefetch = 2 * qb_threads(cx),
                                  .strict = project->strict};
    if (qb_dataset_has_tensors(opened)) {
        QB_TRY(tensor_inputs(cx, project, graph, loader));
    } else {
        if (!project->has_preprocess)
            QB_TRY(qb_project_guess(cx, project, graph, opened, &loader->preprocess));
        QB_TRY(image_size(cx, project, graph, loader));
    }
    bound_memory(loader);
    *dataset = QB_MOVE(opened);
    return QB_OK;
}
