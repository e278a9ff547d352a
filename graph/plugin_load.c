/* Libraries to operator rows. Nothing that a library says is used before it was checked. */
#include "graph/plugin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/open.h"
#include "plugin_internal.h"

#define ATTRS_MAX 64
#define OPS_MAX 1024
#define FORMATS_MAX 64
#define LONGEST_NAME 128

struct qb_plugins {
    atomic_int references;
    qb_arena *arena;
    qb_plugin **plugin;
    int32_t n;
    size_t capacity;
};

typedef struct attrs_field { /* the largest field, so that every offset is aligned */
    union {
        int64_t i;
        float f;
        const char *s;
        qb_ints ints;
        qb_floats floats;
    } as;
} attrs_field;

qb_status qb_plugins_create(qb_ctx *cx, qb_plugins **out) {
    QB_FREED qb_plugins *plugins = QB_NEW(cx, qb_alloc(cx, 1, sizeof *plugins));
    atomic_init(&plugins->references, 1);
    QB_TRY(qb_arena_create(cx, &plugins->arena));
    *out = QB_MOVE(plugins);
    return QB_OK;
}

qb_plugins *qb_plugins_retain(qb_plugins *plugins) {
    if (plugins) atomic_fetch_add(&plugins->references, 1);
    return plugins;
}

void qb_plugins_release(qb_plugins *plugins) {
    if (!plugins || atomic_fetch_sub(&plugins->references, 1) > 1) return;
    for (int32_t i = 0; i < plugins->n; i++) dlclose(plugins->plugin[i]->library);
    qb_arena_free(plugins->arena);
    QB_FREE_ALL(plugins->plugin, plugins);
}

int32_t qb_plugins_count(const qb_plugins *plugins) { return plugins ? plugins->n : 0; }
const qb_plugin *qb_plugins_at(const qb_plugins *plugins, int32_t i) { return plugins->plugin[i]; }

const qb_plugin *qb_plugins_find(const qb_plugins *plugins, const char *name) {
    for (int32_t i = 0; i < qb_plugins_count(plugins); i++)
        if (strcmp(plugins->plugin[i]->name, name) == 0) return plugins->plugin[i];
    return NULL;
}

static const qb_plugin_op *find_op(const qb_plugins *plugins, const char *name,
                                   const char *domain) {
    for (int32_t i = 0; i < qb_plugins_count(plugins); i++) {
        const qb_plugin *plugin = plugins->plugin[i];
        for (int32_t k = 0; k < plugin->n_ops; k++)
            if (strcmp(plugin->ops[k].row.name, name) == 0 &&
                strcmp(plugin->ops[k].row.domain, domain) == 0)
                return &plugin->ops[k];
    }
    return NULL;
}

const qb_op *qb_op_lookup(const qb_ctx *cx, const char *name, const char *domain) {
    const qb_plugin_op *found = find_op(cx->plugins, name, domain);
    return found ? &found->row : qb_op_find(name, domain);
}

const qb_plugin_op *qb_plugin_op_of(const qb_op *op) {
    return op->of_plugin ? (const qb_plugin_op *)op : NULL;
}

/* ---- checks ---- */

static qb_status senseless(qb_ctx *cx, const char *path, const char *what) {
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: plugin: %s", path, what);
}

static bool is_text(const char *text) {
    return text && *text && strlen(text) < LONGEST_NAME && !strpbrk(text, "\n\r\t");
}

static bool is_name(const char *text) {
    if (!is_text(text)) return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-') return false;
    return true;
}

static qb_status check_attr(qb_ctx *cx, const char *where, const qbench_plugin_op *op, int32_t i) {
    const qbench_plugin_attr *attr = &op->attrs[i];
    if (!is_text(attr->name)) return senseless(cx, where, "an attribute without a name");
    if (attr->type < QBENCH_ATTR_INT || attr->type > QBENCH_ATTR_FLOATS)
        return senseless(cx, where, "an attribute of an unknown type");
    if (attr->min > attr->max) return senseless(cx, where, "an attribute's bounds are empty");
    for (int32_t k = 0; k < i; k++)
        if (strcmp(op->attrs[k].name, attr->name) == 0)
            return senseless(cx, where, "an attribute is described twice");
    return QB_OK;
}

