/* qb_engine_build: bind, fuse, choose, plan, pack. */
#include <string.h>

#include "base/log.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "device_choose_internal.h"
#include "device_internal.h"
#include "graph/dequantize.h"
#include "plans_internal.h"

typedef struct backend {
    const char *name;
    bool is_device;
} backend;

static const backend known_backends[] = {
#define QB_BACKEND(name, summary) {#name, false},
#define QB_DEVICE(name, summary) {#name, true},
#include "backends.def"
#undef QB_BACKEND
#undef QB_DEVICE
};

#define MAX_BACKENDS (int)(sizeof known_backends / sizeof *known_backends)
#define DEFAULT_BACKENDS "cpu,dnnl,ref"

/* One that this build has; else NULL. */
static const char *find_backend(const char *name, size_t n) {
    for (int i = 0; i < MAX_BACKENDS; i++) {
        const backend *b = &known_backends[i];
        if (strlen(b->name) == n && memcmp(b->name, name, n) == 0)
            return b->is_device && !qb_device_find(b->name) ? NULL : b->name;
    }
    return NULL;
}

/* What stands in a list but is nothing that this build has. */
static qb_status unknown_backend(qb_ctx *cx, const char *text, size_t n) {
    const char *names[MAX_BACKENDS + 1] = {NULL};
    char word[32];
    int known = 0;
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    for (int i = 0; i < MAX_BACKENDS; i++) {
        const backend *b = &known_backends[i];
        if (strcmp(b->name, word) == 0)
            return qb_fail(cx, QB_STATUS_USAGE, "backend '%s': this qbench was built without it",
                           word);
        if (!b->is_device || qb_device_find(b->name)) names[known++] = b->name;
    }
    const char *nearest = qb_nearest(word, names);
    if (nearest)
        return qb_fail(cx, QB_STATUS_USAGE, "backend '%s'; did you mean '%s'?", word, nearest);
    qb_strbuf known_text = {0};
    for (int i = 0; i < known; i++)
        qb_strbuf_addf(&known_text, "%s%s", i > 0 ? ", " : "", names[i]);
    qb_fail(cx, QB_STATUS_USAGE, "backend '%s': this qbench has %s", word,
            known_text.failed ? "others" : known_text.data);
    qb_strbuf_release(&known_text);
    return cx->code;
}

/* "dnnl,ref" -> names; the reference is added when it is not there. The default list may name what
 * this build does not have. A device in front is taken off the list, and what it cannot run goes to
 * the default ones unless others are named. */
static qb_status parse_backends(qb_ctx *cx, const char *text, const qb_device_api **device,
                                const char **list) {
    *device = NULL;
    if (text) {
        size_t first = strcspn(text, ",");
        const char *name = find_backend(text, first);
        if (name) *device = qb_device_find(name);
        if (*device) text = text[first] == ',' && text[first + 1] ? text + first + 1 : NULL;
    }
    bool lenient = !text;
    int n = 0;
    if (lenient) text = DEFAULT_BACKENDS;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        const char *name = find_backend(at, length);
        if (!name && !lenient) return unknown_backend(cx, at, length);
        if (name && qb_device_find(name))
            return qb_fail(cx, QB_STATUS_USAGE, "backend '%s' must be the first of the list", name);
        bool listed = false;
        for (int i = 0; i < n; i++) listed = listed || list[i] == name;
        if (name && !listed) list[n++] = name;
        at += length + (at[length] == ',');
    }
    const char *ref = find_backend("ref", 3);
    for (int i = 0; i < n; i++)
        if (list[i] == ref) ref = NULL;
    if (ref) list[n++] = ref;
    list[n] = NULL;
    return QB_OK;
}

qb_status qb_backends_check(qb_ctx *cx, const char *backends) {
    const char *list[MAX_BACKENDS + 1];
    const qb_device_api *device;
    QB_TRY(parse_backends(cx, backends, &device, list));
    if (!*backends) return unknown_backend(cx, "", 0);
    if (device) QB_TRY_WRAP(cx, device->open(cx, 0, NULL), "backend '%s'", backends);
    return QB_OK;
}

static bool same_list(const char *const *a, const char *const *b) {
    while (*a && *a == *b) a++, b++;
    return !*a && !*b;
}

char *qb_backends_name(qb_ctx *cx, const char *backends) {
    const char *list[MAX_BACKENDS + 1], *usual[MAX_BACKENDS + 1];
    const qb_device_api *device, *none;
    qb_strbuf text = {0};
    if (parse_backends(cx, backends, &device, list) != QB_OK) return NULL;
    parse_backends(cx, NULL, &none, usual); /* never fails */
    const bool default_behind = same_list(list, usual), own = strcmp(list[0], "cpu") == 0;
    if (device) qb_strbuf_addf(&text, "%.*s", (int)strcspn(backends, ","), backends);
    if (!device && default_behind) qb_strbuf_add(&text, "cpu");
    for (int i = 0; list[i] && !default_behind; i++)
        if (list[i + 1] || i == 0 || (i == 1 && own))
            qb_strbuf_addf(&text, "%s%s", text.size > 0 ? "," : "", list[i]);
    char *name = text.failed ? NULL : qb_strdup(cx, text.data);
    if (text.failed) qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    qb_strbuf_release(&text);
    return name;
}

