#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "arena.h"
#include "file.h"
#include "opt.h"

#define SIZE_LIMIT ((size_t)1 << 20)
#define DEPTH_LIMIT 32
#define KEYS_LIMIT 1000 /* a mapping; the search for duplicates is quadratic */

typedef enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAPPING } node_kind;

/* Of a list, where key is NULL, or of a mapping. */
typedef struct entry {
    const qb_config_node *key, *value;
} entry;

struct qb_config_node {
    node_kind kind;
    bool quoted; /* a scalar in quotes is a string whatever it looks like */
    int line, column;
    const char *text; /* of a scalar */
    int n;
    entry *entry;
};

struct qb_config {
    qb_arena *arena;
    const char *name;
    const qb_config_node *root;
};

typedef struct reader {
    qb_ctx *cx;
    qb_config *config;
    yaml_parser_t yaml;
    int depth;
} reader;

/* ---- reading ---- */

static qb_status fail_at(const reader *r, const yaml_mark_t *mark, const char *what) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%zu:%zu: %s", r->config->name, mark->line + 1,
                   mark->column + 1, what);
}

static qb_status parser_error(const reader *r) {
    const yaml_parser_t *y = &r->yaml;
    const char *problem = y->problem ? y->problem : "not YAML";
    if (y->error == YAML_MEMORY_ERROR)
        return qb_fail(r->cx, QB_STATUS_NOMEM, "%s: out of memory", r->config->name);
    if (y->error == YAML_READER_ERROR)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: byte %zu: %s", r->config->name,
                       y->problem_offset, problem);
    if (!y->context) return fail_at(r, &y->problem_mark, problem);
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%zu:%zu: %s, %s", r->config->name,
                   y->problem_mark.line + 1, y->problem_mark.column + 1, y->context, problem);
}

static qb_status next_event(reader *r, yaml_event_t *event) {
    if (!yaml_parser_parse(&r->yaml, event)) return parser_error(r);
    return QB_OK;
}

static qb_config_node *new_node(reader *r, node_kind kind, const yaml_mark_t *mark) {
    qb_config_node *node = qb_arena_alloc(r->cx, r->config->arena, 1, sizeof *node);
    if (!node) return NULL;
    node->kind = kind;
    node->line = (int)mark->line + 1; /* at most 1 MiB of text */
    node->column = (int)mark->column + 1;
    return node;
}

static qb_status read_node(reader *r, const yaml_event_t *event, const qb_config_node **out);

static qb_status refuse_extras(const reader *r, const yaml_event_t *event, const void *anchor,
                               const void *tag) {
    if (anchor)
        return fail_at(r, &event->start_mark, "anchors are not supported: write the value out");
    if (tag) return fail_at(r, &event->start_mark, "tags are not supported");
    return QB_OK;
}

static qb_status read_scalar(reader *r, const yaml_event_t *event, const qb_config_node **out) {
    const char *value = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    QB_TRY(refuse_extras(r, event, event->data.scalar.anchor, event->data.scalar.tag));
    if (memchr(value, 0, n))
        return fail_at(r, &event->start_mark, "a zero byte in a string is not supported");
    qb_config_node *node = QB_NEW(r->cx, new_node(r, NODE_SCALAR, &event->start_mark));
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    QB_TRY_NEW(r->cx, node->text = qb_arena_strndup(r->cx, r->config->arena, value, n));
    *out = node;
    return QB_OK;
}

static qb_status check_key(const reader *r, const entry *before, int n, const qb_config_node *key) {
    const char *name = r->config->name;
    if (key->kind != NODE_SCALAR)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d:%d: expected a plain key", name, key->line,
                       key->column);
    for (int i = 0; i < n; i++)
        if (strcmp(before[i].key->text, key->text) == 0)
            return qb_fail(r->cx, QB_STATUS_FORMAT,
                           "%s:%d:%d: key '%s' is given twice, first at line %d", name, key->line,
                           key->column, key->text, before[i].key->line);
    if (n < KEYS_LIMIT) return QB_OK;
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d:%d: more than %d keys in one mapping", name,
                   key->line, key->column, KEYS_LIMIT);
}

/* *out stays NULL where `end` comes next. */
static qb_status read_next(reader *r, yaml_event_type_t end, const qb_config_node **out) {
    QB_RELEASED(yaml_event_delete) yaml_event_t event = {0};
    QB_TRY(next_event(r, &event));
    return event.type == end ? QB_OK : read_node(r, &event, out);
}

/* One more behind the n entries `before`; its value stays NULL at the end. */
static qb_status read_entry(reader *r, node_kind kind, const entry *before, int n, entry *out) {
    *out = (entry){0};
    if (kind == NODE_LIST) return read_next(r, YAML_SEQUENCE_END_EVENT, &out->value);
    QB_TRY(read_next(r, YAML_MAPPING_END_EVENT, &out->key));
    if (!out->key) return QB_OK;
    QB_TRY(check_key(r, before, n, out->key));
    return read_next(r, YAML_NO_EVENT, &out->value);
}

