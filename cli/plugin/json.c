#include "cli/plugin/json.h"

#include "cli/out/json.h"

qb_status qb_plugin_arguments(qb_ctx *cx, const char *command, const char *const *path, int n) {
    for (int i = 0; i < n; i++) QB_TRY(qb_plugins_load(cx, cx->plugins, path[i]));
    if (qb_plugins_count(cx->plugins) > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE, "%s: which library?", command);
}

static const char *type_text(int32_t type) {
    static const char *const texts[] = {"", "int", "float", "text", "ints", "floats"};
    return texts[type]; /* checked when the plugin was loaded */
}

static const char *rule_text(int32_t rule) {
    static const char *const texts[] = {"stays float", "same scale", "own scale"};
    return texts[rule];
}

static json_t *default_json(const qbench_plugin_attr *attr) {
    if (attr->required) return json_null();
    if (attr->type == QBENCH_ATTR_INT) return json_integer(attr->default_int);
    if (attr->type == QBENCH_ATTR_FLOAT) return json_real((double)attr->default_float);
    if (attr->type == QBENCH_ATTR_TEXT)
        return attr->default_text ? qb_json_text(attr->default_text) : json_null();
    return json_array();
}

static json_t *attrs_json(const qbench_plugin_op *op) {
    json_t *list = json_array();
    for (int32_t i = 0; i < op->n_attrs; i++) {
        const qbench_plugin_attr *attr = &op->attrs[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:b, s:o}", "name", qb_json_text(attr->name),
                                        "type", type_text(attr->type), "required", attr->required,
                                        "default", default_json(attr)));
    }
    return list;
}

static json_t *forms_json(const qbench_plugin_form *forms, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        const qb_dtype dtype = qb_dtype_from_onnx(forms[i].dtype);
        const bool last = forms[i].layout == QBENCH_CHANNELS_LAST;
        json_array_append_new(
            list, json_sprintf("%s %s", dtype == QB_DTYPE_NONE ? "any" : qb_dtype_text(dtype),
                               last ? "channels-last" : "row-major"));
    }
    return list;
}

static json_t *formats_json(const qbench_plugin_op *op) {
    json_t *list = json_array();
    for (int32_t i = 0; i < op->n_formats; i++) {
        const qbench_plugin_format *format = &op->formats[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "place",
                                              format->place == QBENCH_ON_CUDA ? "cuda" : "cpu",
                                              "in", forms_json(format->in, op->max_in), "out",
                                              forms_json(format->out, op->max_out)));
    }
    return list;
}

static json_t *op_json(const qbench_plugin_op *op) {
    return json_pack("{s:o, s:o, s:i, s:[i,i], s:[i,i], s:b, s:b, s:b, s:s, s:o, s:o}", "name",
                     qb_json_text(op->name), "domain", qb_json_text(op->domain), "since",
                     (int)op->since, "inputs", (int)op->min_in, (int)op->max_in, "outputs",
                     (int)op->min_out, (int)op->max_out, "cpu", op->run_cpu != NULL, "cuda",
                     op->run_cuda != NULL, "workspace", op->workspace != NULL, "quantization",
                     rule_text(op->quantization), "attributes", attrs_json(op), "formats",
                     formats_json(op));
}

json_t *qb_plugins_json(const qb_ctx *cx) {
    json_t *plugins = json_array();
    for (int32_t i = 0; i < qb_plugins_count(cx->plugins); i++) {
        const qb_plugin *plugin = qb_plugins_at(cx->plugins, i);
        json_t *ops = json_array();
        for (int32_t k = 0; k < plugin->n_ops; k++)
            json_array_append_new(ops, op_json(&plugin->ops[k].api));
        json_array_append_new(plugins,
                              json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", plugin->name,
                                        "version", plugin->version, "abi", (int)plugin->abi,
                                        "library", qb_json_text(plugin->path), "operators", ops));
    }
    return json_pack("{s:s, s:o}", "schema", "qbench.plugins/1", "plugins", plugins);
}