bool qb_backends_name_device(const char *backends) {
    const char *first = backends ? find_backend(backends, strcspn(backends, ",")) : NULL;
    return first && qb_device_find(first);
}

/* Concrete input shapes: the caller's, or the model's with the batch in place of its symbol. */
static qb_status input_shapes(qb_ctx *cx, const qb_graph *graph, const qb_engine_options *options,
                              qb_shape *shapes) {
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const qb_value *input = &graph->values[graph->inputs[i]];
        if (options->input_shapes) {
            shapes[i] = options->input_shapes[i];
            continue;
        }
        shapes[i] = input->shape;
        if (shapes[i].rank > 0 && shapes[i].dim[0] < 0)
            shapes[i].dim[0] = options->batch > 0 ? options->batch : 1;
        else if (shapes[i].rank > 0 && options->batch > 1 && shapes[i].dim[0] != options->batch)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "input '%s': the model has a fixed batch of %lld, got %lld", input->name,
                           (long long)shapes[i].dim[0], (long long)options->batch);
        if (!qb_shape_known(&shapes[i])) {
            char text[128];
            return qb_fail(cx, QB_STATUS_INVALID,
                           "input '%s': shape %s is not known; give the input shapes", input->name,
                           qb_shape_text(&input->shape, text, sizeof text));
        }
    }
    return QB_OK;
}

qb_status qb_build_observed(qb_builder *b, int32_t value) {
    qb_engine *e = b->engine;
    QB_TRY(qb_grow(b->cx, &e->observed, &b->cap_observed, (size_t)e->n_observed + 1,
                   sizeof *e->observed));
    e->observed[e->n_observed++] = value;
    return QB_OK;
}

static qb_status prepare(qb_builder *b) {
    size_t n = (size_t)b->graph->n_values;
    b->image_of = qb_alloc(b->cx, n, sizeof *b->image_of);
    b->source_of = qb_alloc(b->cx, n, sizeof *b->source_of);
    b->staged_of = qb_alloc(b->cx, n, sizeof *b->staged_of);
    b->last_group = qb_alloc(b->cx, n, sizeof *b->last_group);
    b->slice_of = qb_alloc(b->cx, n, sizeof *b->slice_of);
    b->slice_offset = qb_alloc(b->cx, n, sizeof *b->slice_offset);
    b->only_windows = qb_alloc(b->cx, n, sizeof *b->only_windows);
    if (!b->image_of || !b->source_of || !b->staged_of || !b->last_group || !b->slice_of ||
        !b->slice_offset || !b->only_windows)
        return b->cx->code;
    for (size_t v = 0; v < n; v++) {
        b->image_of[v] = b->source_of[v] = b->staged_of[v] = -1;
        b->last_group[v] = b->slice_of[v] = -1;
        b->only_windows[v] = true;
    }
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *group = &b->groups.group[g];
        bool window =
            group->kind == QB_KIND_CONV || group->kind == QB_KIND_POOL || qb_build_is_sum(b, group);
        for (int32_t i = 0; i < group->n_in; i++) {
            if (group->in[i] < 0) continue;
            b->last_group[group->in[i]] = g;
            if (!window) b->only_windows[group->in[i]] = false;
        }
    }
    for (int32_t i = 0; i < b->graph->n_outputs; i++)
        b->last_group[b->graph->outputs[i]] = b->groups.n;
    bool rows = strcmp(b->backends[0], "ref") == 0 && !b->engine->device;
    b->spatial = rows ? QB_LAYOUT_ROW : QB_LAYOUT_NHWC;
    if (b->engine->device) QB_TRY(qb_device_keep_floats(b));
    return qb_build_slices(b);
}

/* What the caller passes or receives for a value. */
static qb_desc port_desc(const qb_builder *b, int32_t value) {
    qb_desc desc = qb_build_desc(b, value, QB_LAYOUT_ROW);
    if (desc.q.n > 0) {
        desc.dtype = QB_DTYPE_F32;
        desc.q = (qb_qparams){.axis = -1};
    }
    return desc;
}

static qb_status open_inputs(qb_builder *b) {
    qb_engine *e = b->engine;
    e->inputs = qb_arena_alloc(b->cx, e->arena, (size_t)b->graph->n_inputs, sizeof *e->inputs);
    if (!e->inputs) return b->cx->code;
    for (int32_t i = 0; i < b->graph->n_inputs; i++) {
        int32_t value = b->graph->inputs[i];
        bool quantized = b->graph->values[value].q.n > 0;
        qb_desc desc = port_desc(b, value);
        int32_t buffer = qb_build_buffer(b, QB_BUFFER_INPUT, i, NULL, qb_desc_bytes(&desc));
        int32_t image = qb_build_image(b, quantized ? -1 : value, &desc, buffer);
        if (image < 0) return b->cx->code;
        b->source_of[value] = image;
        e->inputs[i] = (qb_port){b->graph->values[value].name, desc, buffer};
        QB_TRY(qb_build_observed(b, value));
        e->n_inputs++;
    }
    return QB_OK;
}