static qb_status read_collection(reader *r, const yaml_event_t *event, node_kind kind,
                                 const qb_config_node **out) {
    if (++r->depth > DEPTH_LIMIT)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%zu:%zu: nested more than %d deep",
                       r->config->name, event->start_mark.line + 1, event->start_mark.column + 1,
                       DEPTH_LIMIT);
    qb_config_node *node = new_node(r, kind, &event->start_mark);
    QB_FREED entry *list = NULL; /* grows until it is complete, and then goes to the arena */
    size_t capacity = 0;
    if (!node) return r->cx->code;
    for (int n = 0;; n++) {
        QB_TRY(qb_grow(r->cx, &list, &capacity, (size_t)n + 1, sizeof *list));
        QB_TRY(read_entry(r, kind, list, n, &list[n]));
        if (!list[n].value) break;
        node->n = n + 1;
    }
    node->entry = qb_arena_alloc(r->cx, r->config->arena, (size_t)node->n + 1, sizeof *list);
    if (!node->entry) return r->cx->code;
    memcpy(node->entry, list, (size_t)node->n * sizeof *list);
    r->depth--;
    *out = node;
    return QB_OK;
}

static qb_status read_node(reader *r, const yaml_event_t *event, const qb_config_node **out) {
    switch (event->type) {
    case YAML_SCALAR_EVENT: return read_scalar(r, event, out);
    case YAML_SEQUENCE_START_EVENT:
        QB_TRY(refuse_extras(r, event, event->data.sequence_start.anchor,
                             event->data.sequence_start.tag));
        return read_collection(r, event, NODE_LIST, out);
    case YAML_MAPPING_START_EVENT:
        QB_TRY(refuse_extras(r, event, event->data.mapping_start.anchor,
                             event->data.mapping_start.tag));
        return read_collection(r, event, NODE_MAPPING, out);
    case YAML_ALIAS_EVENT:
        return fail_at(r, &event->start_mark, "aliases are not supported: write the value out");
    default: return fail_at(r, &event->start_mark, "expected a value");
    }
}

static bool is_null(const qb_config_node *node) {
    return node->kind == NODE_SCALAR && !node->quoted &&
           (*node->text == '\0' || strcmp(node->text, "~") == 0 ||
            strcasecmp(node->text, "null") == 0);
}

static qb_status read_root(reader *r, const yaml_event_t *event) {
    QB_TRY(read_node(r, event, &r->config->root));
    const qb_config_node *root = r->config->root;
    if (root->kind == NODE_MAPPING || is_null(root)) return QB_OK;
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d:%d: expected a mapping (key: value)",
                   r->config->name, root->line, root->column);
}

static qb_status read_stream(reader *r) {
    bool seen = false, end = false;
    while (!end) {
        yaml_event_t event;
        QB_TRY(next_event(r, &event));
        qb_status status = QB_OK;
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_STREAM_END_EVENT: end = true; break;
        case YAML_DOCUMENT_START_EVENT:
            if (seen) status = fail_at(r, &event.start_mark, "expected one document, got another");
            seen = true;
            break;
        default: status = read_root(r, &event); break;
        }
        yaml_event_delete(&event);
        if (status != QB_OK) return status;
    }
    return QB_OK;
}

qb_status qb_config_parse(qb_ctx *cx, const char *name, const char *text, size_t size,
                          qb_config **out) {
    if (size > SIZE_LIMIT)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: %zu bytes, at most %zu are accepted", name, size,
                       SIZE_LIMIT);
    qb_config *config = QB_NEW(cx, qb_alloc(cx, 1, sizeof *config));
    reader r = {.cx = cx, .config = config};
    bool started = false;
    qb_status status;
    QB_GO(qb_arena_create(cx, &config->arena));
    QB_GO_NEW(cx, config->name = qb_arena_strdup(cx, config->arena, name));
    started = yaml_parser_initialize(&r.yaml) != 0;
    if (!started) QB_GO(qb_fail(cx, QB_STATUS_NOMEM, "%s: out of memory", name));
    yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, size);
    QB_GO(read_stream(&r));
    *out = config;
out:
    if (started) yaml_parser_delete(&r.yaml);
    if (status != QB_OK) qb_config_free(config);
    return status;
}

qb_status qb_config_load(qb_ctx *cx, const char *path, qb_config **out) {
    QB_FREED char *text = NULL;
    size_t size;
    QB_TRY(qb_file_read(cx, path, SIZE_LIMIT, &text, &size));
    return qb_config_parse(cx, path, text, size, out);
}

