/* qbench inspect: what a model is and how the engine would run it. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/out/engine_file.h"
#include "cli/out/json.h"
#include "cli/out/steps.h"
#include "cli/out/values.h"
#include "cli/pipeline.h"
#include "cli/settings/inputs.h"
#include "cli/settings/precision.h"
#include "cli/settings/trust.h"
#include "engine/backends.h"
#include "engine/file.h"
#include "engine/providers.h"
#include "graph/op.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *precision, *shapes, *dot;
    bool graph, steps, passes, plan;
    qb_trust_flags trust;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_INT(options, "batch", project.batch, "N", 1, 65536, "samples a run (default: 1)",
           .letter = 'b'),
    QB_TEXT(options, "precision", precision, "PRECISION",
            "of float values: fp32 (default), fp16 on a GPU, bf16"),
    QB_TEXT(options, "shapes", shapes, "NAME:AxB,...",
            "sizes of inputs, where more than the batch is open: input:1x1x224x224"),
    QB_FLAG(options, "passes", passes,
            "print what each optimizer pass did, and the operators before and after"),
    QB_TEXT(options, "dot", dot, "FILE", "write the optimized graph for Graphviz (dot -Tsvg FILE)"),
    QB_FLAG(options, "graph", graph, "print the optimized graph as text"),
    QB_FLAG(options, "plan", plan, "of an engine file: print its plan as JSON, for 'build --plan'"),
    QB_FLAG(options, "steps", steps, "print every step of the engine with its kernel"),
    QB_TRUST_OPTIONS(options),
    {0},
};

typedef struct op_count {
    const char *name;
    int32_t n;
} op_count;

static int by_count(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->name, y->name);
}

/* Node counts by operator, most frequent first. */
static json_t *count_ops(qb_ctx *cx, const qb_graph *graph) {
    int32_t n = 0;
    QB_FREED op_count *counts = qb_alloc(cx, (size_t)graph->n_nodes, sizeof *counts);
    if (!counts) return NULL;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        int32_t k = 0;
        while (k < n && strcmp(counts[k].name, graph->nodes[i].op->name) != 0) k++;
        if (k == n) counts[n++] = (op_count){graph->nodes[i].op->name, 0};
        counts[k].n++;
    }
    qsort(counts, (size_t)n, sizeof *counts, by_count);
    json_t *ops = json_object();
    for (int32_t i = 0; i < n; i++)
        json_object_set_new(ops, counts[i].name, json_integer(counts[i].n));
    return ops;
}

/* Elements of constants that are, or stand for, floats. */
static int64_t parameters(const qb_graph *graph) {
    int64_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].data &&
            (graph->values[v].q.n > 0 || qb_dtype_is_float(graph->values[v].dtype)))
            n += qb_shape_count(&graph->values[v].shape);
    return n;
}

/* Steps by backend: "cpu.conv_f32.avx512" counts for cpu; "node" (the operator's definition) and
 * "alias" for themselves. *flops is what all of them compute. */
static json_t *count_backends(const qb_engine *engine, double *flops) {
    struct {
        char name[32];
        int32_t n;
    } count[32] = {0};
    size_t n = 0;
    *flops = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        const size_t length = strcspn(step.tactic, ".");
        size_t k = 0;
        *flops += step.flops;
        while (k < n && (strncmp(count[k].name, step.tactic, length) != 0 || count[k].name[length]))
            k++;
        if (k == sizeof count / sizeof *count || length >= sizeof count->name) continue;
        if (k == n) memcpy(count[n++].name, step.tactic, length);
        count[k].n++;
    }
    json_t *counts = json_object();
    for (size_t k = 0; k < n; k++)
        json_object_set_new(counts, count[k].name, json_integer(count[k].n));
    return counts;
}

/* Steps by provider, copies between them, and what was asked for and is not there. */
static json_t *providers_json(const qb_engine *engine, const char *missing) {
    qb_provider_count n;
    qb_providers_count(engine, &n);
    return json_pack("{s:i, s:i, s:i, s:o}", "cuda", n.cuda, "cpu", n.cpu, "copies", n.copies,
                     "missing", missing ? qb_json_text(missing) : json_null());
}