static qb_status open_outputs(qb_builder *b) {
    qb_engine *e = b->engine;
    e->outputs = qb_arena_alloc(b->cx, e->arena, (size_t)b->graph->n_outputs, sizeof *e->outputs);
    if (!e->outputs) return b->cx->code;
    for (int32_t i = 0; i < b->graph->n_outputs; i++) {
        int32_t value = b->graph->outputs[i];
        qb_desc native = qb_build_desc(b, value, QB_LAYOUT_ROW), desc = port_desc(b, value);
        int32_t from = b->image_of[value] >= 0 ? b->image_of[value]
                                               : qb_build_require(b, value, &native, false);
        bool there = from >= 0 && qb_image_on_device(e, from);
        if (there) from = qb_build_require(b, value, &desc, true);
        if (from < 0) return b->cx->code;
        int32_t buffer = qb_build_buffer(b, QB_BUFFER_OUTPUT, i, NULL, qb_desc_bytes(&desc));
        int32_t to = qb_build_image(b, -1, &desc, buffer);
        if (to < 0) return b->cx->code;
        QB_TRY(there ? qb_build_move(b, from, to) : qb_build_copy(b, from, to));
        e->steps[e->n_steps - 1].name = b->graph->values[value].name;
        e->outputs[i] = (qb_port){b->graph->values[value].name, desc, buffer};
        e->n_outputs++;
    }
    return QB_OK;
}

static qb_status build_steps(qb_builder *b) {
    QB_TRY(prepare(b));
    QB_TRY(open_inputs(b));
    for (b->group = 0; b->group < b->groups.n; b->group++) {
        const qb_group *group = &b->groups.group[b->group];
        char node[160];
        if (group->n_nodes == 0) continue; /* joined with one before it */
        qb_node_text(b->graph, group->node[0], node, sizeof node);
        if (b->engine->device) QB_TRY_WRAP(b->cx, qb_device_join(b), "%s", node);
        QB_TRY_WRAP(b->cx, qb_build_group(b, group), "%s", node);
    }
    return open_outputs(b);
}

static void touch(qb_engine *e, int32_t image, int32_t step) {
    if (image < 0) return;
    qb_buffer *buffer = &e->buffers[e->images[image].buffer];
    if (step < buffer->first) buffer->first = step;
    if (step > buffer->last) buffer->last = step;
}

static void touch_all(qb_engine *e) {
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        for (int32_t i = 0; i < step->n_in; i++) touch(e, step->in[i], s);
        for (int32_t i = 0; i < step->n_out; i++) touch(e, step->out[i], s);
        size_t *workspace = step->on_device ? &e->device_workspace : &e->memory.workspace;
        if (step->workspace_bytes > *workspace) *workspace = step->workspace_bytes;
    }
    for (int32_t i = 0; i < e->n_buffers; i++)
        if (e->buffers[i].lasting) e->buffers[i].last = e->n_steps - 1;
}

static qb_status plan(qb_ctx *cx, qb_engine *e) {
    if (e->device) QB_TRY(qb_device_order(cx, e));
    touch_all(e);
    QB_TRY(qb_plan_memory(cx, QB_BUFFER_ARENA, e->buffers, e->n_buffers, e->n_steps,
                          &e->memory.arena, &e->memory.lower_bound));
    if (!e->device) return QB_OK;
    size_t lower = 0;
    for (int32_t i = 0; i < e->n_buffers; i++) /* so that every offset is a multiple, too */
        if (e->buffers[i].kind == QB_BUFFER_DEVICE)
            e->buffers[i].bytes = qb_device_aligned(e->buffers[i].bytes);
    QB_TRY(qb_plan_memory(cx, QB_BUFFER_DEVICE, e->buffers, e->n_buffers, e->n_steps,
                          &e->device_arena, &lower));
    e->memory.lower_bound += lower;
    return QB_OK;
}

/* Where each kernel's constants will lie. */
static void place_packed(qb_engine *e) {
    size_t total = 0;
    for (int32_t s = 0; s < e->n_steps; s++) {
        qb_step *step = &e->steps[s];
        if (!step->kernel || step->on_device) continue;
        step->packed_offset = total;
        total += (step->kernel->packed_bytes + 63) / 64 * 64;
    }
    e->memory.weights = total;
}