static bool is_form(const qbench_plugin_form *form, int32_t place) {
    const bool dtype = form->dtype == 0 || form->dtype == QBENCH_FLOAT32 ||
                       form->dtype == QBENCH_UINT8 || form->dtype == QBENCH_INT8 ||
                       (form->dtype == QBENCH_FLOAT16 && place == QBENCH_ON_CUDA);
    return dtype && (form->layout == QBENCH_ROW_MAJOR || form->layout == QBENCH_CHANNELS_LAST);
}

static qb_status check_format(qb_ctx *cx, const char *where, const qbench_plugin_op *op,
                              const qbench_plugin_format *format) {
    const bool cpu = format->place == QBENCH_ON_CPU, cuda = format->place == QBENCH_ON_CUDA;
    if (!cpu && !cuda) return senseless(cx, where, "a format for an unknown place");
    if (cpu ? !op->run_cpu : !op->run_cuda)
        return senseless(cx, where, "a format for a place that it does not run in");
    for (int i = 0; i < QBENCH_PLUGIN_MAX_INPUTS; i++)
        if (!is_form(&format->in[i], format->place))
            return senseless(cx, where, "a format with an unknown type or layout of an input");
    for (int i = 0; i < QBENCH_PLUGIN_MAX_OUTPUTS; i++)
        if (!is_form(&format->out[i], format->place))
            return senseless(cx, where, "a format with an unknown type or layout of an output");
    return QB_OK;
}

static qb_status check_counts(qb_ctx *cx, const char *where, const qbench_plugin_op *op) {
    if (op->since < 1) return senseless(cx, where, "since: expected 1 or more");
    if (op->min_in < 0 || op->max_in < op->min_in || op->max_in > QBENCH_PLUGIN_MAX_INPUTS)
        return senseless(cx, where, "a number of inputs that cannot be");
    if (op->min_out < 1 || op->max_out < op->min_out || op->max_out > QBENCH_PLUGIN_MAX_OUTPUTS)
        return senseless(cx, where, "a number of outputs that cannot be");
    if (op->n_attrs < 0 || op->n_attrs > ATTRS_MAX || (op->n_attrs > 0 && !op->attrs))
        return senseless(cx, where, "a table of attributes that cannot be");
    if (op->n_formats < 0 || op->n_formats > FORMATS_MAX || (op->n_formats > 0 && !op->formats))
        return senseless(cx, where, "a table of formats that cannot be");
    if (op->quantization < QBENCH_STAYS_FLOAT || op->quantization > QBENCH_OWN_SCALE)
        return senseless(cx, where, "an unknown rule of quantization");
    return QB_OK;
}

static qb_status check_op(qb_ctx *cx, const char *path, const qbench_plugin_op *op) {
    char where[512];
    snprintf(where, sizeof where, "%.300s", path);
    if (!is_text(op->name) || !is_text(op->domain))
        return senseless(cx, where, "an operator without a name or a domain");
    snprintf(where, sizeof where, "%.300s: %.60s.%.60s", path, op->domain, op->name);
    if (strcmp(op->domain, "ai.onnx") == 0)
        return senseless(cx, where, "ONNX's own domain is not a plugin's");
    QB_TRY(check_counts(cx, where, op));
    if (!op->infer) return senseless(cx, where, "no function infer");
    if (!op->run_cpu && !op->run_cuda) return senseless(cx, where, "neither run_cpu nor run_cuda");
    for (int32_t i = 0; i < op->n_attrs; i++) QB_TRY(check_attr(cx, where, op, i));
    for (int32_t i = 0; i < op->n_formats; i++)
        QB_TRY(check_format(cx, where, op, &op->formats[i]));
    return QB_OK;
}

