/* What an earlier search measured, for the layers of a comparison. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json_clean.h"
#include "base/strbuf.h"
#include "cli/stages/stages_internal.h"

#define SEARCH_MAX ((size_t)64 << 20)

static double number_of(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* A search of this very model; NULL where there is none. What cannot be read is none. */
static json_t *load_search(qb_ctx *cx, const qb_run *run, const char *path) {
    char *text, hash[33];
    size_t size;
    if (!qb_path_exists(path)) return NULL;
    if (qb_file_read(cx, path, SEARCH_MAX, &text, &size) != QB_OK) {
        qb_ctx_clear(cx);
        return NULL;
    }
    json_t *root = json_loadb(text, size, 0, NULL);
    const char *schema = json_string_value(json_object_get(root, "schema")),
               *model = json_string_value(json_object_get(root, "model_hash"));
    qb_free(text);
    qb_hash_hex(run->model_hash, hash);
    if (schema && model && qb_json_clean(root) && strcmp(schema, "qbench.search/1") == 0 &&
        strcmp(model, hash) == 0)
        return root;
    json_decref(root);
    return NULL;
}

/* The group's accuracy when it alone is float. */
static void fill_layers(const json_t *groups, qb_run_row *row) {
    size_t i;
    const json_t *group;
    json_array_foreach(groups, i, group) {
        const char *value = json_string_value(json_object_get(group, "value"));
        const json_t *alone = json_object_get(group, "float_alone");
        for (int32_t l = 0; value && l < row->n_layers; l++) {
            if (strcmp(row->layer[l].value, value) != 0) continue;
            row->layer[l].float_db = number_of(alone, "sqnr_db");
            row->layer[l].float_drop = number_of(alone, "drop");
        }
    }
}

static void add_names(qb_strbuf *text, const json_t *list) {
    size_t i;
    const json_t *name;
    json_array_foreach(list, i, name) if (json_is_string(name))
        qb_strbuf_addf(text, "%s%s", i > 0 ? ", " : ": ", json_string_value(name));
}

static void add_accuracy(qb_strbuf *text, const json_t *point, const char *metric) {
    const double drop = number_of(point, "drop"), agreement = number_of(point, "agreement");
    if (metric && !isnan(drop)) qb_strbuf_addf(text, "%.2f points of %s lost, ", drop, metric);
    if (!isnan(agreement)) qb_strbuf_addf(text, "agreement %.2f %%, ", agreement);
}

/* "measured by qbench search: 1 group in f32 (a): 0.11 points of AP lost, 1.02 times the latency of
 * all integers (net.search.qbe)" */
static qb_status suggest(qb_ctx *cx, const json_t *root, const json_t *point, qb_run_row *row) {
    qb_strbuf text = {0};
    const json_t *floats = json_object_get(point, "float");
    const char *file = json_string_value(json_object_get(root, "engine")),
               *type = json_string_value(json_object_get(point, "float_type"));
    qb_strbuf_addf(&text, "measured by qbench search: %zu groups in %s", json_array_size(floats),
                   type ? type : "float");
    add_names(&text, floats);
    qb_strbuf_add(&text, "; ");
    add_accuracy(&text, point, json_string_value(json_object_get(root, "metric")));
    qb_strbuf_addf(&text, "%.3f times the latency of all integers", number_of(point, "ratio"));
    if (file) qb_strbuf_addf(&text, " (%s)", file);
    return qb_strbuf_take(cx, &text, &row->suggestion);
}

/* Rows of the ways that the search looked at. */
static qb_status fill_row(qb_ctx *cx, const json_t *root, qb_run_row *row) {
    size_t i;
    const json_t *point;
    json_array_foreach(json_object_get(root, "points"), i, point) {
        const char *way = json_string_value(json_object_get(point, "way"));
        if (!way || strcmp(way, row->precision) != 0) continue;
        fill_layers(json_object_get(root, "groups"), row);
        if (json_is_true(json_object_get(point, "picked"))) return suggest(cx, root, point, row);
    }
    return QB_OK;
}

qb_status qb_compare_suggest(qb_ctx *cx, const qb_project *project, qb_run *run) {
    QB_FREED char *path = QB_NEW(cx, qb_project_artifact(cx, project, "search.json"));
    json_auto_t *root = path ? load_search(cx, run, path) : NULL;
    for (int32_t r = 0; root && r < run->n_rows; r++)
        if (run->row[r].n_layers > 0) QB_TRY(fill_row(cx, root, &run->row[r]));
    return QB_OK;
}
