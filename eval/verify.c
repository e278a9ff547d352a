#include "eval/verify.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sort.h"
#include "engine/engine.h"
#include "graph/evaluate.h"
#include "graph/passes.h"
#include "kernels/ref.h"

const char *qb_outcome_text(qb_outcome outcome) {
    static const char *const text[QB_OUTCOME_COUNT] = {"passed", "failed", "unsupported"};
    return outcome < QB_OUTCOME_COUNT ? text[outcome] : "unknown";
}

/* --- comparing ------------------------------------------------------------------------------- */

static double tolerance(double given, double usual) { return isnan(given) ? usual : given; }

static qb_status compare_elements(qb_ctx *cx, const char *name, const qb_tensor *got,
                                  const qb_tensor *expected, const qb_verify_options *options,
                                  double *max_error) {
    qb_dtype dtype = got->desc.dtype;
    size_t size = qb_dtype_size(dtype);
    bool is_float = qb_dtype_is_float(dtype);
    double usual = dtype == QB_DTYPE_F16 ? 1e-3 : dtype == QB_DTYPE_BF16 ? 1e-2 : 1e-5;
    double rtol = tolerance(options->rtol, usual), atol = tolerance(options->atol, 1e-6);
    int64_t n = qb_shape_count(&got->desc.shape), wrong = 0, first = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *a = (const char *)got->data + (size_t)i * size;
        if (memcmp(a, (const char *)expected->data + (size_t)i * size, size) == 0) continue;
        double x = qb_number_get(dtype, got->data, i), y = qb_number_get(dtype, expected->data, i);
        double error = fabs(x - y);
        if (x == y && is_float) continue; /* zeros of either sign */
        if (isnan(x) && isnan(y)) continue;
        if (!(error <= *max_error)) *max_error = error;
        if (is_float && error <= atol + rtol * fabs(y)) continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_CHECK,
                   "output '%s': %lld of %lld elements differ; element %lld: expected %.9g, got "
                   "%.9g",
                   name, (long long)wrong, (long long)n, (long long)first,
                   qb_number_get(dtype, expected->data, first),
                   qb_number_get(dtype, got->data, first));
}

/* Raises *max_error. `name` is for the message. */
static qb_status compare_output(qb_ctx *cx, const char *name, const qb_tensor *got,
                                const qb_tensor *expected, const qb_verify_options *options,
                                double *max_error) {
    char a[128], b[128];
    if (got->desc.dtype != expected->desc.dtype)
        return qb_fail(cx, QB_STATUS_CHECK, "output '%s': expected type %s, got %s", name,
                       qb_dtype_text(expected->desc.dtype), qb_dtype_text(got->desc.dtype));
    if (!qb_shape_equal(&got->desc.shape, &expected->desc.shape))
        return qb_fail(cx, QB_STATUS_CHECK, "output '%s': expected shape %s, got %s", name,
                       qb_shape_text(&expected->desc.shape, a, sizeof a),
                       qb_shape_text(&got->desc.shape, b, sizeof b));
    return compare_elements(cx, name, got, expected, options, max_error);
}

/* --- vectors --------------------------------------------------------------------------------- */

/* The tensors of one data set; an input without a file has dtype NONE. */
typedef struct vectors {
    qb_tensor *in, *out;
    int32_t n_in, n_out;
} vectors;

static void vectors_release(vectors *v) {
    for (int32_t i = 0; v->in && i < v->n_in; i++) qb_free(v->in[i].data);
    for (int32_t i = 0; v->out && i < v->n_out; i++) qb_free(v->out[i].data);
    QB_FREE_ALL(v->in, v->out);
    *v = (vectors){0};
}

static qb_status vector_load(qb_ctx *cx, const char *folder, const char *kind, int32_t i,
                             bool optional, qb_tensor *out) {
    QB_FREED char *path = QB_NEW(cx, qb_format(cx, "%s/%s_%d.pb", folder, kind, (int)i));
    if (!optional || qb_path_exists(path)) QB_TRY(qb_onnx_load_tensor(cx, path, out, NULL));
    return QB_OK;
}

static qb_status vectors_load(qb_ctx *cx, const qb_graph *graph, const char *folder, vectors *out) {
    QB_RELEASED(vectors_release) vectors v = {.n_in = graph->n_inputs, .n_out = graph->n_outputs};
    QB_TRY_NEW(cx, v.in = qb_alloc(cx, (size_t)v.n_in, sizeof *v.in));
    QB_TRY_NEW(cx, v.out = qb_alloc(cx, (size_t)v.n_out, sizeof *v.out));
    for (int32_t i = 0; i < v.n_in; i++)
        QB_TRY(vector_load(cx, folder, "input", i, true, &v.in[i]));
    for (int32_t i = 0; i < v.n_out; i++)
        QB_TRY(vector_load(cx, folder, "output", i, false, &v.out[i]));
    *out = QB_MOVE(v);
    return QB_OK;
}

