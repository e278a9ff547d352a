/* From the plan of an engine back to what it chose. */
#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "search/space.h"

#define PLAN_MAX ((size_t)64 << 20)

/* Does the row read quantized values? "u8:nhwc" */
static bool reads_integers(const json_t *row) {
    static const qb_dtype types[] = {QB_DTYPE_U8, QB_DTYPE_S8};
    size_t i;
    const json_t *input;
    json_array_foreach(json_object_get(row, "inputs"), i, input) {
        const char *text = json_string_value(input);
        for (size_t t = 0; text && t < sizeof types / sizeof *types; t++) {
            const char *type = qb_dtype_text(types[t]);
            if (strncmp(text, type, strlen(type)) == 0 && text[strlen(type)] == ':') return true;
        }
    }
    return false;
}

/* The row of the group that makes the value; NULL. Of several that copy it none counts. */
static const json_t *row_of(const json_t *rows, const char *value) {
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        const char *name = json_string_value(json_object_get(row, "value"));
        if (name && strcmp(name, value) == 0 && !json_is_true(json_object_get(row, "copy")))
            return row;
    }
    return NULL;
}

static qb_status read_floats(qb_ctx *cx, const char *path, const json_t *plan, qb_dtype *out) {
    static const qb_dtype types[] = {QB_DTYPE_F32, QB_DTYPE_BF16, QB_DTYPE_F16};
    const char *text =
        json_string_value(json_object_get(json_object_get(plan, "spec"), "float_type"));
    for (size_t i = 0; text && i < sizeof types / sizeof *types; i++)
        if (strcmp(text, qb_dtype_text(types[i])) == 0) {
            *out = types[i];
            return QB_OK;
        }
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: plan: spec.float_type: expected f32, bf16 or f16",
                   path);
}

static qb_status read_choice(qb_ctx *cx, const char *path, const json_t *plan,
                             const qb_space *space, qb_alternative *out) {
    const json_t *table = json_array_get(json_object_get(plan, "tables"), 0);
    const json_t *rows = json_object_get(table, "rows");
    if (!json_is_array(rows))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: plan: tables[0].rows: expected a list", path);
    QB_TRY(read_floats(cx, path, plan, &out->floats));
    for (int32_t g = 0; g < space->n; g++) {
        const json_t *row = row_of(rows, space->group[g].value);
        out->is_float[g] = row && !reads_integers(row);
    }
    return QB_OK;
}

qb_status qb_plan_choice(qb_ctx *cx, const char *path, const qb_space *space, qb_alternative *out) {
    QB_FREED char *text = NULL;
    size_t size;
    json_error_t error;
    QB_FREED bool *is_float = QB_NEW(cx, qb_alloc(cx, (size_t)space->n, sizeof(bool)));
    qb_alternative choice = {.is_float = is_float};
    QB_TRY(qb_file_read(cx, path, PLAN_MAX, &text, &size));
    json_auto_t *plan = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!plan)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: line %d: %s", path, error.line, error.text);
    QB_TRY(read_choice(cx, path, plan, space, &choice));
    is_float = NULL;
    *out = choice;
    return QB_OK;
}