void qb_config_free(qb_config *config) {
    if (!config) return;
    qb_arena_free(config->arena);
    qb_free(config);
}

/* ---- looking up ---- */

static const qb_config_node *child(const qb_config_node *node, const char *key, size_t n) {
    if (!node || node->kind != NODE_MAPPING) return NULL;
    for (int i = 0; i < node->n; i++)
        if (strncmp(node->entry[i].key->text, key, n) == 0 && node->entry[i].key->text[n] == '\0')
            return node->entry[i].value;
    return NULL;
}

const qb_config_node *qb_config_find(const qb_config *config, const char *path) {
    const qb_config_node *node = config->root;
    while (node) {
        size_t n = strcspn(path, ".");
        node = child(node, path, n);
        if (path[n] == '\0') return node;
        path += n + 1;
    }
    return NULL;
}

int qb_config_size(const qb_config_node *node) { return node ? node->n : 0; }

const qb_config_node *qb_config_at(const qb_config_node *node, int index) {
    return node && index >= 0 && index < node->n ? node->entry[index].value : NULL;
}

const char *qb_config_key(const qb_config_node *node, int index) {
    if (!node || node->kind != NODE_MAPPING || index < 0 || index >= node->n) return NULL;
    return node->entry[index].key->text;
}

const char *qb_config_text(const qb_config_node *node) {
    return node && node->kind == NODE_SCALAR ? node->text : NULL;
}

static qb_status wrong_type(qb_ctx *cx, const qb_config *config, const char *path,
                            const qb_config_node *node, const char *expected) {
    bool scalar = node->kind == NODE_SCALAR;
    const char *quote = scalar ? "'" : "";
    const char *got = scalar ? node->text : node->kind == NODE_LIST ? "a list" : "a mapping";
    return qb_fail(cx, QB_STATUS_FORMAT, "%s:%d:%d: %s: expected %s, got %s%.200s%s", config->name,
                   node->line, node->column, path, expected, quote, got, quote);
}

qb_status qb_config_fail(qb_ctx *cx, const qb_config *config, const char *path, const char *fmt,
                         ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const qb_config_node *node = qb_config_find(config, path);
    if (!node) return qb_fail(cx, QB_STATUS_INVALID, "%s: %s: %s", config->name, path, text);
    return qb_fail(cx, QB_STATUS_INVALID, "%s:%d:%d: %s: %s", config->name, node->line,
                   node->column, path, text);
}

/* The node at `path`; NULL when it is absent or empty ("key:" without a value, null, ~). */
static const qb_config_node *present(const qb_config *config, const char *path) {
    const qb_config_node *node = qb_config_find(config, path);
    return node && !is_null(node) ? node : NULL;
}

qb_status qb_config_string(qb_ctx *cx, const qb_config *config, const char *path,
                           const char **out) {
    const qb_config_node *node = present(config, path);
    if (!node) return QB_OK;
    if (node->kind != NODE_SCALAR) return wrong_type(cx, config, path, node, "a string");
    *out = node->text;
    return QB_OK;
}

qb_status qb_config_int(qb_ctx *cx, const qb_config *config, const char *path, int64_t *out) {
    const qb_config_node *node = present(config, path);
    if (!node) return QB_OK;
    char *end = NULL;
    errno = 0;
    long long value = 0;
    bool plain = node->kind == NODE_SCALAR && !node->quoted;
    if (plain) value = strtoll(node->text, &end, 10);
    if (!plain || end == node->text || *end || errno == ERANGE)
        return wrong_type(cx, config, path, node, "an integer");
    *out = value;
    return QB_OK;
}

/* Decimal only: strtod by itself also takes hexadecimal, "inf" and "nan". */
static bool parse_double(const qb_config_node *node, double *out) {
    if (node->kind != NODE_SCALAR || node->quoted) return false;
    if (strspn(node->text, "+-.0123456789eE") != strlen(node->text)) return false;
    char *end;
    double value = strtod(node->text, &end);
    if (end == node->text || *end || !isfinite(value)) return false;
    *out = value;
    return true;
}

qb_status qb_config_double(qb_ctx *cx, const qb_config *config, const char *path, double *out) {
    const qb_config_node *node = present(config, path);
    if (!node || parse_double(node, out)) return QB_OK;
    return wrong_type(cx, config, path, node, "a finite number");
}

qb_status qb_config_bool(qb_ctx *cx, const qb_config *config, const char *path, bool *out) {
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    const qb_config_node *node = present(config, path);
    if (!node) return QB_OK;
    if (node->kind == NODE_SCALAR && !node->quoted) {
        for (int i = 0; i < 3; i++) {
            bool is_yes = strcasecmp(node->text, yes[i]) == 0;
            if (!is_yes && strcasecmp(node->text, no[i]) != 0) continue;
            *out = is_yes;
            return QB_OK;
        }
    }
    return wrong_type(cx, config, path, node, "true or false");
}

