/* qbench zoo: well-known architectures with seeded weights, for measuring speed. */
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "graph/zoo.h"

typedef struct options {
    qb_common common;
    int64_t seed, side;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_INT(options, "seed", seed, "N", 0, 9e15, "seed of the weights (default: 1)"),
    QB_INT(options, "side", side, "N", 1, 65536,
           "height and width of images (default: the architecture's own), number of tokens "
           "(default: open, \"length\")"),
    {0},
};

static void defaults(void *opts) { ((options *)opts)->seed = 1; }

static qb_status list_models(qb_ctx *cx, const options *o) {
    json_t *list = json_array();
    for (const qb_zoo_model *const *m = qb_zoo_models; *m; m++) {
        json_array_append_new(list, json_string((*m)->name));
        if (!qb_json_on_stdout(&o->common)) printf("%-16s %s\n", (*m)->name, (*m)->summary);
    }
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o}", "schema", "qbench.zoo/1", "models", list));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (arguments->n == 0) return list_models(cx, o);
    const char *name = arguments->item[0];
    QB_FREED char *path = NULL;
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    const qb_zoo_options shape = {.side = o->side};
    if (!qb_zoo_find(name))
        return qb_fail(cx, QB_STATUS_NOTFOUND, "no model '%s' in the zoo: 'qbench zoo' lists them",
                       name);
    QB_TRY(qb_zoo_build(cx, name, (uint64_t)o->seed, &shape, &graph));
    const bool named = o->common.out && qb_has_suffix(o->common.out, ".onnx");
    path = named ? qb_strdup(cx, o->common.out)
                 : qb_format(cx, "%s/%s.onnx", o->common.out ? o->common.out : ".", name);
    if (!path) return cx->code;
    /* Trained models have these names, too. */
    if (!named && qb_path_exists(path))
        return qb_fail(cx, QB_STATUS_INVALID, "%s is there already: name the file (-o FILE.onnx)",
                       path);
    if (!named && o->common.out) QB_TRY(qb_make_dirs(cx, o->common.out));
    QB_TRY(qb_onnx_save(cx, graph, path));
    if (!qb_json_on_stdout(&o->common)) printf("wrote %s\n", QB_SHOWN(path));
    return qb_json_out(
        cx, &o->common,
        json_pack("{s:s, s:o}", "schema", "qbench.zoo/1", "file", qb_json_text(path)));
}

const qb_command qb_command_zoo = {
    .name = "zoo",
    .usage = "[NAME] [-o FILE] [options]",
    .summary = "write a well-known architecture with seeded weights",
    .example = "qbench zoo resnet50 -o resnet50.onnx",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
