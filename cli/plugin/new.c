/* qbench plugin new: a folder with a plugin that compiles, and a model to try it with. The texts
 * are those of examples/plugins/skeleton, with the plugin's name in place of theirs. */
#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "cli/out/json.h"
#include "cli/plugin/skeleton.h"
#include "graph/op.h"

#define LONGEST 48

typedef struct options {
    qb_common common;
    bool cuda;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_FLAG(options, "cuda", cuda, "the operator runs on a GPU as well: a kernel in NAME.cu"),
    {0},
};

static bool is_name(const char *name) {
    const size_t n = strlen(name);
    if (n == 0 || n > LONGEST || !islower((unsigned char)name[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) && name[i] != '_')
            return false;
    return true;
}

/* "grid_sampler" -> "GridSampler": what the operator is called. */
static void camel_case(const char *name, char out[LONGEST + 1]) {
    bool upper = true;
    for (; *name; name++) {
        if (*name != '_') *out++ = (char)(upper ? toupper((unsigned char)*name) : *name);
        upper = *name == '_';
    }
    *out = '\0';
}

/* The text with "skeleton" and "Skeleton" replaced. */
static qb_status write_text(qb_ctx *cx, const char *folder, const char *file, const char *text,
                            size_t size, const char *name, const char *op) {
    static const size_t n = sizeof "skeleton" - 1;
    QB_RELEASED(qb_strbuf_release) qb_strbuf out = {0};
    for (size_t i = 0; i < size;) {
        const bool fits = size - i >= n;
        if (fits && memcmp(text + i, "skeleton", n) == 0)
            qb_strbuf_add(&out, name), i += n;
        else if (fits && memcmp(text + i, "Skeleton", n) == 0)
            qb_strbuf_add(&out, op), i += n;
        else
            qb_strbuf_addn(&out, text + i++, 1);
    }
    QB_FREED char *path = out.failed ? NULL : qb_path_join(cx, folder, file);
    return path ? qb_file_write(cx, path, out.data, out.size)
                : qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
}

/* The operator's row is made up here: the plugin is not compiled yet. */
static qb_op make_row(const char *op, const char *domain) {
    static const qb_attr_desc attrs[] = {
        {.name = "factor", .type = QB_ATTR_FLOAT, .default_float = 1}, {0}};
    return (qb_op){.name = op,
                   .domain = domain,
                   .since = 1,
                   .min_in = 1,
                   .max_in = 1,
                   .min_out = 1,
                   .max_out = 1,
                   .attr_size = sizeof(float),
                   .attrs = attrs,
                   .weight_input = -1};
}

/* x [N, 3, 8, 8] -> the operator -> y; the graph refers to the row. */
static qb_status make_model(qb_ctx *cx, const qb_op *row, qb_graph *graph) {
    const qb_shape shape = {4, {qb_graph_add_symbol(cx, graph, "N"), 3, 8, 8}};
    const int32_t x = qb_graph_add_value(cx, graph, "x", QB_DTYPE_F32, &shape);
    const int32_t y = qb_graph_add_value(cx, graph, "y", QB_DTYPE_F32, &shape);
    if (x < 0 || y < 0) return cx->code;
    QB_TRY(qb_graph_add_input(cx, graph, x));
    QB_TRY(qb_graph_add_output(cx, graph, y));
    const int32_t node = qb_graph_add_node(cx, graph, row, row->name, &x, 1, &y, 1);
    if (node < 0) return cx->code;
    *(float *)graph->nodes[node].attrs = 2;
    return QB_OK;
}

static qb_status write_model(qb_ctx *cx, const char *folder, const char *name, const char *op) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_FREED char *path = qb_path_join(cx, folder, "test.onnx");
    QB_FREED char *domain = QB_NEW(cx, path ? qb_format(cx, "com.example.%s", name) : NULL);
    QB_TRY(qb_graph_create(cx, &graph));
    graph->name = name;
    const qb_op row = make_row(op, domain);
    QB_TRY(make_model(cx, &row, graph));
    return qb_onnx_save(cx, graph, path);
}

static qb_status write_all(qb_ctx *cx, const char *folder, const char *name, bool cuda) {
    char op[LONGEST + 1], source[LONGEST + 8];
    camel_case(name, op);
    snprintf(source, sizeof source, "%s.c", name);
    QB_TRY(qb_make_dirs(cx, folder));
    QB_TRY(write_text(cx, folder, source, qb_skeleton_c, qb_skeleton_c_size, name, op));
    snprintf(source, sizeof source, "%s.cu", name);
    if (cuda) QB_TRY(write_text(cx, folder, source, qb_skeleton_cu, qb_skeleton_cu_size, name, op));
    QB_TRY(write_text(cx, folder, "CMakeLists.txt", qb_skeleton_cmake, qb_skeleton_cmake_size, name,
                      op));
    return write_model(cx, folder, name, op);
}

static void print_next(const char *folder, const char *name, bool cuda) {
    printf("%s: %s.c, ", folder, name);
    if (cuda) printf("%s.cu, ", name);
    printf("CMakeLists.txt, test.onnx\n\n"
           "  cmake -S %s -B %s/build && cmake --build %s/build\n"
           "  qbench plugin inspect %s/build/%s.so\n"
           "  qbench inspect %s/test.onnx --steps --plugin %s/build/%s.so%s\n",
           folder, folder, folder, folder, name, folder, folder, name,
           cuda ? " --providers cuda,cpu" : "");
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    const char *name = arguments->n > 0 ? arguments->item[0] : "";
    const char *folder = o->common.out ? o->common.out : name;
    if (!is_name(name))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "plugin new: expected a name of small letters, digits and '_', got '%s'",
                       name);
    if (qb_path_exists(folder))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "%s is there already: remove it, or choose another name", folder);
    QB_TRY(write_all(cx, folder, name, o->cuda));
    if (!qb_json_on_stdout(&o->common)) print_next(folder, name, o->cuda);
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:s, s:o}", "schema", "qbench.plugin-new/1", "name", name,
                                 "folder", qb_json_text(folder)));
}

const qb_command qb_plugin_command_new = {
    .name = "plugin new",
    .usage = "NAME [options]",
    .summary = "write a folder with a plugin that compiles and a model for it",
    .notes = "-o: the folder (default: NAME). The guide is docs/guides/plugins.md.",
    .example = "qbench plugin new grid_sampler",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