/* Steps (where they are wanted), sums and memory of the engine; or why there is none (shapes that
 * are not known). */
static json_t *engine_json(const qb_engine *engine, bool steps, const char *missing,
                           const char *reason) {
    if (!engine) return json_pack("{s:o}", "reason", qb_json_text(reason));
    double flops;
    json_t *backends = count_backends(engine, &flops);
    qb_engine_memory memory;
    qb_engine_memory_of(engine, &memory);
    json_t *e = json_pack("{s:f, s:I, s:I, s:I, s:o, s:o}", "macs", flops / 2, "weights_bytes",
                          (json_int_t)memory.weights, "arena_bytes", (json_int_t)memory.arena,
                          "arena_lower_bound", (json_int_t)memory.lower_bound, "backends", backends,
                          "providers", providers_json(engine, missing));
    if (steps) json_object_set_new(e, "steps", qb_steps_json(engine));
    if (qb_engine_device(engine))
        json_object_set_new(e, "device", qb_json_text(qb_engine_device(engine)));
    return e;
}

/* What inspect has gathered of a model. */
typedef struct findings {
    const qb_graph *graph; /* optimized */
    json_t *ops_before, *ops;
    qb_optimize_report report;
} findings;

static void findings_release(findings *f) {
    json_decref(f->ops_before);
    json_decref(f->ops);
}

static json_t *describe(const qb_project *project, const findings *f, json_t *engine) {
    const qb_graph *graph = f->graph;
    json_t *passes = json_object();
    for (int i = 0; qb_passes[i]; i++)
        json_object_set_new(passes, qb_passes[i]->name, json_integer(f->report.n_changes[i]));
    return json_pack("{s:s, s:o, s:i, s:o, s:o, s:i, s:i, s:O, s:O, s:o, s:I, s:o}", "schema",
                     "qbench.inspect/1", "model", qb_json_text(project->model), "opset",
                     graph->opset, "inputs", qb_values_json(graph, graph->inputs, graph->n_inputs),
                     "outputs", qb_values_json(graph, graph->outputs, graph->n_outputs),
                     "nodes_before", f->report.nodes_before, "nodes_after", f->report.nodes_after,
                     "ops_before", f->ops_before, "ops", f->ops, "passes", passes, "parameters",
                     (json_int_t)parameters(graph), "engine", engine);
}

/* ---- text ---- */

static void print_counts(const char *title, json_t *object, bool zeros) {
    const char *key;
    json_t *value;
    int n = 0;
    printf("%-10s", title);
    json_object_foreach(object, key, value) {
        if (!zeros && json_integer_value(value) == 0) continue;
        printf(" %s %lld", key, (long long)json_integer_value(value));
        n++;
    }
    printf("%s\n", n == 0 ? " none" : "");
}

static void print_providers(const json_t *providers) {
    const char *missing = json_string_value(json_object_get(providers, "missing"));
    const json_int_t cuda = json_integer_value(json_object_get(providers, "cuda"));
    if (!missing && cuda == 0) return; /* nobody asked for anything but the CPU */
    printf("providers  cuda %lld, cpu %lld, copies between them %lld%s%s\n", (long long)cuda,
           (long long)json_integer_value(json_object_get(providers, "cpu")),
           (long long)json_integer_value(json_object_get(providers, "copies")),
           missing ? "; not there: " : "", missing ? missing : "");
}