qb_status qb_engine_pack(qb_ctx *cx, qb_engine *e) {
    if (e->packed) return QB_OK;
    place_packed(e);
    e->packed = qb_alloc_aligned(cx, e->memory.weights, 1);
    if (!e->packed) return cx->code;
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        if (!step->kernel || !step->kernel->pack || step->on_device) continue;
        QB_TRY_WRAP(cx,
                    step->kernel->pack(cx, step->kernel, step->constants,
                                       (char *)e->packed + step->packed_offset),
                    "packing the constants of '%s' for %s", step->name, step->tactic);
    }
    return e->device ? qb_device_pack(cx, e) : QB_OK;
}

/* Nodes that make nothing, because all of their outputs are left out, have no step. */
static void drop_idle(qb_groups *groups) {
    int32_t n = 0;
    for (int32_t g = 0; g < groups->n; g++)
        if (groups->group[g].out >= 0) groups->group[n++] = groups->group[g];
    groups->n = n;
}

static void release_builder(qb_builder *b) {
    qb_groups_release(&b->groups);
    qb_workers_free(b->workers);
    qb_free(b->image_of);
    qb_free(b->source_of);
    qb_free(b->staged_of);
    qb_free(b->is_half);
    qb_free(b->wanted_bf16);
    qb_free(b->half_note);
    qb_free(b->keeps_f32);
    qb_scratch_free(b->scratch);
    qb_free(b->last_group);
    qb_free(b->only_windows);
    qb_free(b->slice_of);
    qb_free(b->slice_offset);
}

/* What is known of a device's kernels; all drafts of a build share it. */
struct qb_knowledge {
    qb_timings *timings;   /* loaded when the device is open; NULL: nothing is timed */
    qb_compiled *compiled; /* instead, where kernels are made again */
};

static void forget(qb_knowledge *known) {
    qb_timings_free(known->timings);
    qb_compiled_free(known->compiled);
}

/* What the caller asked for, resolved. */
typedef struct request {
    const qb_graph *graph;
    qb_graph *bound; /* instead of `graph`: bound already, taken over */
    bool share;      /* the constants of `graph`, which outlives the engine */
    const qb_replay *replay;
    qb_plans *plans; /* as in qb_builder */
    const qb_hints *hints;
    bool usual, first_plan;          /* the shapes are a profile's usual ones; of `plans` */
    const qb_engine_options *ranges; /* it has profiles; NULL: one set of shapes */
    size_t workspace_limit;
    const char *backends[MAX_BACKENDS + 1];
    qb_shape *shapes;
    int threads;
    bool time_tactics, first_tactic;
    const qb_device_api *device; /* NULL: the host */
    qb_dtype float_type;         /* F32, F16 or BF16 */
    const char *timing_cache;
    bool mix, observable, tf32;
    uint32_t without;    /* sources of tactics */
    int32_t ordinal;     /* of the device */
    qb_knowledge *known; /* NULL where all is as the hints of `plans` say */
} request;

static qb_status load_timings(qb_ctx *cx, const qb_engine *e, const char *path,
                              qb_timings **timings) {
    if (*timings) return QB_OK;
    char *name = qb_format(cx, "%s, qbench %s", e->device_name, QB_VERSION);
    if (!name) return cx->code;
    qb_status status = qb_timings_load(cx, path, name, timings);
    qb_free(name);
    return status;
}

/* The device, and what is needed to time its tactics. What it is, plans know already. */
static qb_status open_device(qb_builder *b, const request *r) {
    qb_engine *e = b->engine;
    qb_device_identity identity;
    const char *name = r->plans ? r->plans->device_name : NULL;
    const double start = qb_now();
    QB_TRY(r->device->open(b->cx, r->ordinal, name ? NULL : &identity));
    e->device_seconds = qb_now() - start;
    e->device = r->device;
    e->ordinal = r->ordinal;
    e->device_name = name ? qb_strdup(b->cx, name)
                          : qb_format(b->cx, "%s, %s", identity.hardware, identity.software);
    if (!e->device_name) return b->cx->code;
    if (r->replay) {
        QB_TRY(qb_compiled_create(b->cx, &r->known->compiled));
        b->compiled = r->known->compiled;
        return qb_compiled_lend_all(b->cx, b->compiled, r->replay->compiled);
    }
    if (r->hints) {
        b->compiled = r->known ? qb_timings_compiled(r->known->timings) : r->plans->compiled;
        return QB_OK;
    }
    QB_TRY(load_timings(b->cx, e, r->timing_cache, &r->known->timings));
    b->timings = r->known->timings;
    b->compiled = qb_timings_compiled(b->timings);
    return qb_scratch_create(b->cx, r->device, &b->scratch);
}

/* What its kernels are made of again stays with the engine, for its file. */
static qb_status keep_compiled(qb_ctx *cx, const qb_compiled *known, qb_engine *engine) {
    qb_compiled_free(engine->compiled);
    engine->compiled = NULL;
    QB_TRY(qb_compiled_create(cx, &engine->compiled));
    for (int32_t s = 0; s < engine->n_steps; s++) {
        const qb_kernel *kernel = engine->steps[s].kernel;
        if (kernel && !qb_hash_is_zero(kernel->compiled))
            QB_TRY(qb_compiled_take(cx, engine->compiled, known, kernel->compiled));
    }
    return QB_OK;
}

