/* Plans as JSON text. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_clean.h"
#include "engine/plan/plan_internal.h"
#include "kernels/sources.h"

#define ROWS_MAX 1000000
#define THREADS_MAX 4096
#define FLOATS JSON_REAL_PRECISION(12)
#define FILE_MAX ((size_t)256 << 20)

/* What a member of a struct is in JSON. A key that is left out reads as 0, and 0 is left out. */
typedef enum kind {
    TEXT,
    FLAG,
    INT,    /* int32_t */
    LARGE,  /* int64_t, size_t */
    MICROS, /* seconds, in microseconds as the timing cache has them, to read as what they were */
    TYPE,   /* qb_dtype */
    SPACE,  /* bool: "device", else "host" */
    NESTED  /* read and written elsewhere */
} kind;

typedef struct field {
    const char *key;
    kind kind;
    bool needed; /* never left out */
    size_t offset;
} field;

#define FIELD(type, key, kind, needed, member)                                                     \
    { key, kind, needed, offsetof(type, member) }

static const field spec_fields[] = {
    FIELD(qb_build_spec, "backends", TEXT, true, backends),
    FIELD(qb_build_spec, "float_type", TYPE, true, float_type),
    FIELD(qb_build_spec, "tf32", FLAG, true, tf32),
    FIELD(qb_build_spec, "no_mixed_precision", FLAG, true, no_mixed_precision),
    FIELD(qb_build_spec, "excluded_sources", INT, true, excluded_sources),
    FIELD(qb_build_spec, "workspace_limit", LARGE, true, workspace_limit),
    FIELD(qb_build_spec, "threads", INT, true, threads),
    FIELD(qb_build_spec, "time_tactics", FLAG, true, time_tactics),
    FIELD(qb_build_spec, "first_tactic", FLAG, true, first_tactic),
    {NULL},
};
static const field row_fields[] = {
    FIELD(qb_plan_row, "value", TEXT, true, value),
    FIELD(qb_plan_row, "op", TEXT, true, op),
    FIELD(qb_plan_row, "space", SPACE, true, on_device),
    FIELD(qb_plan_row, "precision", TYPE, true, precision),
    FIELD(qb_plan_row, "tactic", TEXT, true, tactic),
    FIELD(qb_plan_row, "variant", INT, false, variant),
    FIELD(qb_plan_row, "copy", FLAG, false, is_copy),
    FIELD(qb_plan_row, "inputs", NESTED, false, in),
    FIELD(qb_plan_row, "output", NESTED, false, out),
    FIELD(qb_plan_row, "fuses", TEXT, false, fuses),
    FIELD(qb_plan_row, "us", MICROS, false, seconds),
    FIELD(qb_plan_row, "alternatives", NESTED, false, alternatives),
    FIELD(qb_plan_row, "fallback_reason", TEXT, false, fallback_reason),
    FIELD(qb_plan_row, "f16_reason", TEXT, false, f16_reason),
    FIELD(qb_plan_row, "fuse_reason", TEXT, false, fuse_reason),
    FIELD(qb_plan_row, "tactic_reason", TEXT, false, tactic_reason),
    FIELD(qb_plan_row, "note", TEXT, false, note),
    {NULL},
};
static const field alternative_fields[] = {
    FIELD(qb_step_alternative, "tactic", TEXT, true, tactic),
    FIELD(qb_step_alternative, "variant", INT, false, variant),
    FIELD(qb_step_alternative, "same_layouts", FLAG, false, same_layouts),
    FIELD(qb_step_alternative, "us", MICROS, false, seconds),
    {NULL},
};
static const field table_fields[] = {
    FIELD(qb_plan_table, "parts", LARGE, true, parts),
    FIELD(qb_plan_table, "rows", NESTED, false, rows),
    {NULL},
};

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *shape_json(const qb_shape *shape) {
    json_t *list = json_array();
    for (int32_t d = 0; d < shape->rank; d++)
        json_array_append_new(list, json_integer((json_int_t)shape->dim[d]));
    return list;
}