static void print_engine(const options *o, const json_t *e) {
    if (json_object_get(e, "reason")) {
        printf("engine     none: %s\n", json_string_value(json_object_get(e, "reason")));
        return;
    }
    printf("work       %.3f M multiply-adds a run\n",
           json_number_value(json_object_get(e, "macs")) / 1e6);
    printf("memory     weights %.1f KiB, activation arena %.1f KiB (lower bound %.1f)\n",
           (double)json_integer_value(json_object_get(e, "weights_bytes")) / 1024,
           (double)json_integer_value(json_object_get(e, "arena_bytes")) / 1024,
           (double)json_integer_value(json_object_get(e, "arena_lower_bound")) / 1024);
    print_counts("steps", json_object_get(e, "backends"), true);
    print_providers(json_object_get(e, "providers"));
    if (json_object_get(e, "device"))
        printf("device     %s\n", json_string_value(json_object_get(e, "device")));
    if (o->steps) qb_steps_print(json_object_get(e, "steps"));
}

static void print_change(const char *op, json_int_t before, json_int_t after) {
    printf("  %-24s %6lld -> %lld\n", op, (long long)before, (long long)after);
}

/* Passes that changed something, then the operators whose number changed. */
static void print_passes(const json_t *d) {
    json_t *before = json_object_get(d, "ops_before"), *after = json_object_get(d, "ops"), *count;
    const char *op;
    printf("\npasses\n");
    for (const qb_pass *const *p = qb_passes; *p; p++) {
        const json_t *changes = json_object_get(json_object_get(d, "passes"), (*p)->name);
        if (json_integer_value(changes) > 0)
            printf("  %-24s %6lld  %s\n", (*p)->name, (long long)json_integer_value(changes),
                   (*p)->summary);
    }
    printf("operators before and after\n");
    json_object_foreach(before, op, count) {
        const json_int_t left = json_integer_value(json_object_get(after, op));
        if (json_integer_value(count) != left) print_change(op, json_integer_value(count), left);
    }
    json_object_foreach(after, op, count) {
        if (!json_object_get(before, op)) print_change(op, 0, json_integer_value(count));
    }
}

static void print_text(const options *o, const json_t *d) {
    printf("model      %s, opset %lld\n", json_string_value(json_object_get(d, "model")),
           (long long)json_integer_value(json_object_get(d, "opset")));
    qb_print_values("inputs", json_object_get(d, "inputs"));
    qb_print_values("outputs", json_object_get(d, "outputs"));
    printf("nodes      %lld, %lld after optimization\n",
           (long long)json_integer_value(json_object_get(d, "nodes_before")),
           (long long)json_integer_value(json_object_get(d, "nodes_after")));
    print_counts("operators", json_object_get(d, "ops"), true);
    print_counts("passes", json_object_get(d, "passes"), false);
    printf("size       %.3f M parameters\n",
           (double)json_integer_value(json_object_get(d, "parameters")) / 1e6);
    if (o->passes) print_passes(d);
    print_engine(o, json_object_get(d, "engine"));
}

/* Prints (or writes with --json) what `d` says; takes the reference. */
static qb_status print(qb_ctx *cx, const options *o, const qb_graph *graph, json_t *d) {
    if (!d) return qb_fail(cx, QB_STATUS_NOMEM, "inspect: out of memory");
    if (!qb_json_on_stdout(&o->common)) {
        print_text(o, d);
        char *text = NULL;
        if (o->graph && qb_graph_text(cx, graph, &text) != QB_OK) {
            json_decref(d);
            return cx->code;
        }
        if (text) printf("\n%s", text);
        qb_free(text);
    }
    return qb_json_out(cx, &o->common, d);
}

static qb_status write_dot(qb_ctx *cx, const qb_graph *graph, const char *path) {
    QB_RELEASED(qb_writer_abort) qb_writer writer = {0};
    QB_TRY(qb_writer_open(cx, path, &writer));
    QB_TRY(qb_graph_dot(cx, graph, writer.stream));
    return qb_writer_commit(cx, &writer);
}

/* The model before and after the optimizer. */
static qb_status load(qb_ctx *cx, const qb_project *project, const char *shapes, findings *f,
                      qb_graph **out) {
    const qb_optimize_options wanted = {.disabled = project->disabled};
    const qb_onnx_part part = {.size_inputs = shapes ? qb_size_inputs : NULL, .user = shapes};
    QB_TRY(qb_project_read_model(cx, project, &part, out));
    f->graph = *out;
    f->ops_before = count_ops(cx, *out);
    QB_TRY(qb_optimize(cx, *out, &wanted, &f->report));
    f->ops = count_ops(cx, *out);
    return f->ops_before && f->ops ? QB_OK : cx->code;
}