qb_status qb_config_doubles(qb_ctx *cx, const qb_config *config, const char *path, double *out,
                            int capacity, int *n) {
    const qb_config_node *node = present(config, path);
    *n = 0;
    if (!node) return QB_OK;
    if (node->kind == NODE_MAPPING) return wrong_type(cx, config, path, node, "a list of numbers");
    int count = node->kind == NODE_LIST ? node->n : 1;
    if (count > capacity)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s:%d:%d: %s: expected at most %d numbers, got %d",
                       config->name, node->line, node->column, path, capacity, count);
    for (int i = 0; i < count; i++) {
        const qb_config_node *item = node->kind == NODE_LIST ? node->entry[i].value : node;
        if (!parse_double(item, &out[i]))
            return wrong_type(cx, config, path, item, "a finite number");
    }
    *n = count;
    return QB_OK;
}

/* ---- unknown keys ---- */

typedef struct key_check {
    qb_ctx *cx;
    const qb_config *config;
    const char *const *known;
    qb_arena *arena; /* paths, released after the check */
} key_check;

/* What the list says about a path; one path can be several of these. */
typedef struct known_as {
    bool leaf, parent, any;
} known_as;

static known_as lookup_known(const char *const *known, const char *path) {
    known_as as = {0};
    size_t n = strlen(path);
    for (; *known; known++) {
        if (strncmp(*known, path, n) != 0) continue;
        const char *tail = *known + n;
        if (*tail == '\0') as.leaf = true;
        if (*tail == '.') as.parent = true;
        if (strcmp(tail, ".*") == 0) as.any = true;
    }
    return as;
}

/* The known key below `parent` (a path with its dot, or "") that looks like `key`. */
static qb_status nearest_key(const key_check *c, const char *parent, const char *key,
                             const char **out) {
    size_t count = 0, n = strlen(parent), found = 0;
    while (c->known[count]) count++;
    const char **names = QB_NEW(c->cx, qb_arena_alloc(c->cx, c->arena, count + 1, sizeof *names));
    for (size_t i = 0; i < count; i++) {
        if (strncmp(c->known[i], parent, n) != 0) continue;
        const char *name = c->known[i] + n;
        size_t length = strcspn(name, ".");
        if (found && strncmp(names[found - 1], name, length) == 0 &&
            names[found - 1][length] == '\0')
            continue; /* the same parent's next child */
        names[found] = qb_arena_strndup(c->cx, c->arena, name, length);
        if (!names[found++]) return c->cx->code;
    }
    *out = qb_nearest(key, names);
    return QB_OK;
}

static qb_status unknown_key(const key_check *c, const char *parent, const qb_config_node *key) {
    const char *nearest = NULL;
    QB_TRY(nearest_key(c, parent, key->text, &nearest));
    if (nearest)
        return qb_fail(c->cx, QB_STATUS_FORMAT,
                       "%s:%d:%d: unknown key '%s%s'; did you mean '%s%s'?", c->config->name,
                       key->line, key->column, parent, key->text, parent, nearest);
    return qb_fail(c->cx, QB_STATUS_FORMAT, "%s:%d:%d: unknown key '%s%s'", c->config->name,
                   key->line, key->column, parent, key->text);
}

static qb_status check_mapping(const key_check *c, const char *parent,
                               const qb_config_node *mapping) {
    for (int i = 0; i < mapping->n; i++) {
        const qb_config_node *key = mapping->entry[i].key, *value = mapping->entry[i].value;
        char *path = QB_NEW(c->cx, qb_arena_format(c->cx, c->arena, "%s%s.", parent, key->text));
        char *dot = path + strlen(path) - 1;
        *dot = '\0';
        known_as as = lookup_known(c->known, path);
        /* A dot inside a key would make it look like a path. */
        if ((!as.leaf && !as.parent) || strchr(key->text, '.')) return unknown_key(c, parent, key);
        if (!as.leaf && !as.any && value->kind != NODE_MAPPING && !is_null(value))
            return wrong_type(c->cx, c->config, path, value, "a mapping");
        *dot = '.';
        if (!as.any && value->kind == NODE_MAPPING) QB_TRY(check_mapping(c, path, value));
    }
    return QB_OK;
}

qb_status qb_config_check_keys(qb_ctx *cx, const qb_config *config, const char *const *known) {
    if (!config->root || config->root->kind != NODE_MAPPING) return QB_OK;
    QB_RELEASED(qb_arena_free_at) qb_arena *arena = NULL;
    QB_TRY(qb_arena_create(cx, &arena));
    return check_mapping(&(key_check){cx, config, known, arena}, "", config->root);
}