/* For each input the shapes of all profiles, or its only one. */
static json_t *inputs_json(const qb_plan *plan, const char *const *names) {
    json_t *list = json_array();
    for (int32_t i = 0; i < plan->n_inputs; i++) {
        json_t *input = json_object(), *profiles = json_array();
        json_object_set_new(input, "name", json_string(names[i]));
        for (int32_t p = 0; p < plan->spec.n_profiles; p++) {
            const qb_profile *profile = &plan->spec.profiles[p];
            json_array_append_new(profiles,
                                  json_pack("{s:o, s:o, s:o}", "min", shape_json(&profile->min[i]),
                                            "opt", shape_json(&profile->opt[i]), "max",
                                            shape_json(&profile->max[i])));
        }
        if (plan->spec.n_profiles > 0)
            json_object_set(input, "profiles", profiles);
        else
            json_object_set_new(input, "shape", shape_json(&plan->spec.input_shapes[i]));
        json_decref(profiles);
        json_array_append_new(list, input);
    }
    return list;
}

static json_t *layout_json(const qb_plan_layout *layout) {
    char text[96];
    if (layout->dtype == QB_DTYPE_NONE) return json_null();
    return json_string(qb_plan_layout_text(layout, text, sizeof text));
}

static json_t *field_json(const field *f, const void *at) {
    char text[64];
    switch (f->kind) {
    case TEXT: return *(const char *const *)at ? json_string(*(const char *const *)at) : NULL;
    case FLAG: return *(const bool *)at || f->needed ? json_boolean(*(const bool *)at) : NULL;
    case INT: return *(const int32_t *)at || f->needed ? json_integer(*(const int32_t *)at) : NULL;
    case LARGE: return json_integer((json_int_t) * (const int64_t *)at);
    case TYPE: return json_string(qb_dtype_text(*(const qb_dtype *)at));
    case SPACE: return json_string(*(const bool *)at ? "device" : "host");
    case MICROS:
        snprintf(text, sizeof text, "%.3f", *(const double *)at * 1e6);
        return *(const double *)at > 0 ? json_real(strtod(text, NULL)) : NULL;
    case NESTED: break;
    }
    return NULL;
}