static qb_status check_plugin(qb_ctx *cx, const char *path, const qbench_plugin *said) {
    if (!said) return senseless(cx, path, "qbench_plugin_entry returned NULL");
    if (said->abi != QBENCH_PLUGIN_ABI)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s: plugin of ABI %u, this qbench has ABI %d: compile it again with the "
                       "qbench/plugin.h of qbench %s",
                       path, said->abi, QBENCH_PLUGIN_ABI, QB_VERSION);
    if (said->struct_size < sizeof *said)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s: plugin: qbench_plugin has %u bytes, expected at least %zu", path,
                       said->struct_size, sizeof *said);
    if (!is_name(said->name)) return senseless(cx, path, "expected a name of letters and digits");
    if (!is_text(said->version)) return senseless(cx, path, "no version");
    if (said->n_ops < 1 || said->n_ops > OPS_MAX || !said->ops)
        return senseless(cx, path, "no operators");
    return QB_OK;
}

/* ---- rows ---- */

static qb_attr_type type_of(int32_t type) {
    switch (type) {
    case QBENCH_ATTR_FLOAT: return QB_ATTR_FLOAT;
    case QBENCH_ATTR_TEXT: return QB_ATTR_STRING;
    case QBENCH_ATTR_INTS: return QB_ATTR_INTS;
    case QBENCH_ATTR_FLOATS: return QB_ATTR_FLOATS;
    default: return QB_ATTR_INT;
    }
}

static qb_qrule rule_of(int32_t quantization) {
    if (quantization == QBENCH_SAME_SCALE) return QB_QRULE_SAME_SCALE;
    return quantization == QBENCH_OWN_SCALE ? QB_QRULE_ELTWISE : QB_QRULE_FLOAT;
}

static qb_status make_row(qb_ctx *cx, qb_arena *arena, qb_plugin_op *op) {
    const qbench_plugin_op *api = &op->api;
    qb_attr_desc *attrs = qb_arena_alloc(cx, arena, (size_t)api->n_attrs + 1, sizeof *attrs);
    if (!attrs) return cx->code;
    for (int32_t i = 0; i < api->n_attrs; i++) {
        const qbench_plugin_attr *from = &api->attrs[i];
        attrs[i] = (qb_attr_desc){.name = from->name,
                                  .type = type_of(from->type),
                                  .offset = (size_t)i * sizeof(attrs_field),
                                  .default_int = from->default_int,
                                  .default_float = from->default_float,
                                  .default_string = from->default_text,
                                  .min = from->min,
                                  .max = from->max,
                                  .required = from->required != 0};
    }
    op->row = (qb_op){.name = api->name,
                      .domain = api->domain,
                      .since = api->since,
                      .min_in = api->min_in,
                      .max_in = api->max_in,
                      .min_out = api->min_out,
                      .max_out = api->max_out,
                      .attr_size = (size_t)api->n_attrs * sizeof(attrs_field),
                      .attrs = attrs,
                      .qrule = rule_of(api->quantization),
                      .weight_input = -1,
                      .infer = qb_plugin_infer,
                      .eval = qb_plugin_eval,
                      .of_plugin = true};
    return QB_OK;
}

