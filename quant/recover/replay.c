#include "quant/recover/replay.h"

#include <string.h>

#include "base/log.h"
#include "engine/engine.h"

enum { PORTS = 64 }; /* most inputs or outputs of a group */

typedef struct side {
    qb_graph *graph; /* of known shapes */
    qb_groups groups;
    int32_t n_values; /* when it began: layers may get more constants */
    int32_t at;       /* groups before it have run */
    void ***data;     /* [values] NULL, or a block a sample */
    bool *borrowed;   /* [values] the blocks are the samples' own */
    bool *quantized;  /* [values] blocks hold quantized values */
    int32_t *readers; /* [values] groups and layers that are still to read it */
} side;

struct qb_replay {
    const qb_replay_options *options;
    side reference, quantized;
    int32_t n_samples;
};

/* ---- values ---- */

static void clear(const qb_replay *r, side *s, int32_t value) {
    if (!s->data[value]) return;
    for (int32_t i = 0; i < r->n_samples && !s->borrowed[value]; i++) qb_free(s->data[value][i]);
    qb_free(QB_MOVE(s->data[value]));
}

static void drop(const qb_replay *r, side *s, int32_t value) {
    if (value < 0 || !s->data[value] || --s->readers[value] > 0) return;
    clear(r, s, value);
}
static bool is_quantized(const qb_value *v) {
    return v->q.n == 1 && (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8);
}

static size_t bytes_of(const side *s, int32_t value, bool quantized) {
    const qb_value *v = &s->graph->values[value];
    const int64_t count = qb_shape_known(&v->shape) ? qb_shape_count(&v->shape) : 0;
    if (quantized) return (size_t)count;
    return (size_t)count * (v->q.n > 0 ? sizeof(float) : qb_dtype_size(v->dtype));
}

static void quantize(const qb_value *v, const float *from, uint8_t *to) {
    const int32_t zero = v->q.zero ? v->q.zero[0] : 0;
    for (int64_t i = 0, n = qb_shape_count(&v->shape); i < n; i++)
        to[i] = (uint8_t)qb_quantize_value(from[i], v->q.scale[0], zero, v->dtype);
}

static void dequantize(const qb_value *v, const uint8_t *from, float *to) {
    const float scale = v->q.scale[0];
    const int32_t zero = v->q.zero ? v->q.zero[0] : 0;
    const bool is_signed = v->dtype == QB_DTYPE_S8;
    for (int64_t i = 0, n = qb_shape_count(&v->shape); i < n; i++)
        to[i] = scale * (float)((is_signed ? (int32_t)(int8_t)from[i] : (int32_t)from[i]) - zero);
}

const float *qb_replay_floats(const qb_replay_layer *layer, bool quantized, int32_t value,
                              int32_t sample, float *scratch) {
    const side *s = quantized ? &layer->replay->quantized : &layer->replay->reference;
    const qb_value *v = &s->graph->values[value];
    const void *data = s->data[value][sample];
    if (s->quantized[value]) {
        dequantize(v, data, scratch);
        return scratch;
    }
    if (!is_quantized(v)) return data;
    const int32_t zero = v->q.zero ? v->q.zero[0] : 0;
    for (int64_t i = 0, n = qb_shape_count(&v->shape); i < n; i++) {
        const int32_t q =
            qb_quantize_value(((const float *)data)[i], v->q.scale[0], zero, v->dtype);
        scratch[i] = v->q.scale[0] * (float)(q - zero);
    }
    return scratch;
}

/* ---- one group ---- */

typedef struct group_run {
    qb_replay *replay;
    side *side;
    qb_engine *engine;
    int32_t n_in, n_out, in[PORTS], out[PORTS]; /* values */
    qb_context **context;                       /* [workers] */
    float **scratch;                            /* [workers][n_in + n_out] */
} group_run;

static bool find_ports(group_run *g) {
    const side *s = g->side;
    g->n_in = qb_engine_n_inputs(g->engine);
    g->n_out = qb_engine_n_outputs(g->engine);
    if (g->n_in > PORTS || g->n_out > PORTS) return false;
    for (int32_t i = 0; i < g->n_in; i++) {
        g->in[i] = qb_graph_find_value(s->graph, qb_engine_input_name(g->engine, i));
        if (g->in[i] < 0 || !s->data[g->in[i]]) return false;
    }
    for (int32_t i = 0; i < g->n_out; i++) {
        g->out[i] = qb_graph_find_value(s->graph, qb_engine_output_name(g->engine, i));
        if (g->out[i] < 0) return false;
    }
    return true;
}

