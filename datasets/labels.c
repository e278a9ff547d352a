#include <stdlib.h>
#include <string.h>

#include "base/open.h"
#include "base/text.h"
#include "datasets_internal.h"

/* The three forms of a labels file. */
typedef enum form { FORM_NAME, FORM_INDEX, FORM_SYNSET } form;
static const char *const form_texts[] = {"name", "index TAB name", "synset TAB index TAB name"};

typedef struct reader {
    qb_ctx *cx;
    const char *path;
    int line;
    form form;
    qb_labels labels;
    size_t name_capacity, synset_capacity;
} reader;

void qb_labels_release(qb_labels *labels) {
    if (!labels) return;
    for (int32_t i = 0; i < labels->n; i++) QB_FREE_ALL(labels->name[i], labels->synset[i]);
    QB_FREE_ALL(labels->name, labels->synset);
    memset(labels, 0, sizeof *labels);
}

qb_status qb_label_check(qb_ctx *cx, const char *where, int64_t label, const qb_labels *labels) {
    int64_t n = labels ? labels->n : QB_CLASSES_MAX;
    if (label >= 0 && label < n) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected a label from 0 to %lld, got %lld", where,
                   (long long)n - 1, (long long)label);
}

qb_status qb_label_parse(qb_ctx *cx, const char *where, const char *text, const qb_labels *labels,
                         int32_t *out) {
    char *end;
    const int64_t number = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    if (number >= 0 && *end == '\0') {
        QB_TRY(qb_label_check(cx, where, number, labels));
        *out = (int32_t)number;
        return QB_OK;
    }
    *out = labels ? qb_labels_find(labels, text) : -1;
    if (*out >= 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: label '%s' is neither a number nor a known class",
                   where, text);
}

int32_t qb_labels_find(const qb_labels *labels, const char *name) {
    const char *text = QB_SHOWN(name); /* as the labels are */
    for (int32_t i = 0; i < labels->n; i++)
        if (labels->synset[i] && strcmp(labels->synset[i], text) == 0) return i;
    for (int32_t i = 0; i < labels->n; i++)
        if (strcmp(labels->name[i], text) == 0) return i;
    return -1;
}

static bool parse_index(const char *text, const char *end, int64_t *out) {
    char *stop;
    if (*text < '0' || *text > '9') return false;
    *out = strtoll(text, &stop, 10);
    return stop == end;
}

static form detect_form(const char *line) {
    const char *first = strchr(line, '\t');
    if (!first) return FORM_NAME;
    const char *second = strchr(first + 1, '\t');
    int64_t index;
    return second && parse_index(first + 1, second, &index) ? FORM_SYNSET : FORM_INDEX;
}

static qb_status put(reader *r, int64_t index, const char *synset, size_t n, const char *name) {
    if (index >= QB_CLASSES_MAX)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d: class index %lld, the limit is %d", r->path,
                       r->line, (long long)index, QB_CLASSES_MAX - 1);
    size_t need = (size_t)index + 1;
    qb_labels *l = &r->labels;
    QB_TRY(qb_grow(r->cx, &l->name, &r->name_capacity, need, sizeof *l->name));
    QB_TRY(qb_grow(r->cx, &l->synset, &r->synset_capacity, need, sizeof *l->synset));
    if ((int32_t)need > l->n) l->n = (int32_t)need;
    if (l->name[index])
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d: class index %lld is there twice ('%s')",
                       r->path, r->line, (long long)index, l->name[index]);
    QB_TRY_NEW(r->cx, l->name[index] = qb_text_clean(r->cx, name));
    if (!synset) return QB_OK;
    char *copy = QB_NEW(r->cx, qb_format(r->cx, "%.*s", (int)n, synset));
    l->synset[index] = qb_text_clean(r->cx, copy);
    qb_free(copy);
    return l->synset[index] ? QB_OK : r->cx->code;
}

static qb_status read_line(reader *r, const char *line) {
    if (r->labels.n == 0) r->form = detect_form(line);
    if (r->form == FORM_NAME) return put(r, r->labels.n, NULL, 0, line);
    const char *number = line, *synset = NULL;
    if (r->form == FORM_SYNSET) {
        synset = line;
        number = strchr(line, '\t');
        if (number) number++;
    }
    const char *end = number ? strchr(number, '\t') : NULL;
    int64_t index;
    if (!end || end[1] == '\0' || !parse_index(number, end, &index) || (synset && *synset == '\t'))
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d: expected '%s', got '%s'", r->path, r->line,
                       form_texts[r->form], line);
    return put(r, index, synset, synset ? (size_t)(number - 1 - synset) : 0, end + 1);
}

