/* json_check SCHEMA.json FILE.json...: does each file fit the JSON Schema (draft 2020-12, the
 * keywords below)? Stricter than a schema's user has to be: a key that `properties` does not name
 * is an error unless additionalProperties allows it, so that no key stays undocumented; and so is a
 * keyword that this program does not know, so that none stands in a schema without being checked.
 * Exit code: 0 all fit, 1 one does not, 2 nothing could be checked. */
#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const json_t *root; /* the schema */
    const char *file;   /* at hand */
    bool quiet;         /* trying an alternative of anyOf */
    int errors;
    char path[1024]; /* of the value at hand: "/rows/0/top1" */
} checker;

static void check(checker *c, const json_t *schema, const json_t *value);

/* jansson's iterators take no const; nothing here is changed. */
static json_t *mutable(const json_t *value) { return (json_t *)(uintptr_t)value; }

__attribute__((format(printf, 2, 3))) static void complain(checker *c, const char *format, ...) {
    c->errors++;
    if (c->quiet) return;
    va_list args;
    va_start(args, format);
    printf("%s: %s: ", c->file, c->path[0] ? c->path : "/");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* Checks a member of the value at hand under its longer path. */
static void check_member(checker *c, const json_t *schema, const json_t *value, const char *name) {
    const size_t length = strlen(c->path);
    snprintf(c->path + length, sizeof c->path - length, "/%s", name);
    check(c, schema, value);
    c->path[length] = '\0';
}

static bool has_type(const json_t *value, const char *type) {
    if (strcmp(type, "object") == 0) return json_is_object(value);
    if (strcmp(type, "array") == 0) return json_is_array(value);
    if (strcmp(type, "string") == 0) return json_is_string(value);
    if (strcmp(type, "number") == 0) return json_is_number(value);
    if (strcmp(type, "integer") == 0) return json_is_integer(value);
    if (strcmp(type, "boolean") == 0) return json_is_boolean(value);
    return strcmp(type, "null") == 0 && json_is_null(value);
}

/* ---- keywords: each checks a value that may be of another type than the keyword is about ---- */

static void on_type(checker *c, const json_t *type, const json_t *value) {
    size_t i;
    const json_t *one;
    bool fits = json_is_string(type) && has_type(value, json_string_value(type));
    json_array_foreach(type, i, one) fits = fits || has_type(value, json_string_value(one));
    if (fits) return;
    char *text = json_dumps(type, JSON_ENCODE_ANY), *seen = json_dumps(value, JSON_ENCODE_ANY);
    complain(c, "expected %s, got %.60s", text, seen);
    free(text);
    free(seen);
}

static void on_const(checker *c, const json_t *wanted, const json_t *value) {
    if (json_equal(wanted, value)) return;
    char *text = json_dumps(wanted, JSON_ENCODE_ANY);
    complain(c, "expected %s", text);
    free(text);
}

static void on_enum(checker *c, const json_t *list, const json_t *value) {
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one) if (json_equal(one, value)) return;
    char *seen = json_dumps(value, JSON_ENCODE_ANY);
    complain(c, "%.60s is none of the values listed", seen);
    free(seen);
}

static void on_properties(checker *c, const json_t *properties, const json_t *value) {
    const char *key;
    json_t *schema;
    json_object_foreach(mutable(properties), key, schema) {
        const json_t *member = json_object_get(value, key);
        if (member) check_member(c, schema, member, key);
    }
}

static void on_required(checker *c, const json_t *list, const json_t *value) {
    size_t i;
    const json_t *name;
    if (!json_is_object(value)) return;
    json_array_foreach(list, i, name) if (!json_object_get(value, json_string_value(name)))
        complain(c, "'%s' is missing", json_string_value(name));
}

static void on_items(checker *c, const json_t *schema, const json_t *value) {
    size_t i;
    const json_t *item;
    char number[24];
    json_array_foreach(value, i, item) {
        snprintf(number, sizeof number, "%zu", i);
        check_member(c, schema, item, number);
    }
}

static void on_min_items(checker *c, const json_t *n, const json_t *value) {
    if (json_is_array(value) && json_array_size(value) < (size_t)json_integer_value(n))
        complain(c, "too few items: %zu", json_array_size(value));
}

static void on_max_items(checker *c, const json_t *n, const json_t *value) {
    if (json_is_array(value) && json_array_size(value) > (size_t)json_integer_value(n))
        complain(c, "too many items: %zu", json_array_size(value));
}