static qb_status run_sample(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    group_run *g = user;
    side *s = g->side;
    const void *in[PORTS];
    void *out[PORTS];
    const int32_t ports = g->n_in + g->n_out;
    if (!g->context[worker]) QB_TRY(qb_context_create(cx, g->engine, &g->context[worker]));
    for (int32_t k = 0; k < ports; k++) {
        const bool is_input = k < g->n_in;
        const int32_t v = is_input ? g->in[k] : g->out[k - g->n_in];
        float **scratch = &g->scratch[worker * ports + k];
        if (s->quantized[v] && !*scratch)
            *scratch = qb_alloc_aligned(cx, bytes_of(s, v, false) + 1, 1);
        if (s->quantized[v] && !*scratch) return cx->code;
        if (is_input) {
            if (s->quantized[v]) dequantize(&s->graph->values[v], s->data[v][i], *scratch);
            in[k] = s->quantized[v] ? *scratch : s->data[v][i];
            continue;
        }
        s->data[v][i] = qb_alloc_aligned(cx, bytes_of(s, v, s->quantized[v]) + 1, 1);
        if (!s->data[v][i]) return cx->code;
        out[k - g->n_in] = s->quantized[v] ? (void *)*scratch : s->data[v][i];
    }
    QB_TRY(qb_context_run(cx, g->context[worker], in, out));
    for (int32_t k = 0; k < g->n_out; k++)
        if (s->quantized[g->out[k]])
            quantize(&s->graph->values[g->out[k]], out[k], s->data[g->out[k]][i]);
    return QB_OK;
}

static qb_status run_built(qb_ctx *cx, group_run *g) {
    const int workers = qb_threads(cx);
    const size_t n = (size_t)g->replay->n_samples, ports = (size_t)(g->n_in + g->n_out);
    side *s = g->side;
    for (int32_t k = 0; k < g->n_out; k++) {
        const int32_t v = g->out[k];
        clear(g->replay, s, v);
        s->quantized[v] = is_quantized(&s->graph->values[v]);
        QB_TRY_NEW(cx, s->data[v] = qb_alloc(cx, n, sizeof(void *)));
    }
    g->context = qb_alloc(cx, (size_t)workers, sizeof(qb_context *));
    g->scratch = qb_alloc(cx, (size_t)workers * ports, sizeof(float *));
    qb_status status = g->context && g->scratch ? QB_OK : cx->code;
    if (status == QB_OK) status = qb_each(cx, (int32_t)n, run_sample, g);
    for (int w = 0; w < workers && g->context; w++) qb_context_free(g->context[w]);
    for (size_t k = 0; k < (size_t)workers * ports && g->scratch; k++) qb_free(g->scratch[k]);
    QB_FREE_ALL(g->context, g->scratch);
    return status;
}

/* Are its inputs there, and are the sizes of its outputs known before it runs? */
static bool can_run(const side *s, const qb_group *group) {
    const qb_node *last = &s->graph->nodes[group->node[group->n_nodes - 1]];
    for (int32_t i = 0; i < group->n_in; i++) {
        const int32_t v = group->in[i];
        if (v >= 0 && !s->graph->values[v].data && !s->data[v]) return false;
    }
    for (int32_t i = 0; i < last->n_out; i++)
        if (last->out[i] >= 0 && !qb_shape_known(&s->graph->values[last->out[i]].shape))
            return false;
    return true;
}

/* What cannot run leaves its outputs without data. */
static qb_status run_group(qb_ctx *cx, qb_replay *r, side *s, const qb_group *group) {
    const qb_build_spec spec = {.threads = 1};
    group_run g = {.replay = r, .side = s};
    qb_graph *alone = NULL;
    if (!can_run(s, group)) return QB_OK;
    qb_status status = qb_group_extract(cx, s->graph, group, &alone);
    if (status == QB_OK) status = qb_engine_build(cx, alone, &spec, &g.engine);
    if (status == QB_OK) {
        if (find_ports(&g)) status = run_built(cx, &g);
    } else if (status != QB_STATUS_NOMEM && status != QB_STATUS_CANCELLED) {
        qb_debug(cx, "recover: passed over: %s", cx->message);
        qb_ctx_clear(cx);
        status = QB_OK;
    }
    qb_engine_free(g.engine);
    qb_graph_free(alone);
    return status;
}