/* "cpu,dnnl,ref", in an arena; NULL with an error. */
static const char *backends_text(qb_ctx *cx, const request *r, qb_arena *arena) {
    qb_strbuf text = {0};
    if (r->device) qb_strbuf_addf(&text, "%s,", r->device->backend);
    for (int i = 0; r->backends[i]; i++)
        qb_strbuf_addf(&text, "%s%s", i > 0 ? "," : "", r->backends[i]);
    if (text.failed) qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    const char *kept = text.failed ? NULL : qb_arena_strdup(cx, arena, text.data ? text.data : "");
    qb_strbuf_release(&text);
    return kept;
}

/* The precision of each step of codes: decided now, or as it was. */
static qb_status mix(qb_builder *b) {
    if (b->hints) return qb_device_mix_hinted(b);
    return b->replay ? qb_device_mix_again(b) : qb_device_mix(b);
}

static qb_status bind_graph(qb_builder *b, const request *r) {
    const qb_graph *graph = r->plans ? r->plans->graph : r->graph;
    QB_TRY((r->share ? qb_graph_bind_sharing : qb_graph_bind)(b->cx, graph, r->shapes,
                                                              &b->engine->graph));
    b->graph = b->engine->graph;
    return QB_OK;
}

/* What the device does as one step. The first plan tells what is one for all of them, and begins
 * anew with that. */
static qb_status fuse_for_device(qb_builder *b, const request *r) {
    bool changed = false;
    QB_TRY(qb_device_fuse(b));
    if (r->first_plan) QB_TRY(qb_device_fuse_plans(b, &changed));
    if (!changed) return QB_OK;
    qb_graph_free(b->engine->graph);
    b->graph = b->engine->graph = NULL;
    QB_TRY(qb_plans_trim(b->cx, b->plans));
    QB_TRY(bind_graph(b, r));
    return qb_device_fuse(b);
}

static qb_status fuse_for_host(qb_builder *b) {
    int32_t n;
    QB_TRY(qb_fuse_integers(b->cx, b->graph, &n));
    if (n > 0) qb_debug(b->cx, "products of integers with their scales: %d", (int)n);
    return QB_OK;
}

/* All of the engine but the packed constants. */
static qb_status draft(qb_ctx *cx, const request *r, qb_engine **out) {
    qb_status status = QB_OK;
    qb_builder b = {.cx = cx,
                    .backends = r->backends,
                    .time_tactics = r->time_tactics,
                    .first_tactic = r->first_tactic,
                    .replay = r->replay,
                    .plans = r->plans,
                    .hints = r->hints,
                    .usual = r->usual,
                    .may_join = !r->observable,
                    .workspace_limit = r->workspace_limit,
                    .device_float = r->float_type,
                    .tf32 = r->tf32};
    qb_engine *engine = qb_alloc(cx, 1, sizeof *engine);
    if (!engine) {
        qb_graph_free(r->bound);
        return cx->code;
    }
    b.engine = engine;
    engine->threads = r->threads;
    engine->workspace_limit = r->workspace_limit;
    engine->bf16 = r->float_type == QB_DTYPE_BF16;
    engine->parts = 1;
    engine->graph = r->bound;
    engine->device_float = r->device ? r->float_type : QB_DTYPE_NONE;
    engine->tf32 = r->device && r->tf32;
    engine->mixed = r->mix;
    engine->without = r->without;
    QB_GO(qb_arena_create(cx, &engine->arena));
    engine->backends = backends_text(cx, r, engine->arena);
    if (!engine->backends) QB_GO(cx->code);
    b.graph = engine->graph;
    if (!b.graph) QB_GO(bind_graph(&b, r));
    if (r->device) QB_GO(open_device(&b, r));
    if (r->device && r->float_type == QB_DTYPE_F16 && !r->observable) QB_GO(fuse_for_device(&b, r));
    if (!r->device && !r->observable) QB_GO(fuse_for_host(&b));
    QB_GO(qb_fuse(cx, b.graph, &b.groups));
    drop_idle(&b.groups);
    if (r->device && r->float_type == QB_DTYPE_F16 && r->mix) QB_GO(mix(&b));
    if (engine->bf16) QB_GO(qb_bf16_prepare(&b));
    if (b.time_tactics) QB_GO(qb_workers_create(cx, engine->threads, &b.workers));
    int before = qb_use_threads(engine->threads);
    status = build_steps(&b);
    if (status == QB_OK) status = plan(cx, engine);
    qb_use_threads(before);
    if (status == QB_OK && b.compiled && r->known) status = keep_compiled(cx, b.compiled, engine);
    if (status == QB_OK && r->timing_cache && b.timings)
        status = qb_timings_save(cx, b.timings, r->timing_cache);
    if (status != QB_OK) goto out;
    *out = engine;
    engine = NULL;
out:
    release_builder(&b);
    qb_engine_free(engine);
    return status;
}