static qb_status add_ops(qb_ctx *cx, qb_plugins *plugins, const qbench_plugin *said,
                         qb_plugin *plugin) {
    const char *at = (const char *)said->ops;
    plugin->ops = qb_arena_alloc(cx, plugins->arena, (size_t)said->n_ops, sizeof *plugin->ops);
    if (!plugin->ops) return cx->code;
    const uint32_t stride = said->ops->struct_size;
    if (stride < sizeof(qbench_plugin_op))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s: plugin: qbench_plugin_op has %u bytes, expected at least %zu",
                       plugin->path, stride, sizeof(qbench_plugin_op));
    for (int32_t i = 0; i < said->n_ops; i++, at += stride) {
        qb_plugin_op *op = &plugin->ops[i];
        op->plugin = plugin;
        memcpy(&op->api, at, sizeof op->api);
        if (op->api.struct_size != stride)
            return senseless(cx, plugin->path, "operators of different struct_size");
        QB_TRY(check_op(cx, plugin->path, &op->api));
        QB_TRY(make_row(cx, plugins->arena, op));
        const qb_plugin_op *other = find_op(plugins, op->api.name, op->api.domain);
        if (other)
            return qb_fail(cx, QB_STATUS_INVALID, "%s: operator %s.%s is that of plugin %s already",
                           plugin->path, op->api.domain, op->api.name, other->plugin->path);
        for (plugin->n_ops = 0; plugin->n_ops < i; plugin->n_ops++)
            if (strcmp(plugin->ops[plugin->n_ops].row.name, op->row.name) == 0 &&
                strcmp(plugin->ops[plugin->n_ops].row.domain, op->row.domain) == 0)
                return senseless(cx, plugin->path, "an operator is described twice");
    }
    plugin->n_ops = said->n_ops;
    return QB_OK;
}

/* ---- loading ---- */

static qb_status open_library(qb_ctx *cx, const char *path, void **out) {
    char *here = NULL;
    if (!strchr(path, '/') && qb_path_exists(path))
        QB_TRY_NEW(cx, here = qb_format(cx, "./%s", path));
    /* By a path it is a file; a FIFO would make the loader wait. */
    if (here || strchr(path, '/')) {
        qb_opened file;
        const qb_status status = qb_open_regular(cx, path, &file);
        if (status != QB_OK) {
            qb_free(here);
            return qb_wrap(cx, "%s: plugin", path);
        }
        qb_opened_close(&file);
    }
    *out = dlopen(here ? here : path, RTLD_NOW | RTLD_LOCAL);
    qb_free(here);
    if (*out) return QB_OK;
    const char *why = dlerror();
    return qb_fail(cx, QB_STATUS_NOTFOUND, "%s: plugin: %s", path, why ? why : "cannot be opened");
}

static bool is_open(const qb_plugins *plugins, const void *library) {
    for (int32_t i = 0; i < plugins->n; i++)
        if (plugins->plugin[i]->library == library) return true;
    return false;
}

static qb_status add(qb_ctx *cx, qb_plugins *plugins, const char *path, void *library) {
    typedef const qbench_plugin *(*entry)(void);
    entry call;
    void *symbol = dlsym(library, "qbench_plugin_entry");
    if (!symbol) return senseless(cx, path, "exports no function qbench_plugin_entry");
    memcpy(&call, &symbol, sizeof call); /* ISO C has no cast for it */
    const qbench_plugin *said = call();
    QB_TRY(check_plugin(cx, path, said));
    const qb_plugin *other = qb_plugins_find(plugins, said->name);
    if (other)
        return qb_fail(cx, QB_STATUS_INVALID, "%s: plugin '%s' is loaded already, from %s", path,
                       said->name, other->path);
    qb_plugin *plugin = qb_arena_alloc(cx, plugins->arena, 1, sizeof *plugin);
    char *copy = QB_NEW(cx, plugin ? qb_arena_strdup(cx, plugins->arena, path) : NULL);
    *plugin = (qb_plugin){.path = copy,
                          .name = said->name,
                          .version = said->version,
                          .abi = said->abi,
                          .library = library};
    QB_TRY(add_ops(cx, plugins, said, plugin));
    QB_TRY(qb_grow(cx, &plugins->plugin, &plugins->capacity, (size_t)plugins->n + 1,
                   sizeof *plugins->plugin));
    plugins->plugin[plugins->n++] = plugin;
    return QB_OK;
}

qb_status qb_plugins_load(qb_ctx *cx, qb_plugins *plugins, const char *path) {
    void *library;
    QB_TRY(open_library(cx, path, &library));
    const bool known = is_open(plugins, library);
    const qb_status status = known ? QB_OK : add(cx, plugins, path, library);
    if (known || status != QB_OK) dlclose(library);
    return status;
}