static void drop_inputs(const qb_replay *r, side *s, const qb_group *group) {
    for (int32_t i = 0; i < group->n_in; i++) drop(r, s, group->in[i]);
}

/* ---- both sides ---- */

static qb_status side_init(qb_ctx *cx, const qb_graph *graph, const qb_samples *samples, side *s) {
    QB_TRY(qb_graph_bind_loosely(cx, graph, samples->shape, &s->graph));
    QB_TRY(qb_fuse(cx, s->graph, &s->groups));
    s->n_values = s->graph->n_values;
    const size_t n = (size_t)s->n_values + 1;
    QB_TRY_NEW(cx, s->data = qb_alloc(cx, n, sizeof(void **)));
    QB_TRY_NEW(cx, s->borrowed = qb_alloc(cx, n, sizeof *s->borrowed));
    QB_TRY_NEW(cx, s->quantized = qb_alloc(cx, n, sizeof *s->quantized));
    QB_TRY_NEW(cx, s->readers = qb_alloc(cx, n, sizeof *s->readers));
    for (int32_t g = 0; g < s->groups.n; g++)
        for (int32_t i = 0; i < s->groups.group[g].n_in; i++)
            if (s->groups.group[g].in[i] >= 0) s->readers[s->groups.group[g].in[i]]++;
    return QB_OK;
}

static qb_status take_inputs(qb_ctx *cx, qb_replay *r, side *s) {
    const qb_samples *samples = r->options->samples;
    for (int32_t k = 0; k < s->graph->n_inputs; k++) {
        const int32_t v = s->graph->inputs[k];
        QB_TRY_NEW(cx, s->data[v] = qb_alloc(cx, (size_t)r->n_samples, sizeof(void *)));
        s->borrowed[v] = true;
        for (int32_t i = 0; i < r->n_samples; i++)
            s->data[v][i] = samples->data[i * samples->n_inputs + k];
    }
    return QB_OK;
}

static void side_release(const qb_replay *r, side *s) {
    for (int32_t v = 0; s->data && v < s->n_values; v++) {
        for (int32_t i = 0; s->data[v] && i < r->n_samples && !s->borrowed[v]; i++)
            qb_free(s->data[v][i]);
        qb_free(s->data[v]);
    }
    QB_FREE_ALL(s->data, s->borrowed, s->quantized, s->readers);
    qb_groups_release(&s->groups);
    qb_graph_free(s->graph);
}

/* The most bytes of a sample that live at once. */
static size_t most_bytes(qb_ctx *cx, const side *s) {
    QB_FREED int32_t *left = qb_alloc(cx, (size_t)s->graph->n_values + 1, sizeof *left);
    size_t now = 0, most = 1;
    if (!left) return most;
    memcpy(left, s->readers, (size_t)s->graph->n_values * sizeof *left);
    for (int32_t g = 0; g < s->groups.n; g++) {
        const qb_group *group = &s->groups.group[g];
        const qb_node *last = &s->graph->nodes[group->node[group->n_nodes - 1]];
        for (int32_t k = 0; k < last->n_out; k++)
            if (last->out[k] >= 0)
                now += bytes_of(s, last->out[k], is_quantized(&s->graph->values[last->out[k]]));
        if (now > most) most = now;
        for (int32_t k = 0; k < group->n_in; k++) {
            const int32_t v = group->in[k];
            if (v < 0 || s->graph->values[v].data || qb_graph_is_input(s->graph, v)) continue;
            if (--left[v] == 0) now -= bytes_of(s, v, is_quantized(&s->graph->values[v]));
        }
    }
    return most;
}

/* Runs the reference until it has a value. */
static qb_status advance(qb_ctx *cx, qb_replay *r, int32_t value) {
    side *s = &r->reference;
    while (value >= 0 && !s->data[value] && s->at < s->groups.n) {
        const qb_group *group = &s->groups.group[s->at++];
        QB_TRY(run_group(cx, r, s, group));
        drop_inputs(r, s, group);
    }
    return QB_OK;
}

