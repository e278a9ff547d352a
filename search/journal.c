#include "search/journal.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"

#define SCHEMA "qbench.search-cache/1"
#define JOURNAL_MAX ((size_t)256 << 20)

struct qb_journal {
    char *path;
    FILE *stream;
    json_t *results; /* {kind: {key: value}} */
    int32_t taken;
};

/* ---- reading --------------------------------------------------------------------------------- */

static qb_status put(qb_ctx *cx, qb_journal *j, const char *kind, const char *key, json_t *value) {
    json_t *of_kind = json_object_get(j->results, kind);
    if (!of_kind) {
        of_kind = json_object();
        if (json_object_set_new(j->results, kind, of_kind) != 0) of_kind = NULL;
    }
    if (json_object_set_new(of_kind, key, value) == 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
}

/* A line of the file; false: it is none. */
static bool take_line(qb_ctx *cx, qb_journal *j, const char *line, size_t n) {
    json_auto_t *root = json_loadb(line, n, 0, NULL);
    const char *kind = json_string_value(json_object_get(root, "kind")),
               *key = json_string_value(json_object_get(root, "key"));
    json_t *value = json_object_get(root, "value");
    const bool whole = kind && key && value && put(cx, j, kind, key, json_incref(value)) == QB_OK;
    j->taken += whole;
    return whole;
}

static qb_status check_head(qb_ctx *cx, const char *path, const char *line, size_t n,
                            const json_t *of) {
    json_auto_t *root = json_loadb(line, n, 0, NULL);
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const json_t *made = json_object_get(root, "of"), *value;
    const char *key;
    qb_status status = QB_OK;
    if (!schema || strcmp(schema, SCHEMA) != 0)
        status = qb_fail(cx, QB_STATUS_FORMAT, "%s: not the cache of a search", path);
    json_object_foreach((json_t *)(uintptr_t)of, key, value) {
        if (status != QB_OK || json_equal(value, json_object_get(made, key))) continue;
        char *before = json_dumps(json_object_get(made, key), JSON_ENCODE_ANY),
             *now = json_dumps(value, JSON_ENCODE_ANY);
        status = qb_fail(cx, QB_STATUS_MISMATCH,
                         "%s is of another search: its %s is %s, not %s; without --resume it "
                         "begins anew",
                         path, key, before ? before : "absent", now ? now : "absent");
        free(before);
        free(now);
    }
    return status;
}

/* *keep: how much of the text is whole. */
static qb_status read_all(qb_ctx *cx, qb_journal *j, const char *text, size_t size,
                          const json_t *of, size_t *keep) {
    *keep = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end) break;
        const size_t n = (size_t)(end - text) - at;
        if (at == 0)
            QB_TRY(check_head(cx, j->path, text, n, of));
        else if (!take_line(cx, j, text + at, n)) {
            if (at + n + 1 == size) break; /* a write that a kill cut */
            return qb_fail(cx, QB_STATUS_FORMAT,
                           "%s: line %d: damaged; without --resume the search begins anew", j->path,
                           j->taken + 2);
        }
        at += n + 1;
        *keep = at;
    }
    return QB_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* New memory (free); takes the line over. */
static char *line_text(json_t *line) {
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(line);
    return text;
}

static qb_status write_line(qb_ctx *cx, qb_journal *j, json_t *line) {
    char *text = line_text(line);
    if (!text) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    fprintf(j->stream, "%s\n", text);
    free(text);
    if (qb_stream_error(j->stream) == 0 && fsync(fileno(j->stream)) == 0) return QB_OK;
    return qb_fail_errno(cx, "%s", j->path);
}

/* What is kept of the file, or a first line, replaces it: a link of that name is not followed. */
static qb_status begin(qb_ctx *cx, qb_journal *j, const char *text, size_t keep, json_t *of) {
    if (keep > 0) {
        QB_TRY(qb_file_write(cx, j->path, text, keep));
    } else {
        char *head = line_text(json_pack("{s:s, s:O}", "schema", SCHEMA, "of", of));
        char *line = head ? qb_format(cx, "%s\n", head) : NULL;
        free(head);
        if (!line) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
        const qb_status status = qb_file_write(cx, j->path, line, strlen(line));
        qb_free(line);
        QB_TRY(status);
    }
    j->stream = fopen(j->path, "ae");
    return j->stream ? QB_OK : qb_fail_errno(cx, "%s", j->path);
}

qb_status qb_journal_open(qb_ctx *cx, const char *path, json_t *of, bool resume, qb_journal **out) {
    char *text = NULL;
    size_t size = 0, keep = 0;
    qb_status status = QB_OK;
    qb_journal *j = qb_alloc(cx, 1, sizeof *j);
    if (!j || !of) QB_GO(of ? cx->code : qb_fail(cx, QB_STATUS_NOMEM, "out of memory"));
    j->path = qb_strdup(cx, path);
    j->results = json_object();
    if (!j->path || !j->results) QB_GO(qb_fail(cx, QB_STATUS_NOMEM, "out of memory"));
    if (resume && qb_path_exists(path)) QB_GO(qb_file_read(cx, path, JOURNAL_MAX, &text, &size));
    QB_GO(read_all(cx, j, text, size, of, &keep));
    QB_GO(begin(cx, j, text, keep, of));
    *out = QB_MOVE(j);
out:
    json_decref(of);
    qb_free(text);
    qb_journal_close(j);
    return status;
}

void qb_journal_close(qb_journal *j) {
    if (!j) return;
    if (j->stream) fclose(j->stream);
    json_decref(j->results);
    QB_FREE_ALL(j->path, j);
}

int32_t qb_journal_taken(const qb_journal *j) { return j->taken; }

const json_t *qb_journal_find(const qb_journal *j, const char *kind, const char *key) {
    return json_object_get(json_object_get(j->results, kind), key);
}

qb_status qb_journal_add(qb_ctx *cx, qb_journal *j, const char *kind, const char *key,
                         json_t *value) {
    if (!value) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    const qb_status status = put(cx, j, kind, key, json_incref(value));
    if (status != QB_OK) {
        json_decref(value);
        return status;
    }
    return write_line(cx, j,
                      json_pack("{s:s, s:s, s:o}", "kind", kind, "key", key, "value", value));
}