/* Tactics that do better in the whole run than alone. */
static qb_status refine(qb_ctx *cx, const request *r, qb_engine *engine) {
    bool changed;
    if (!engine->device || r->observable || !r->known || !r->known->timings) return QB_OK;
    const double start = qb_now();
    QB_TRY(qb_device_refine(cx, engine, r->known->timings, &changed));
    qb_debug(cx, "in place: %.3g s", qb_now() - start);
    if (changed) QB_TRY(keep_compiled(cx, qb_timings_compiled(r->known->timings), engine));
    return r->timing_cache ? qb_timings_save(cx, r->known->timings, r->timing_cache) : QB_OK;
}

/* A draft for `items` of the batch; *out is NULL when the graph does not take that number. */
static qb_status draft_part(qb_ctx *cx, const request *r, int64_t items, qb_engine **out) {
    *out = NULL;
    for (int32_t i = 0; i < r->graph->n_inputs; i++) r->shapes[i].dim[0] = items;
    qb_status status = draft(cx, r, out);
    if (status != QB_STATUS_INVALID && status != QB_STATUS_UNSUPPORTED) return status;
    qb_ctx_clear(cx);
    return QB_OK;
}

static int64_t common_batch(const request *r) {
    int64_t batch = r->graph->n_inputs > 0 && r->shapes[0].rank > 0 ? r->shapes[0].dim[0] : 0;
    for (int32_t i = 0; i < r->graph->n_inputs; i++)
        if (r->shapes[i].rank < 1 || r->shapes[i].dim[0] != batch) return 0;
    return batch;
}

static bool is_part(const qb_port *ports, int32_t n, int64_t parts, int64_t batch) {
    for (int32_t i = 0; i < n; i++) {
        const qb_shape *shape = &ports[i].desc.shape;
        if (shape->rank < 1 || shape->dim[0] < 1 || batch / parts != shape->dim[0]) return false;
    }
    return batch % parts == 0;
}

qb_status qb_engine_in_parts(qb_ctx *cx, qb_engine *engine, int64_t parts, int64_t batch) {
    if (parts == 1) return QB_OK;
    if (!is_part(engine->inputs, engine->n_inputs, parts, batch) ||
        !is_part(engine->outputs, engine->n_outputs, parts, batch))
        return qb_fail(cx, QB_STATUS_MISMATCH, "%lld parts of a batch of %lld do not fit",
                       (long long)parts, (long long)batch);
    engine->parts = parts;
    for (int32_t i = 0; i < engine->n_inputs; i++) engine->inputs[i].desc.shape.dim[0] = batch;
    for (int32_t i = 0; i < engine->n_outputs; i++) engine->outputs[i].desc.shape.dim[0] = batch;
    return QB_OK;
}

/* Fails unless the items of the batch have nothing to do with each other. */
static qb_status check_apart(qb_ctx *cx, const request *r, const qb_engine *engine) {
    const int64_t batch = common_batch(r);
    qb_graph *one;
    if (batch == 1) return QB_OK;
    for (int32_t i = 0; batch > 0 && i < r->graph->n_inputs; i++) r->shapes[i].dim[0] = 1;
    qb_status status = qb_graph_bind(cx, r->graph, r->shapes, &one);
    for (int32_t i = 0; batch > 0 && i < r->graph->n_inputs; i++) r->shapes[i].dim[0] = batch;
    if (status != QB_OK) return status;
    const bool apart = batch > 0 && qb_is_separable(engine->graph, one, batch);
    qb_graph_free(one);
    return apart ? QB_OK
                 : qb_fail(cx, QB_STATUS_UNSUPPORTED, "the model may mix the items of a batch");
}

/* Replaces a draft for a large batch by one for a part of it, where that is the same. */
static qb_status split(qb_ctx *cx, const request *r, qb_engine **engine) {
    qb_status status;
    int64_t batch = common_batch(r);
    size_t budget = qb_cache_budget();
    qb_engine *one, *part;
    if (batch < 2 || (*engine)->memory.arena <= budget) return QB_OK;
    QB_TRY(draft_part(cx, r, 1, &one));
    if (!one || !qb_is_separable((*engine)->graph, one->graph, batch)) {
        qb_engine_free(one);
        return QB_OK;
    }
    int64_t items = qb_items_at_once(batch, one->memory.arena, budget);
    part = one;
    if (items > 1) {
        qb_engine_free(one);
        QB_TRY(draft_part(cx, r, items, &part));
    }
    if (!part || items == batch) {
        qb_engine_free(part);
        return QB_OK;
    }
    status = qb_engine_in_parts(cx, part, batch / items, batch);
    if (status != QB_OK) {
        qb_engine_free(part);
        return status;
    }
    qb_debug(cx, "batch of %lld in %lld parts", (long long)batch, (long long)part->parts);
    qb_engine_free(*engine);
    *engine = part;
    return QB_OK;
}