static qb_status compare_all(qb_ctx *cx, const qb_graph *graph, const qb_tensor *got,
                             const vectors *v, const qb_verify_options *options,
                             double *max_error) {
    for (int32_t i = 0; i < v->n_out; i++)
        QB_TRY(compare_output(cx, graph->values[graph->outputs[i]].name, &got[i], &v->out[i],
                              options, max_error));
    return QB_OK;
}

/* --- by the definitions ---------------------------------------------------------------------- */

static qb_status run_definitions(qb_ctx *cx, const qb_graph *model, const vectors *v,
                                 const qb_verify_options *options, double *max_error) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_graph_clone(cx, model, &graph));
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i].desc.dtype != QB_DTYPE_NONE)
            QB_TRY(qb_graph_fix(cx, graph, graph->inputs[i], &v->in[i]));
    QB_TRY(qb_graph_sort(cx, graph));
    QB_TRY(qb_graph_evaluate(cx, graph, SIZE_MAX));
    QB_FREED qb_tensor *got = QB_NEW(cx, qb_alloc(cx, (size_t)v->n_out, sizeof *got));
    for (int32_t i = 0; i < v->n_out; i++) {
        const qb_value *value = &graph->values[graph->outputs[i]];
        got[i] = qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)value->data);
        if (!value->data)
            return qb_fail(cx, QB_STATUS_CHECK, "output '%s' was not computed", value->name);
    }
    return compare_all(cx, graph, got, v, options, max_error);
}

/* --- by an engine ---------------------------------------------------------------------------- */

typedef struct engine_run {
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    qb_shape *shapes;
    const void **in;
    void **out;
    qb_tensor *got;
    int32_t n_out;
} engine_run;

static void engine_run_release(engine_run *r) {
    for (int32_t i = 0; r->got && i < r->n_out; i++) qb_free(r->got[i].data);
    QB_FREE_ALL(r->got, r->out, r->in, r->shapes);
    qb_context_free(r->context);
    qb_engine_free(r->engine);
    qb_graph_free(r->graph);
}

/* Fixes inputs of rank 0 and 1 (when `fix`) and notes the others' data and shapes. */
static qb_status engine_inputs(qb_ctx *cx, engine_run *r, const vectors *v, bool fix) {
    int32_t kept = 0;
    QB_TRY_NEW(cx, r->shapes = qb_alloc(cx, (size_t)v->n_in, sizeof *r->shapes));
    QB_TRY_NEW(cx, r->in = qb_alloc(cx, (size_t)v->n_in, sizeof *r->in));
    for (int32_t i = 0; i < v->n_in; i++) {
        int32_t id = r->graph->inputs[i];
        if (v->in[i].desc.dtype == QB_DTYPE_NONE)
            return qb_fail(cx, QB_STATUS_CHECK, "no vector for input '%s'",
                           r->graph->values[id].name);
        if (fix && v->in[i].desc.shape.rank <= 1) {
            QB_TRY(qb_graph_fix(cx, r->graph, id, &v->in[i]));
            continue;
        }
        r->shapes[kept] = v->in[i].desc.shape;
        r->in[kept] = v->in[i].data;
        r->graph->inputs[kept++] = id;
    }
    r->graph->n_inputs = kept;
    return QB_OK;
}

static qb_status engine_outputs(qb_ctx *cx, engine_run *r) {
    r->n_out = qb_engine_n_outputs(r->engine);
    QB_TRY_NEW(cx, r->got = qb_alloc(cx, (size_t)r->n_out, sizeof *r->got));
    QB_TRY_NEW(cx, r->out = qb_alloc(cx, (size_t)r->n_out, sizeof *r->out));
    for (int32_t i = 0; i < r->n_out; i++) {
        const qb_desc *desc = qb_engine_output(r->engine, i);
        r->got[i] = qb_tensor_of(desc->dtype, desc->shape, NULL);
        r->got[i].data = r->out[i] = qb_alloc_aligned(cx, 1, qb_desc_bytes(desc) + 1);
        if (!r->out[i]) return cx->code;
    }
    return QB_OK;
}

static qb_status run_engine(qb_ctx *cx, const qb_graph *model, const vectors *v,
                            const qb_verify_options *options, bool fix, double *max_error) {
    QB_RELEASED(engine_run_release) engine_run r = {0};
    QB_TRY(qb_graph_clone(cx, model, &r.graph));
    QB_TRY(engine_inputs(cx, &r, v, fix));
    QB_TRY(qb_graph_sort(cx, r.graph));
    QB_TRY(qb_optimize(cx, r.graph, NULL, NULL));
    qb_build_spec spec = options->spec;
    spec.input_shapes = r.shapes;
    QB_TRY(qb_engine_build(cx, r.graph, &spec, &r.engine));
    QB_TRY(qb_context_create(cx, r.engine, &r.context));
    QB_TRY(engine_outputs(cx, &r));
    QB_TRY(qb_context_run(cx, r.context, r.in, r.out));
    for (int32_t i = 0; i < r.n_out; i++)
        r.got[i].desc.shape = qb_context_output_shape(r.context, i);
    return compare_all(cx, r.graph, r.got, v, options, max_error);
}

