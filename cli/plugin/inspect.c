/* qbench plugin inspect: all that a plugin says of itself. */
#include "cli/out/json.h"
#include "cli/plugin/json.h"

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static void print_range(const char *label, const json_t *pair) {
    const json_int_t low = json_integer_value(json_array_get(pair, 0)),
                     high = json_integer_value(json_array_get(pair, 1));
    printf("  %-14s %lld", label, (long long)low);
    if (high != low) printf(" to %lld", (long long)high);
    printf("\n");
}

static void print_attr(const json_t *attr) {
    char *usual =
        json_dumps(json_object_get(attr, "default"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    const bool required = json_is_true(json_object_get(attr, "required"));
    printf("  %-14s %s %s, %s%s\n", "attribute", text(attr, "name"), text(attr, "type"),
           required ? "required" : "default ", required || !usual ? "" : usual);
    free(usual);
}

static void print_forms(const json_t *forms) {
    const json_t *form;
    size_t i;
    json_array_foreach(forms, i, form) printf("%s%s", i > 0 ? ", " : "", json_string_value(form));
}

static void print_format(const json_t *format) {
    printf("  %-14s %s: ", "format", text(format, "place"));
    print_forms(json_object_get(format, "in"));
    printf(" -> ");
    print_forms(json_object_get(format, "out"));
    printf("\n");
}

static void print_op(const json_t *op) {
    const json_t *item;
    size_t i;
    const bool cpu = json_is_true(json_object_get(op, "cpu")),
               cuda = json_is_true(json_object_get(op, "cuda"));
    printf("\n%s.%s (domain version %lld and later)\n", text(op, "domain"), text(op, "name"),
           (long long)json_integer_value(json_object_get(op, "since")));
    print_range("inputs", json_object_get(op, "inputs"));
    print_range("outputs", json_object_get(op, "outputs"));
    printf("  %-14s %s%s%s\n", "runs on", cpu ? "cpu" : "", cpu && cuda ? ", " : "",
           cuda ? "cuda" : "");
    printf("  %-14s %s\n", "quantization", text(op, "quantization"));
    printf("  %-14s %s\n", "workspace",
           json_is_true(json_object_get(op, "workspace")) ? "yes" : "no");
    json_array_foreach(json_object_get(op, "attributes"), i, item) print_attr(item);
    json_array_foreach(json_object_get(op, "formats"), i, item) print_format(item);
}

static void print(const json_t *root) {
    const json_t *plugin, *op;
    size_t i, k;
    json_array_foreach(json_object_get(root, "plugins"), i, plugin) {
        printf("%s%s %s, ABI %lld, %s\n", i > 0 ? "\n" : "", text(plugin, "name"),
               text(plugin, "version"),
               (long long)json_integer_value(json_object_get(plugin, "abi")),
               text(plugin, "library"));
        json_array_foreach(json_object_get(plugin, "operators"), k, op) print_op(op);
    }
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const qb_common *common = opts;
    QB_TRY(qb_plugin_arguments(cx, "plugin inspect", arguments->item, arguments->n));
    json_t *root = qb_plugins_json(cx);
    if (!root) return qb_fail(cx, QB_STATUS_NOMEM, "plugin inspect: out of memory");
    if (!qb_json_on_stdout(common)) print(root);
    return qb_json_out(cx, common, root);
}

const qb_command qb_plugin_command_inspect = {
    .name = "plugin inspect",
    .usage = "LIB.so... [options]",
    .summary = "show what a plugin says of itself: operators, attributes, types",
    .notes = "\"any\" is the model's own type. The library is loaded, and so its code runs.",
    .example = "qbench plugin inspect build/plugins/gate.so",
    .options = table,
    .options_size = sizeof(qb_common),
    .max_arguments = 64,
    .run = run,
};