static qb_status build_ranges(qb_ctx *cx, const request *r, qb_engine **out);

static qb_status build_packed(qb_ctx *cx, const request *r, qb_engine **out) {
    qb_engine *engine;
    QB_TRY(draft(cx, r, &engine));
    qb_status status = refine(cx, r, engine);
    if (status == QB_OK) status = qb_engine_pack(cx, engine);
    if (status == QB_OK)
        *out = engine;
    else
        qb_engine_free(engine);
    return status;
}

/* The same network without any quantization, in f16; *out is NULL when there is none. */
static qb_status build_half(qb_ctx *cx, const request *r, qb_engine **out) {
    request half = *r;
    qb_graph *graph;
    *out = NULL;
    if (qb_graph_dequantize(cx, r->graph, &graph) != QB_OK) {
        if (cx->code != QB_STATUS_UNSUPPORTED) return cx->code;
        qb_ctx_clear(cx);
        return QB_OK;
    }
    half.graph = graph;
    qb_status status = (r->ranges ? build_ranges : build_packed)(cx, &half, out);
    qb_graph_free(graph);
    return status;
}

#define CLEARLY 0.99 /* INT8 must take less than this share of FP16's time */

/* Every step that computes says that FP16 won as a whole. */
static qb_status note_race(qb_ctx *cx, qb_engine *half, const double ms[2]) {
    char text[128];
    snprintf(text, sizeof text, "the whole engine: f16 %.3f ms, int8 with f16 steps %.3f ms", ms[1],
             ms[0]);
    const char *kept = qb_arena_strdup(cx, half->arena, text);
    if (!kept) return cx->code;
    for (int32_t s = 0; s < half->n_steps; s++)
        if (half->steps[s].on_device && half->steps[s].flops > 0)
            half->steps[s].choice.why_half = kept;
    return QB_OK;
}

/* An INT8 engine on a device that may mix is not to be slower than the FP16 one: both run, and INT8
 * stays where it is clearly faster; a tie is FP16's, so that what stays is that very engine. Sums
 * of step times cannot promise that, and where they keep every layer in FP16, pools and their
 * conversions may still be in codes. Ranges of shapes are decided at the first profile's usual
 * ones. */
static qb_status keep_faster(qb_ctx *cx, const request *r, qb_engine **engine) {
    if (!(*engine)->device || r->float_type != QB_DTYPE_F16 || !r->mix ||
        !qb_graph_is_quantized(r->graph))
        return QB_OK;
    qb_engine *half = NULL;
    double ms[2] = {0, 0};
    qb_status status = QB_OK;
    QB_GO(build_half(cx, r, &half));
    if (!half) return QB_OK;
    const qb_engine *const both[2] = {*engine, half};
    QB_GO(qb_device_race(cx, both, r->known->timings, ms));
    if (r->timing_cache) QB_GO(qb_timings_save(cx, r->known->timings, r->timing_cache));
    if (ms[0] >= CLEARLY * ms[1]) {
        qb_info(cx, "INT8 takes %.3f ms, FP16 %.3f ms: all steps stay in FP16", ms[0], ms[1]);
        QB_GO(note_race(cx, half, ms));
        qb_engine *slower = *engine;
        *engine = half;
        half = slower;
    }
out:
    qb_engine_free(half);
    if (status != QB_STATUS_NOMEM) return status;
    qb_ctx_clear(cx); /* the device has no room for two: the planned one it is */
    return QB_OK;
}

static qb_status build_ranges(qb_ctx *cx, const request *r, qb_engine **out) {
    qb_arena *arena;
    QB_TRY(qb_arena_create(cx, &arena));
    const qb_again how = {.backends = backends_text(cx, r, arena),
                          .threads = r->threads,
                          .workspace_limit = r->workspace_limit,
                          .device_float = r->device ? r->float_type : QB_DTYPE_NONE,
                          .tf32 = r->tf32,
                          .mixed = r->mix,
                          .without = r->without,
                          .known = r->known,
                          .bf16 = r->float_type == QB_DTYPE_BF16,
                          .ordinal = r->ordinal};
    qb_status status =
        how.backends ? qb_profiles_build(cx, r->graph, r->ranges, &how, out) : cx->code;
    qb_arena_free(arena);
    return status;
}

/* Can it compute in the type of floats that is asked for? */
static qb_status check_float_type(qb_ctx *cx, const request *r, const char *backends) {
    if (r->float_type == QB_DTYPE_F16 && !r->device)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "float type f16: expected a device's backend");
    if (r->float_type != QB_DTYPE_BF16) return QB_OK;
    if (r->device)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "float type bf16: expected a backend of the host");
    const char *reason = qb_engine_no_bf16(backends);
    return reason ? qb_fail(cx, QB_STATUS_UNSUPPORTED, "float type bf16: %s", reason) : QB_OK;
}