/* The layer that an integer group is; false for others. */
static bool describe(qb_replay *r, const qb_group *group, qb_replay_layer *out) {
    const side *s = &r->quantized;
    const qb_value *values = s->graph->values;
    const qb_node *node = &s->graph->nodes[group->node[0]];
    if (node->op->qrule != QB_QRULE_COMPUTE || group->n_in <= QB_IN_WEIGHT) return false;
    const int32_t input = group->in[QB_IN_DATA], weight = group->in[QB_IN_WEIGHT];
    if (input < 0 || weight < 0 || !is_quantized(&values[input]) || !values[weight].data ||
        values[weight].dtype != QB_DTYPE_S8)
        return false;
    *out = (qb_replay_layer){
        .replay = r,
        .group = group,
        .quantized = s->graph,
        .reference = r->reference.graph,
        .input = input,
        .output = group->out,
        .reference_input = qb_graph_find_value(r->reference.graph, values[input].name),
        .reference_output = qb_graph_find_value(r->reference.graph, values[group->out].name),
        .n_samples = r->n_samples};
    return out->reference_input >= 0 && out->reference_output >= 0;
}

static qb_status run_layer(qb_ctx *cx, qb_replay *r, qb_replay_layer *layer) {
    const qb_replay_options *o = r->options;
    side *s = &r->quantized, *f = &r->reference;
    QB_TRY(advance(cx, r, layer->reference_input));
    bool there = s->data[layer->input] && f->data[layer->reference_input];
    if (there && o->before) QB_TRY(o->before(cx, o->user, layer));
    QB_TRY(run_group(cx, r, s, layer->group));
    if (o->after) QB_TRY(advance(cx, r, layer->reference_output));
    there = s->data[layer->output] && f->data[layer->reference_output];
    for (layer->runs = 1; o->after && there; layer->runs++) {
        bool again = false;
        QB_TRY(o->after(cx, o->user, layer, &again));
        if (!again) break;
        QB_TRY(run_group(cx, r, s, layer->group));
    }
    drop_inputs(r, s, layer->group);
    if (o->after) drop(r, f, layer->reference_output);
    drop(r, f, layer->reference_input);
    return QB_OK;
}

static qb_status run(qb_ctx *cx, qb_replay *r) {
    side *s = &r->quantized;
    qb_replay_layer layer;
    for (int32_t g = 0; g < s->groups.n; g++) {
        if (!describe(r, &s->groups.group[g], &layer)) continue;
        r->reference.readers[layer.reference_input]++;
        if (r->options->after) r->reference.readers[layer.reference_output]++;
    }
    for (int32_t g = 0; g < s->groups.n; g++) {
        const qb_group *group = &s->groups.group[g];
        QB_TRY(qb_check_cancel(cx));
        if (describe(r, group, &layer)) {
            QB_TRY(run_layer(cx, r, &layer));
            continue;
        }
        QB_TRY(run_group(cx, r, s, group));
        drop_inputs(r, s, group);
    }
    return QB_OK;
}

qb_status qb_replay_run(qb_ctx *cx, const qb_replay_options *options) {
    qb_replay r = {.options = options};
    qb_status status = QB_OK;
    QB_GO(side_init(cx, options->reference, options->samples, &r.reference));
    QB_GO(side_init(cx, options->quantized, options->samples, &r.quantized));
    const size_t each = most_bytes(cx, &r.reference) + most_bytes(cx, &r.quantized);
    r.n_samples = options->samples->n;
    if (options->bytes / each < (size_t)r.n_samples)
        r.n_samples = options->bytes / each > 0 ? (int32_t)(options->bytes / each) : 1;
    qb_debug(cx, "recover: %d samples of %.1f MiB", r.n_samples, (double)each / 0x1p20);
    QB_GO(take_inputs(cx, &r, &r.reference));
    QB_GO(take_inputs(cx, &r, &r.quantized));
    QB_GO(run(cx, &r));
out:
    side_release(&r, &r.reference);
    side_release(&r, &r.quantized);
    return status;
}
