#include "cli/out/engine_file.h"

#include <string.h>

#include "base/file.h"
#include "base/shell.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "cli/out/steps.h"
#include "engine/file.h"

/* Whoever made the file chose what the tags are: also no strings where strings belong. */
static const char *word(const json_t *value) {
    const char *text = json_string_value(value);
    return text ? text : "-";
}

static const char *text(const json_t *object, const char *key) {
    return word(json_object_get(object, key));
}

static void print_ports(const json_t *tags, const char *key, const char *label) {
    const json_t *port;
    size_t i;
    json_array_foreach(json_object_get(tags, key), i, port)
        printf("%-11s %s %s %s\n", i == 0 ? label : "", text(port, "name"), text(port, "dtype"),
               text(port, "shape"));
}

static void print_plugins(const json_t *plugins) {
    const json_t *plugin;
    size_t i;
    json_array_foreach(plugins, i, plugin)
        printf("%-11s %s %s, ABI %d\n", i == 0 ? "plugins" : "", text(plugin, "name"),
               text(plugin, "version"), (int)json_integer_value(json_object_get(plugin, "abi")));
}

static void print_profiles(const json_t *profiles) {
    static const char *const bounds[] = {"min", "opt", "max"};
    size_t p, i;
    json_t *profile;
    const char *input;
    json_t *shape;
    json_array_foreach(profiles, p, profile) for (i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        printf("%-9s %zu %s", i == 0 ? "profile" : "", p, bounds[i]);
        json_object_foreach(json_object_get(profile, bounds[i]), input, shape)
            printf(" %s:%s", input, word(shape));
        printf("\n");
    }
}

/* "other versions, other hardware" */
static void print_compatible(const json_t *list) {
    const json_t *what;
    size_t i;
    if (json_array_size(list) > 0) printf("loads on    ");
    json_array_foreach(list, i, what)
        printf("%sother %s", i > 0 ? ", " : "",
               strcmp(word(what), "version") == 0 ? "versions" : "hardware");
    if (json_array_size(list) > 0) printf("\n");
}

static double mib(const json_t *memory, const char *key) {
    return (double)json_integer_value(json_object_get(memory, key)) / (1 << 20);
}

/* A processor counts where it runs some of the steps. */
static void print_target(const json_t *built) {
    const bool device = json_object_get(built, "device") != NULL;
    const int host = (int)json_integer_value(json_object_get(built, "host_steps"));
    printf("built for   %s: %s\n", text(built, "backend"),
           text(built, device ? "device" : "processor"));
    if (device) printf("driver      %s\n", text(built, "driver"));
    if (host > 0) printf("beside it   %d steps on %s\n", host, text(built, "processor"));
}

static void print(const json_t *tags, bool steps) {
    const json_t *built = json_object_get(tags, "built"), *memory = json_object_get(tags, "memory");
    printf("engine      %s of %s (%s)\n", text(tags, "precision"), text(tags, "model"),
           text(tags, "model_hash"));
    if (json_is_string(json_object_get(tags, "calibration")))
        printf("calibration %s, data %s\n", text(tags, "calibration"), text(tags, "data_hash"));
    if (json_is_string(json_object_get(tags, "prepared")))
        printf("prepared    %s\n", text(tags, "prepared"));
    printf("built by    qbench %s, %s, %d threads\n", text(built, "qbench"),
           text(built, "libraries"), (int)json_integer_value(json_object_get(built, "threads")));
    print_target(built);
    print_plugins(json_object_get(tags, "plugins"));
    print_compatible(json_object_get(tags, "compatible"));
    print_ports(tags, "inputs", "inputs");
    print_ports(tags, "outputs", "outputs");
    print_profiles(json_object_get(tags, "profiles"));
    printf("size        %" JSON_INTEGER_FORMAT " bytes in the file, %" JSON_INTEGER_FORMAT
           " in memory\n",
           json_integer_value(json_object_get(tags, "file_bytes")),
           json_integer_value(json_object_get(memory, "engine")));
    printf("memory      %.1f MiB of weights, %.1f MiB of activations, %.1f MiB of workspace: "
           "%.1f MiB at the peak\n",
           mib(memory, "weights"), mib(memory, "arena"), mib(memory, "workspace"),
           mib(memory, "weights") + mib(memory, "arena") + mib(memory, "workspace"));
    if (mib(memory, "lower_bound") > 0)
        printf("planned     %.1f MiB of activations, %.3f times the most that live at once\n",
               mib(memory, "planned"), mib(memory, "planned") / mib(memory, "lower_bound"));
    printf("steps       %zu\n", json_array_size(json_object_get(tags, "steps")));
    if (steps) qb_steps_print(json_object_get(tags, "steps"));
}

/* Was the plan chosen by measuring? Then building anew may choose another one. */
static bool is_measured(const json_t *tags) {
    return json_object_get(json_object_get(tags, "built"), "device") ||
           strncmp(text(tags, "precision"), "best", 4) == 0 ||
           strstr(text(tags, "options"), "--time-tactics");
}

/* The command that makes the file again; one with a measured plan realizes that plan. */
static qb_status print_command(qb_ctx *cx, const json_t *tags, const char *path) {
    QB_FREED char *command = NULL;
    QB_RELEASED(qb_strbuf_release) qb_strbuf plan = {0}, file = {0};
    QB_TRY(qb_engine_file_command(cx, path, &command));
    qb_shell_add_word(&file, QB_SHOWN(path));
    qb_strbuf_addf(&plan, "%s.plan.json", QB_SHOWN(path));
    printf("built with  ");
    if (is_measured(tags) && !file.failed && !plan.failed) {
        qb_strbuf word = {0};
        qb_shell_add_word(&word, plan.data);
        if (!word.failed)
            printf("qbench inspect %s --plan >%s && %s --plan=%s\n", file.data, word.data, command,
                   word.data);
        qb_strbuf_release(&word);
    } else {
        printf("%s\n", command);
    }
    return QB_OK;
}

qb_status qb_engine_file_json(qb_ctx *cx, const char *path, json_t **tags) {
    char *text;
    QB_TRY(qb_engine_file_tags(cx, path, &text));
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    qb_free(text);
    if (!json_is_object(root) || !qb_json_clean(root)) {
        json_decref(root);
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: the tags are no JSON object", path);
    }
    *tags = root;
    return QB_OK;
}

qb_status qb_engine_file_show(qb_ctx *cx, const qb_common *common, bool steps, const char *path) {
    json_t *root;
    QB_TRY(qb_engine_file_json(cx, path, &root));
    json_object_set_new(root, "file_bytes", json_integer(qb_file_bytes(path)));
    if (!qb_json_on_stdout(common)) {
        print(root, steps);
        if (print_command(cx, root, path) != QB_OK) {
            json_decref(root);
            return cx->code;
        }
    }
    return qb_json_out(cx, common, root);
}