qb_status qb_engine_build(qb_ctx *cx, const qb_graph *graph, const qb_engine_options *options,
                          qb_engine **out) {
    static const qb_engine_options defaults = {0};
    qb_status status = QB_OK;
    qb_engine *engine = NULL;
    qb_knowledge known = {0};
    if (!options) options = &defaults;
    request r = {.graph = graph,
                 .known = &known,
                 .threads = options->threads > 0 ? options->threads : qb_threads(cx),
                 .time_tactics = options->time_tactics,
                 .workspace_limit = options->workspace_limit,
                 .first_tactic = options->first_tactic,
                 .float_type = options->float_type ? options->float_type : QB_DTYPE_F32,
                 .timing_cache = options->timing_cache,
                 .mix = !options->no_mixing,
                 .without = options->without,
                 .ordinal = options->device,
                 .tf32 = options->tf32,
                 .observable = options->observable};
    QB_TRY(parse_backends(cx, options->backends, &r.device, r.backends));
    QB_TRY(check_float_type(cx, &r, options->backends));
    if (options->n_profiles > 0) {
        r.ranges = options;
        QB_GO(build_ranges(cx, &r, &engine));
        QB_GO(keep_faster(cx, &r, &engine));
        if (r.timing_cache && known.timings)
            QB_GO(qb_timings_save(cx, known.timings, r.timing_cache));
        *out = engine;
        engine = NULL;
        goto out;
    }
    r.shapes = qb_alloc(cx, (size_t)graph->n_inputs, sizeof *r.shapes);
    if (!r.shapes) return cx->code;
    QB_GO(input_shapes(cx, graph, options, r.shapes));
    QB_GO(draft(cx, &r, &engine));
    if (options->items_apart) QB_GO(check_apart(cx, &r, engine));
    if (!options->observable && !engine->device) QB_GO(split(cx, &r, &engine));
    QB_GO(refine(cx, &r, engine));
    QB_GO(qb_engine_pack(cx, engine));
    if (!options->observable) QB_GO(keep_faster(cx, &r, &engine));
    *out = engine;
    engine = NULL;
out:
    qb_free(r.shapes);
    qb_engine_free(engine);
    forget(&known);
    return status;
}

/* What is to be made as it is written down. */
static qb_status request_again(qb_ctx *cx, const qb_again *how, request *r) {
    *r = (request){.replay = how->replay,
                   .plans = how->plans,
                   .hints = how->hints,
                   .threads = how->threads,
                   .workspace_limit = how->workspace_limit,
                   .float_type = how->bf16 ? QB_DTYPE_BF16 : how->device_float,
                   .tf32 = how->tf32,
                   .mix = how->mixed,
                   .without = how->without,
                   .known = how->known,
                   .ordinal = how->ordinal};
    QB_TRY(parse_backends(cx, how->backends, &r->device, r->backends));
    if (!r->device != (how->device_float == QB_DTYPE_NONE))
        return qb_fail(cx, QB_STATUS_MISMATCH, "recorded for '%s', which does not fit here",
                       how->backends);
    return check_float_type(cx, r, how->backends);
}

qb_status qb_engine_plan(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                         const qb_engine_options *tune, qb_engine **out) {
    const size_t n = (size_t)plans->n_inputs;
    request r;
    qb_engine *engine = NULL;
    qb_status status = QB_OK;
    QB_TRY(request_again(cx, &plans->how, &r));
    r.graph = plans->graph;
    r.share = true;
    r.plans = plans;
    r.hints = tune ? NULL : &plans->hints[profile];
    r.usual = qb_plans_are_usual(plans, profile, shapes);
    r.first_plan = tune && profile == 0;
    r.time_tactics = tune && tune->time_tactics;
    r.first_tactic = tune && tune->first_tactic;
    r.timing_cache = tune ? tune->timing_cache : NULL;
    r.shapes = qb_alloc(cx, n, sizeof *r.shapes);
    if (!r.shapes) return cx->code;
    if (n) memcpy(r.shapes, shapes, n * sizeof *r.shapes);
    QB_GO(draft(cx, &r, &engine));
    if (!engine->device) QB_GO(split(cx, &r, &engine));
    if (tune) QB_GO(refine(cx, &r, engine));
    if (!engine->packed) place_packed(engine);
    *out = engine;
    engine = NULL;
out:
    if (engine) qb_engine_destroy(engine);
    qb_free(r.shapes);
    return status;
}

qb_status qb_engine_again(qb_ctx *cx, qb_graph *graph, const qb_again *how, qb_engine **out) {
    qb_knowledge known = {0};
    request r;
    qb_engine *engine;
    qb_status status = request_again(cx, how, &r);
    if (status != QB_OK) {
        qb_graph_free(graph);
        return status;
    }
    r.bound = graph;
    r.known = &known;
    status = draft(cx, &r, &engine);
    forget(&known);
    if (status != QB_OK) return status;
    place_packed(engine);
    if (engine->device) qb_device_place(engine);
    *out = engine;
    return QB_OK;
}