/* Strings that are no UTF-8 leave their key out, which a `needed` one then misses. */
static json_t *fields_json(const field *fields, const void *from) {
    json_t *object = json_object();
    for (const field *f = fields; f->key; f++) {
        json_t *value = field_json(f, (const char *)from + f->offset);
        if (value) json_object_set_new_nocheck(object, f->key, value);
        if (value || !f->needed) continue;
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *row_json(const qb_plan_row *row) {
    json_t *object = fields_json(row_fields, row), *in = json_array(), *others = json_array();
    for (int32_t i = 0; i < row->n_in; i++) json_array_append_new(in, layout_json(&row->in[i]));
    for (int32_t i = 0; i < row->n_alternatives; i++)
        json_array_append_new(others, fields_json(alternative_fields, &row->alternatives[i]));
    if (row->n_in > 0) json_object_set(object, "inputs", in);
    if (row->out.dtype != QB_DTYPE_NONE)
        json_object_set_new(object, "output", layout_json(&row->out));
    if (row->n_alternatives > 0) json_object_set(object, "alternatives", others);
    json_decref(in);
    json_decref(others);
    return object;
}

static json_t *table_json(const qb_plan_table *table) {
    json_t *rows = json_array();
    for (int32_t i = 0; i < table->n_rows; i++)
        if (json_array_append_new(rows, row_json(&table->rows[i])) != 0) {
            json_decref(rows);
            return NULL;
        }
    json_t *object = fields_json(table_fields, table);
    json_object_set_new(object, "rows", rows);
    return object;
}

qb_status qb_plan_write(qb_ctx *cx, const qb_plan *plan, const char *const *names, qb_strbuf *out) {
    json_t *tables = json_array();
    bool whole = true;
    for (int32_t i = 0; i < plan->n_tables; i++)
        whole = json_array_append_new(tables, table_json(&plan->table[i])) == 0 && whole;
    json_t *root =
        json_pack("{s:s, s:o, s:b, s:o, s:o}", "schema", QB_PLAN_SCHEMA, "spec",
                  fields_json(spec_fields, &plan->spec), "dequantized", plan->dequantized, "inputs",
                  inputs_json(plan, names), "tables", tables);
    char *text = root && whole ? json_dumps(root, JSON_COMPACT | FLOATS) : NULL;
    if (text) qb_strbuf_add(out, text);
    free(text);
    json_decref(root);
    if (!text) return qb_fail(cx, QB_STATUS_INVALID, "a name of the model is not UTF-8");
    return out->failed ? qb_fail(cx, QB_STATUS_NOMEM, "out of memory") : QB_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    qb_ctx *cx;
    const char *path;
    const char *value; /* of the row at hand; NULL: none is */
    qb_plan *plan;
} reader;

static qb_status QB_PRINTF(2, 3) bad(const reader *r, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return r->value
               ? qb_fail(r->cx, QB_STATUS_FORMAT, "%s: plan: row '%s': %s", r->path, r->value, text)
               : qb_fail(r->cx, QB_STATUS_FORMAT, "%s: plan: %s", r->path, text);
}

static qb_status read_dtype(const reader *r, const char *text, size_t n, qb_dtype *out) {
    for (int t = QB_DTYPE_NONE; t < QB_DTYPE_COUNT; t++) {
        const char *name = qb_dtype_text((qb_dtype)t);
        if (strlen(name) != n || memcmp(name, text, n) != 0) continue;
        *out = (qb_dtype)t;
        return QB_OK;
    }
    return bad(r, "'%.*s' is no type", (int)n, text);
}

static qb_status read_layout(const reader *r, const json_t *json, qb_plan_layout *out) {
    const char *text = json_string_value(json);
    long long offset, total;
    int end = 0;
    *out = (qb_plan_layout){.dtype = QB_DTYPE_NONE};
    if (json_is_null(json)) return QB_OK;
    const char *colon = text ? strchr(text, ':') : NULL;
    if (!colon) return bad(r, "expected a layout such as \"u8:nhwc\"");
    QB_TRY(read_dtype(r, text, (size_t)(colon - text), &out->dtype));
    const size_t n = strcspn(colon + 1, "@");
    const char *slice = colon + 1 + n;
    if (*slice) {
        if (sscanf(slice, "@%lld/%lld%n", &offset, &total, &end) != 2 || slice[end] || offset < 0 ||
            total <= offset)
            return bad(r, "'%s' is no slice of channels", text);
        out->channel_offset = offset;
        out->channel_total = total;
    }
    for (int l = QB_LAYOUT_ROW; l <= QB_LAYOUT_ANY; l++) {
        const char *name = qb_layout_text((qb_layout)l);
        out->layout = (qb_layout)l;
        if (strlen(name) == n && memcmp(name, colon + 1, n) == 0) return QB_OK;
    }
    return bad(r, "'%s' is no layout", text);
}

static qb_status read_field(const reader *r, const field *f, const json_t *json, void *at) {
    const char *text = json_string_value(json);
    const bool number = json_is_integer(json), large = f->kind == LARGE;
    const json_int_t integer = json_integer_value(json);
    switch (f->kind) {
    case TEXT:
        if (!text) return bad(r, "'%s': expected a text", f->key);
        memcpy(at, &text, sizeof text);
        return QB_OK;
    case FLAG:
        if (!json_is_boolean(json)) return bad(r, "'%s': expected true or false", f->key);
        *(bool *)at = json_is_true(json);
        return QB_OK;
    case INT:
    case LARGE:
        if (!number || integer < 0 || (!large && integer > INT32_MAX))
            return bad(r, "'%s': expected a number from 0", f->key);
        if (large)
            *(int64_t *)at = integer;
        else
            *(int32_t *)at = (int32_t)integer;
        return QB_OK;
    case MICROS:
        if (!json_is_number(json) || json_number_value(json) < 0)
            return bad(r, "'%s': expected microseconds", f->key);
        *(double *)at = json_number_value(json) * 1e-6;
        return QB_OK;
    case TYPE:
        if (!text) return bad(r, "'%s': expected a type", f->key);
        return read_dtype(r, text, strlen(text), at);
    case SPACE:
        *(bool *)at = text && strcmp(text, "device") == 0;
        if (*(bool *)at || (text && strcmp(text, "host") == 0)) return QB_OK;
        return bad(r, "'%s': expected host or device", f->key);
    case NESTED: break;
    }
    return QB_OK;
}

/* Texts stay in the JSON. */
static qb_status read_fields(const reader *r, const field *fields, const json_t *json, void *to) {
    const char *key;
    json_t *value;
    if (!json_is_object(json)) return bad(r, "expected an object");
    json_object_foreach((json_t *)json, key, value) {
        const field *f = fields;
        while (f->key && strcmp(f->key, key) != 0) f++;
        if (!f->key) return bad(r, "unknown key '%s'", key);
        QB_TRY(read_field(r, f, value, (char *)to + f->offset));
    }
    for (const field *f = fields; f->key; f++)
        if (f->needed && !json_object_get(json, f->key)) return bad(r, "'%s' is missing", f->key);
    return QB_OK;
}

static qb_status read_row(reader *r, const json_t *json, qb_plan_table *table) {
    qb_plan_row row = {0};
    const json_t *in = json_object_get(json, "inputs"), *out = json_object_get(json, "output"),
                 *others = json_object_get(json, "alternatives");
    const size_t n_in = json_array_size(in), n = json_array_size(others);
    qb_plan_layout layouts[QB_MAX_INPUTS];
    r->value = json_string_value(json_object_get(json, "value"));
    QB_TRY(read_fields(r, row_fields, json, &row));
    if (n_in > QB_MAX_INPUTS || (row.is_copy && n_in != 1)) return bad(r, "%zu inputs", n_in);
    for (size_t i = 0; i < n_in; i++) QB_TRY(read_layout(r, json_array_get(in, i), &layouts[i]));
    if (out) QB_TRY(read_layout(r, out, &row.out));
    QB_FREED qb_step_alternative *all = QB_NEW(r->cx, qb_alloc(r->cx, n, sizeof *all));
    for (size_t i = 0; i < n; i++)
        QB_TRY(read_fields(r, alternative_fields, json_array_get(others, i), &all[i]));
    row.in = layouts;
    row.n_in = (int32_t)n_in;
    row.alternatives = all;
    row.n_alternatives = (int32_t)n;
    r->value = NULL;
    return qb_plan_add(r->cx, r->plan, table, &row, NULL);
}

static qb_status read_table(reader *r, const json_t *json, qb_plan_table *table) {
    const json_t *rows = json_object_get(json, "rows");
    QB_TRY(read_fields(r, table_fields, json, table));
    if (table->parts < 1 || table->n_rows || json_array_size(rows) > ROWS_MAX)
        return bad(r, "a table of %zu rows in %lld parts", json_array_size(rows),
                   (long long)table->parts);
    for (size_t i = 0; i < json_array_size(rows); i++)
        QB_TRY(read_row(r, json_array_get(rows, i), table));
    return QB_OK;
}

static qb_status read_shape(const reader *r, const json_t *json, qb_shape *out) {
    const size_t rank = json_array_size(json);
    if (!json_is_array(json) || rank > QB_MAX_RANK) return bad(r, "a shape of an input");
    out->rank = (int32_t)rank;
    for (size_t d = 0; d < rank; d++) {
        const json_t *size = json_array_get(json, d);
        if (!json_is_integer(size)) return bad(r, "a shape of an input");
        out->dim[d] = json_integer_value(size);
    }
    return QB_OK;
}

static qb_shape *shapes(const reader *r) {
    return qb_arena_alloc(r->cx, r->plan->arena, (size_t)r->plan->n_inputs, sizeof(qb_shape));
}

/* The shapes of one profile: min, opt and max of all inputs. */
static qb_status read_profile(const reader *r, const json_t *inputs, int32_t p, qb_profile *out) {
    qb_shape *side[3];
    static const char *const keys[3] = {"min", "opt", "max"};
    for (int k = 0; k < 3; k++)
        if (!(side[k] = shapes(r))) return r->cx->code;
    for (int32_t i = 0; i < r->plan->n_inputs; i++) {
        const json_t *profiles = json_object_get(json_array_get(inputs, (size_t)i), "profiles");
        if (json_array_size(profiles) != (size_t)r->plan->spec.n_profiles)
            return bad(r, "each input has as many profiles");
        const json_t *profile = json_array_get(profiles, (size_t)p);
        for (int k = 0; k < 3; k++)
            QB_TRY(read_shape(r, json_object_get(profile, keys[k]), &side[k][i]));
    }
    *out = (qb_profile){side[0], side[1], side[2]};
    return QB_OK;
}

static qb_status read_inputs(const reader *r, const json_t *inputs) {
    qb_plan *plan = r->plan;
    const size_t n_profiles =
        json_array_size(json_object_get(json_array_get(inputs, 0), "profiles"));
    plan->n_inputs = (int32_t)json_array_size(inputs);
    if (n_profiles > QB_PROFILES_MAX) return bad(r, "%zu profiles", n_profiles);
    plan->spec.n_profiles = (int32_t)n_profiles;
    if (n_profiles == 0) {
        qb_shape *all = QB_NEW(r->cx, shapes(r));
        for (int32_t i = 0; i < plan->n_inputs; i++) {
            const json_t *input = json_array_get(inputs, (size_t)i);
            QB_TRY(read_shape(r, json_object_get(input, "shape"), &all[i]));
        }
        plan->spec.input_shapes = all;
        return QB_OK;
    }
    qb_profile *profiles = qb_arena_alloc(r->cx, plan->arena, n_profiles, sizeof *profiles);
    if (!profiles) return r->cx->code;
    plan->spec.profiles = profiles;
    for (int32_t p = 0; p < plan->spec.n_profiles; p++)
        QB_TRY(read_profile(r, inputs, p, &profiles[p]));
    return QB_OK;
}

static qb_status read_spec(const reader *r, const json_t *json) {
    qb_build_spec *s = &r->plan->spec;
    QB_TRY(read_fields(r, spec_fields, json, s));
    QB_TRY_NEW(r->cx, s->backends = qb_arena_strdup(r->cx, r->plan->arena, s->backends));
    if (s->float_type != QB_DTYPE_F32 && s->float_type != QB_DTYPE_F16 &&
        s->float_type != QB_DTYPE_BF16)
        return bad(r, "float type %s", qb_dtype_text(s->float_type));
    if (s->excluded_sources > QB_SOURCES_ALL)
        return bad(r, "excluded_sources: expected at most %d, got %d", QB_SOURCES_ALL,
                   (int)s->excluded_sources);
    if (s->threads < 1 || s->threads > THREADS_MAX)
        return bad(r, "threads: expected 1 to %d, got %d", THREADS_MAX, (int)s->threads);
    return QB_OK;
}

static qb_status read_root(reader *r, json_t *root) {
    qb_plan *plan = r->plan;
    const char *schema;
    json_t *spec, *inputs, *tables;
    int dequantized;
    json_error_t error;
    if (json_unpack_ex(root, &error, JSON_STRICT, "{s:s, s:o, s:b, s:o, s:o}", "schema", &schema,
                       "spec", &spec, "dequantized", &dequantized, "inputs", &inputs, "tables",
                       &tables) != 0)
        return bad(r, "%s", error.text);
    if (strcmp(schema, QB_PLAN_SCHEMA) != 0)
        return bad(r, "schema '%s': expected '" QB_PLAN_SCHEMA "'", schema);
    plan->dequantized = dequantized;
    QB_TRY(read_spec(r, spec));
    QB_TRY(read_inputs(r, inputs));
    plan->n_tables = plan->spec.n_profiles > 0 ? plan->spec.n_profiles : 1;
    if (json_array_size(tables) != (size_t)plan->n_tables)
        return bad(r, "%zu tables: expected %d", json_array_size(tables), (int)plan->n_tables);
    for (int32_t i = 0; i < plan->n_tables; i++)
        QB_TRY(read_table(r, json_array_get(tables, (size_t)i), &plan->table[i]));
    return QB_OK;
}

qb_status qb_plan_read(qb_ctx *cx, const char *path, const char *text, size_t size, qb_plan **out) {
    QB_RELEASED(qb_plan_free_at) qb_plan *plan = NULL;
    const qb_build_spec empty = {0};
    json_error_t error;
    json_auto_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: plan: line %d: %s", path, error.line, error.text);
    if (!qb_json_clean(root)) return qb_fail(cx, QB_STATUS_NOMEM, "%s: out of memory", path);
    QB_TRY(qb_plan_create(cx, &empty, 0, &plan));
    reader r = {.cx = cx, .path = path, .plan = plan};
    QB_TRY(read_root(&r, root));
    *out = QB_MOVE(plan);
    return QB_OK;
}

qb_status qb_plan_load(qb_ctx *cx, const char *path, qb_plan **out) {
    QB_FREED char *text = NULL;
    size_t size;
    QB_TRY(qb_file_read(cx, path, FILE_MAX, &text, &size));
    return qb_plan_read(cx, path, text, size, out);
}

qb_status qb_plan_indent(qb_ctx *cx, const char *path, const char *text, size_t size, char **out) {
    json_t *root = json_loadb(text, size, 0, NULL);
    char *indented = root && qb_json_clean(root) ? json_dumps(root, JSON_INDENT(1) | FLOATS) : NULL;
    *out = indented ? qb_format(cx, "%s\n", indented) : NULL;
    if (!indented) qb_fail(cx, QB_STATUS_FORMAT, "%s: plan: no JSON", path);
    free(indented);
    json_decref(root);
    return *out ? QB_OK : cx->code;
}
