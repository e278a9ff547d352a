#include "cli/engine_file.h"

#include <string.h>

#include "cli/json_out.h"
#include "engine/file.h"

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "-";
}

static void print_ports(const json_t *tags, const char *key, const char *label) {
    const json_t *port;
    size_t i;
    json_array_foreach(json_object_get(tags, key), i, port)
        printf("%-11s %s %s %s\n", i == 0 ? label : "", text(port, "name"), text(port, "dtype"),
               text(port, "shape"));
}

static void print_steps(const json_t *steps) {
    const json_t *step;
    size_t i;
    json_array_foreach(steps, i, step)
        printf("%4zu %-5s %-28s %-24s %s\n", i, text(step, "dtype"), text(step, "tactic"),
               text(step, "op"), text(step, "name"));
}

static void print_plugins(const json_t *plugins) {
    const json_t *plugin;
    size_t i;
    json_array_foreach(plugins, i, plugin)
        printf("%-11s %s %s, ABI %d\n", i == 0 ? "plugins" : "", text(plugin, "name"),
               text(plugin, "version"), (int)json_integer_value(json_object_get(plugin, "abi")));
}

static double mib(const json_t *memory, const char *key) {
    return (double)json_integer_value(json_object_get(memory, key)) / (1 << 20);
}

static void print(const json_t *tags, bool steps) {
    const json_t *built = json_object_get(tags, "built"), *memory = json_object_get(tags, "memory");
    printf("engine      %s of %s (%s)\n", text(tags, "precision"), text(tags, "model"),
           text(tags, "model_hash"));
    if (json_is_string(json_object_get(tags, "calibration")))
        printf("calibration %s, data %s\n", text(tags, "calibration"), text(tags, "data_hash"));
    printf("built by    qbench %s, %s, %d threads\n", text(built, "qbench"),
           text(built, "libraries"), (int)json_integer_value(json_object_get(built, "threads")));
    printf("built for   %s: %s\n", text(built, "backend"), text(built, "processor"));
    print_plugins(json_object_get(tags, "plugins"));
    print_ports(tags, "inputs", "inputs");
    print_ports(tags, "outputs", "outputs");
    printf("memory      %.1f MiB of weights, %.1f MiB of activations, %.1f MiB of workspace\n",
           mib(memory, "weights"), mib(memory, "arena"), mib(memory, "workspace"));
    printf("steps       %zu\n", json_array_size(json_object_get(tags, "steps")));
    if (steps) print_steps(json_object_get(tags, "steps"));
}

qb_status qb_engine_file_show(qb_ctx *cx, const qb_common *common, bool steps, const char *path) {
    char *tags;
    QB_TRY(qb_engine_file_tags(cx, path, &tags));
    json_t *root = json_loads(tags, JSON_REJECT_DUPLICATES, NULL);
    qb_free(tags);
    if (!json_is_object(root)) {
        json_decref(root);
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: the tags are no JSON object", path);
    }
    if (!qb_json_on_stdout(common)) print(root, steps);
    return qb_json_out(cx, common, root);
}