/* The engine, or NULL with the reason in the context: a model whose shapes are not all known can
 * still be looked at. */
static qb_status build(qb_ctx *cx, const options *o, const qb_project *project, qb_graph *graph,
                       qb_engine **out) {
    qb_shape *shapes = NULL;
    qb_precision precision = {.spec = project->spec};
    qb_build_spec spec;
    if (o->precision) QB_TRY(qb_precision_parse(cx, o->precision, &precision));
    if (qb_precision_is_quantized(&precision))
        return qb_fail(cx, QB_STATUS_USAGE, "--precision: expected fp32, fp16 or bf16, got '%s'",
                       o->precision);
    const char *refusal = qb_precision_spec(&precision, &spec);
    if (refusal) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: %s", o->precision, refusal);
    QB_TRY(qb_stage_note_largest(cx, project, &spec, graph));
    if (o->shapes) QB_TRY(qb_bench_shapes(cx, graph, o->shapes, project->batch, &shapes));
    spec.input_shapes = shapes;
    spec.batch = project->batch;
    spec.check = false; /* nobody runs it */
    const qb_status status = qb_engine_build(cx, graph, &spec, out);
    qb_free(shapes);
    const bool fatal = status == QB_STATUS_NOMEM || status == QB_STATUS_CANCELLED ||
                       qb_backends_name_device(spec.backends);
    return fatal ? status : QB_OK;
}

static qb_status print_plan(qb_ctx *cx, const char *file) {
    QB_FREED char *text = NULL;
    QB_TRY(qb_engine_file_plan(cx, file, &text));
    fputs(text, stdout);
    return QB_OK;
}

static qb_status refuse_model_options(qb_ctx *cx, const options *o) {
    static const char *const of_models[] = {"model",  "disable-pass", QB_BUILD_OPTION_NAMES,
                                            "batch",  "precision",    "shapes",
                                            "passes", "dot",          "graph",
                                            NULL};
    return qb_options_refuse(cx, &qb_command_inspect, o, of_models,
                             "an engine file is shown as it was built");
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    QB_TRY(qb_trust_apply(cx, &o->trust));
    const char *file = arguments->n > 0 ? arguments->item[0] : NULL;
    const bool is_engine = file && (qb_has_suffix(file, ".qbe") || qb_engine_file_is(file));
    if (is_engine) QB_TRY(refuse_model_options(cx, o));
    if (is_engine)
        return o->plan ? print_plan(cx, file) : qb_engine_file_show(cx, &o->common, o->steps, file);
    if (o->plan)
        return qb_fail(cx, QB_STATUS_USAGE, "--plan: expected an engine file, which has one");
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    QB_RELEASED(findings_release) findings f = {0};
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    QB_TRY(load(cx, &project, o->shapes, &f, &graph));
    if (o->dot) QB_TRY(write_dot(cx, graph, o->dot));
    QB_TRY(build(cx, o, &project, graph, &engine));
    QB_TRY(print(cx, o, graph,
                 describe(&project, &f,
                          engine_json(engine, o->steps || o->common.json, project.missing_provider,
                                      cx->message))));
    return QB_OK;
}

const qb_command qb_command_inspect = {
    .name = "inspect",
    .usage = "[MODEL|ENGINE.qbe] [options]",
    .summary = "show a model: inputs, operators, size, the kernel of each step",
    .example = "qbench inspect resnet50.onnx --steps --passes\n"
               "qbench inspect resnet50.int8.qbe --plan >plan.json\n"
               "qbench inspect sr.onnx --shapes input:1x1x224x224 --dot sr.dot\n"
               "qbench inspect resnet50.qdq.onnx --batch 32 --json -",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
