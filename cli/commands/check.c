/* qbench check: does a Q/DQ model keep the rules of the runtime that it is for? */
#include "quant/check.h"

#include "base/text.h"
#include "cli/out/json.h"
#include "graph/graph.h"

typedef struct options {
    qb_common common;
    const char *target, *model;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_TEXT(options, "model", model, "FILE", "the Q/DQ model", .letter = 'm'),
    QB_TEXT(options, "for", target, "TARGET", "whose rules: trt, ort-cpu, ort-cuda or openvino"),
    {0},
};

static void print(const char *path, const qb_target *target, const qb_findings *f) {
    for (int32_t i = 0; i < f->n; i++)
        printf("FAIL %s: %s: %s\n     mend: %s\n", f->item[i].rule, f->item[i].node,
               f->item[i].what, f->item[i].mend);
    if (f->n == 0)
        printf("PASS %s keeps the rules of %s\n", QB_SHOWN(path), target->name);
    else
        printf("%s: %d finding%s for %s\n", QB_SHOWN(path), f->n, f->n == 1 ? "" : "s",
               target->name);
}

static qb_status write_json(qb_ctx *cx, const options *o, const char *path, const qb_target *target,
                            const qb_findings *f) {
    json_t *list = json_array();
    for (const qb_finding *at = f->item; at < f->item + f->n; at++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:s}", "rule", at->rule, "node",
                                              qb_json_text(at->node), "what",
                                              qb_json_text(at->what), "mend", at->mend));
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o, s:s, s:b, s:o}", "schema", "qbench.check/1", "file",
                                 qb_json_text(path), "target", target->name, "held", f->n == 0,
                                 "findings", list));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    const char *path = o->model;
    const qb_target *target;
    QB_TRY(qb_argument_is(cx, arguments, "model", &path));
    if (!path) return qb_fail(cx, QB_STATUS_USAGE, "check: expected a MODEL");
    if (!o->target)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "check: expected --for TARGET, the runtime that the model is for");
    QB_TRY(qb_target_find(cx, o->target, &target));
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_findings_release) qb_findings findings = {0};
    QB_TRY(qb_onnx_load_as_written(cx, path, &graph));
    QB_TRY(qb_check(cx, graph, target, &findings));
    if (!qb_json_on_stdout(&o->common)) print(path, target, &findings);
    QB_TRY(write_json(cx, o, path, target, &findings));
    if (findings.n > 0)
        return qb_fail(cx, QB_STATUS_CHECK, "%s breaks rules of %s", path, target->name);
    return QB_OK;
}

const qb_command qb_command_check = {
    .name = "check",
    .usage = "MODEL --for TARGET [options]",
    .summary = "lint a Q/DQ model by the rules of TensorRT or onnxruntime",
    .notes = "Exit code 3 when a rule is broken. Any tool's Q/DQ model will do.\n",
    .example = "qbench check model.qdq.onnx --for trt\n"
               "qbench check theirs.onnx --for=ort-cpu --json -",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