/* --- cases ----------------------------------------------------------------------------------- */

static bool has_small_input(const vectors *v) {
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i].desc.dtype != QB_DTYPE_NONE && v->in[i].desc.shape.rank <= 1) return true;
    return false;
}

static bool by_definitions(const qb_verify_options *options) {
    return options->spec.backends && strcmp(options->spec.backends, QB_VERIFY_EVAL) == 0;
}

static qb_status run_set(qb_ctx *cx, const qb_graph *graph, const char *folder,
                         const qb_verify_options *options, double *max_error) {
    QB_RELEASED(vectors_release) vectors v = {0};
    QB_TRY(vectors_load(cx, graph, folder, &v));
    qb_status status;
    if (by_definitions(options)) {
        status = run_definitions(cx, graph, &v, options, max_error);
    } else {
        status = run_engine(cx, graph, &v, options, false, max_error);
        if (status == QB_STATUS_UNSUPPORTED && has_small_input(&v)) {
            qb_ctx_clear(cx);
            status = run_engine(cx, graph, &v, options, true, max_error);
        }
    }
    return status;
}

static qb_status run_sets(qb_ctx *cx, const qb_graph *graph, const char *folder,
                          const qb_verify_options *options, qb_case_result *out) {
    for (int32_t set = 0;; set++) {
        char *path = QB_NEW(cx, qb_format(cx, "%s/test_data_set_%d", folder, (int)set));
        bool there = qb_path_is_dir(path);
        qb_status status = there ? run_set(cx, graph, path, options, &out->max_error) : QB_OK;
        qb_free(path);
        if (status != QB_OK) return status;
        if (!there && set == 0)
            return qb_fail(cx, QB_STATUS_NOTFOUND, "%s: no test_data_set_0", folder);
        if (!there) return QB_OK;
        out->n_sets++;
    }
}

qb_status qb_verify_case(qb_ctx *cx, const char *folder, const qb_verify_options *options,
                         qb_case_result *out) {
    *out = (qb_case_result){0};
    qb_graph *graph = NULL;
    char *path = QB_NEW(cx, qb_format(cx, "%s/model.onnx", folder));
    qb_status status = by_definitions(options) ? qb_onnx_load_unfolded(cx, path, &graph)
                                               : qb_onnx_load(cx, path, &graph);
    if (status == QB_OK) status = run_sets(cx, graph, folder, options, out);
    qb_graph_free(graph);
    qb_free(path);
    if (status == QB_STATUS_CANCELLED) return status;
    out->outcome = status == QB_OK                   ? QB_OUTCOME_PASSED
                   : status == QB_STATUS_UNSUPPORTED ? QB_OUTCOME_UNSUPPORTED
                                                     : QB_OUTCOME_FAILED;
    if (status != QB_OK) snprintf(out->reason, sizeof out->reason, "%.1000s", cx->message);
    qb_ctx_clear(cx);
    return QB_OK;
}

static bool is_case(qb_ctx *cx, const char *folder) {
    QB_FREED char *model = qb_format(cx, "%s/model.onnx", folder);
    return model && qb_path_exists(model);
}

qb_status qb_cases_find(qb_ctx *cx, const char *path, char ***out, int32_t *n) {
    char **cases = NULL;
    size_t capacity = 0;
    int32_t found = 0;
    qb_status status = QB_OK;
    QB_RELEASED(qb_dir_close) DIR *dir = NULL;
    if (is_case(cx, path)) {
        QB_GO(qb_grow(cx, &cases, &capacity, 1, sizeof *cases));
        if (!(cases[0] = qb_strdup(cx, path))) QB_GO(cx->code);
        found = 1;
    } else {
        dir = opendir(path);
        if (!dir) QB_GO(qb_fail_errno(cx, "%s", path));
        for (struct dirent *e; (e = readdir(dir));) {
            if (e->d_name[0] == '.') continue;
            QB_GO(qb_grow(cx, &cases, &capacity, (size_t)found + 1, sizeof *cases));
            if (!(cases[found] = qb_path_join(cx, path, e->d_name))) QB_GO(cx->code);
            found++;
            if (is_case(cx, cases[found - 1])) continue;
            qb_free(cases[--found]);
            cases[found] = NULL;
        }
    }
    if (found == 0)
        QB_GO(qb_fail(cx, QB_STATUS_NOTFOUND, "%s: no folder with a model.onnx in it", path));
    qsort(cases, (size_t)found, sizeof *cases, qb_by_text);
    *out = QB_MOVE(cases);
    *n = found;
    found = 0;
out:
    qb_cases_free(cases, found);
    return status;
}

void qb_cases_free(char **cases, int32_t n) {
    for (int32_t i = 0; cases && i < n; i++) qb_free(cases[i]);
    qb_free(cases);
}