static void on_minimum(checker *c, const json_t *least, const json_t *value) {
    if (json_is_number(value) && json_number_value(value) < json_number_value(least))
        complain(c, "%g is below %g", json_number_value(value), json_number_value(least));
}

static void on_maximum(checker *c, const json_t *most, const json_t *value) {
    if (json_is_number(value) && json_number_value(value) > json_number_value(most))
        complain(c, "%g is above %g", json_number_value(value), json_number_value(most));
}

static void on_pattern(checker *c, const json_t *pattern, const json_t *value) {
    regex_t regex;
    if (!json_is_string(value)) return;
    if (regcomp(&regex, json_string_value(pattern), REG_EXTENDED | REG_NOSUB) != 0) {
        complain(c, "the schema's pattern %s is none", json_string_value(pattern));
        return;
    }
    if (regexec(&regex, json_string_value(value), 0, NULL, 0) != 0)
        complain(c, "'%.60s' does not match %s", json_string_value(value),
                 json_string_value(pattern));
    regfree(&regex);
}

static void on_any_of(checker *c, const json_t *list, const json_t *value) {
    size_t i;
    const json_t *one;
    const bool quiet = c->quiet;
    const int errors = c->errors;
    bool fits = false;
    c->quiet = true;
    json_array_foreach(list, i, one) {
        c->errors = 0;
        check(c, one, value);
        fits = fits || c->errors == 0;
    }
    c->quiet = quiet;
    c->errors = errors;
    if (!fits) complain(c, "fits none of the alternatives");
}

/* "#/$defs/name" only. */
static void on_ref(checker *c, const json_t *reference, const json_t *value) {
    static const char prefix[] = "#/$defs/";
    const char *text = json_string_value(reference);
    const json_t *target = NULL;
    if (text && strncmp(text, prefix, sizeof prefix - 1) == 0)
        target = json_object_get(json_object_get(c->root, "$defs"), text + sizeof prefix - 1);
    if (target)
        check(c, target, value);
    else
        complain(c, "the schema lacks %s", text ? text : "a reference");
}

/* Keys that nothing names: the schema of additionalProperties, or an error. */
static void check_other_keys(checker *c, const json_t *schema, const json_t *value) {
    const json_t *named = json_object_get(schema, "properties"),
                 *other = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    if (!named && !other) return;
    json_object_foreach(mutable(value), key, member) {
        if (json_object_get(named, key)) continue;
        if (json_is_object(other))
            check_member(c, other, member, key);
        else if (!json_is_true(other))
            complain(c, "'%s' is not in the schema", key);
    }
}

static const struct keyword {
    const char *name;
    void (*check)(checker *c, const json_t *argument, const json_t *value); /* NULL: says nothing */
} keywords[] = {{"type", on_type},
                {"const", on_const},
                {"enum", on_enum},
                {"properties", on_properties},
                {"required", on_required},
                {"items", on_items},
                {"minItems", on_min_items},
                {"maxItems", on_max_items},
                {"minimum", on_minimum},
                {"maximum", on_maximum},
                {"pattern", on_pattern},
                {"anyOf", on_any_of},
                {"$ref", on_ref},
                {"additionalProperties", NULL}, /* see check_other_keys */
                {"$schema", NULL},
                {"$id", NULL},
                {"$defs", NULL},
                {"title", NULL},
                {"description", NULL}};

static void check(checker *c, const json_t *schema, const json_t *value) {
    const char *key;
    json_t *argument;
    json_object_foreach(mutable(schema), key, argument) {
        const struct keyword *found = NULL;
        for (size_t i = 0; i < sizeof keywords / sizeof keywords[0] && !found; i++)
            if (strcmp(keywords[i].name, key) == 0) found = &keywords[i];
        if (!found)
            complain(c, "the schema's keyword '%s' is not checked", key);
        else if (found->check)
            found->check(c, argument, value);
    }
    if (json_is_object(value)) check_other_keys(c, schema, value);
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root) printf("%s:%d:%d: %s\n", path, error.line, error.column, error.text);
    return root;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s SCHEMA.json FILE.json...\n", argv[0]);
        return 2;
    }
    json_t *schema = load(argv[1]);
    checker c = {.root = schema};
    int status = schema ? 0 : 2;
    for (int i = 2; i < argc && schema; i++) {
        json_t *value = load(argv[i]);
        c.file = argv[i];
        if (value)
            check(&c, schema, value);
        else
            c.errors++;
        json_decref(value);
    }
    json_decref(schema);
    return status ? status : c.errors > 0;
}