static qb_status read_lines(reader *r, char *text) {
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        r->line++;
        size_t n = strlen(line);
        while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ')) line[--n] = '\0';
        if (n > 0) {
            QB_TRY(read_line(r, line));
        } else if (r->labels.n > 0 && r->form == FORM_NAME && next &&
                   next[strspn(next, " \r\n")] != '\0') {
            /* Skipping it would number all classes after it wrongly. */
            return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d: empty line among class names", r->path,
                           r->line);
        }
    }
    if (r->labels.n == 0)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: expected class names, the file has none",
                       r->path);
    return QB_OK;
}

/* Classes that the file leaves out are called by their number. */
static qb_status fill_gaps(reader *r) {
    for (int32_t i = 0; i < r->labels.n; i++) {
        if (r->labels.name[i]) continue;
        QB_TRY_NEW(r->cx, r->labels.name[i] = qb_format(r->cx, "%d", i));
    }
    return QB_OK;
}

/* `text`: what is in the file; it is written to. */
static qb_status parse(reader *r, char *text, size_t size, qb_labels *out) {
    qb_status status = QB_OK;
    if (memchr(text, '\0', size))
        QB_GO(qb_fail(r->cx, QB_STATUS_FORMAT, "%s: not a text file: it has zero bytes", r->path));
    QB_GO(read_lines(r, strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text));
    QB_GO(fill_gaps(r));
    *out = r->labels;
out:
    if (status != QB_OK) qb_labels_release(&r->labels);
    return status;
}

qb_status qb_labels_load(qb_ctx *cx, const char *path, qb_labels *out) {
    QB_FREED char *text = NULL;
    size_t size;
    QB_TRY(qb_file_read(cx, path, QB_TEXT_FILE_MAX, &text, &size));
    reader r = {.cx = cx, .path = path};
    return parse(&r, text, size, out);
}

/* A file outside the folder of the one that names it must be a table of classes. Any other text
 * (/etc/passwd) does not become names in a report, nor lines in a message. */
static qb_status load_table(qb_ctx *cx, const char *path, const qb_named *named, qb_labels *out) {
    char *text;
    size_t size;
    QB_TRY(qb_file_read(cx, path, QB_TEXT_FILE_MAX, &text, &size));
    reader r = {.cx = cx, .path = path};
    qb_status status = parse(&r, text, size, out);
    qb_free(text);
    if (status == QB_OK && r.form == FORM_NAME) {
        qb_labels_release(out);
        status = QB_STATUS_FORMAT;
    }
    if (status != QB_STATUS_FORMAT) return status;
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "%s: outside %s folder only a table of classes is read (lines '%s' or '%s'): "
                   "give --labels FILE or --allow-outside PATH, or copy the file there",
                   path, named->whose, form_texts[FORM_INDEX], form_texts[FORM_SYNSET]);
}

qb_status qb_labels_load_named(qb_ctx *cx, const char *path, const qb_named *named,
                               qb_labels *out) {
    QB_FREED char *text = NULL;
    size_t size;
    qb_status status = qb_file_read_named(cx, named, QB_TEXT_FILE_MAX, &text, &size);
    if (status == QB_STATUS_FORMAT && !qb_named_is_inside(named))
        return load_table(cx, path, named, out);
    if (status != QB_OK) return status;
    reader r = {.cx = cx, .path = path};
    return parse(&r, text, size, out);
}

qb_status qb_labels_from_names(qb_ctx *cx, const char *const *names, int n, qb_labels *out) {
    if (n < 1 || n > QB_CLASSES_MAX)
        return qb_fail(cx, QB_STATUS_INVALID, "labels: expected 1 to %d class names, got %d",
                       QB_CLASSES_MAX, n);
    reader r = {.cx = cx, .path = "labels"};
    qb_status status = QB_OK;
    for (int i = 0; i < n && status == QB_OK; i++) status = put(&r, i, NULL, 0, names[i]);
    if (status == QB_OK)
        *out = r.labels;
    else
        qb_labels_release(&r.labels);
    return status;
}
