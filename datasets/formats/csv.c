/* csv: a table of images and their labels, as spreadsheets and pandas write it: fields between
 * commas, semicolons or tabs, quotes where they are needed, usually a line of names on top. The
 * images lie in the table's folder, in images/ beside it or in --images; their suffix may be left
 * out. Labels are numbers, classes of the labels or, without those, names that count 0, 1, ... in
 * byte order. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sort.h"
#include "datasets/datasets_internal.h"

enum { COLUMNS = 256 };

typedef struct cells {
    char *cell[COLUMNS];
    int n;
} cells;

typedef struct table {
    qb_ctx *cx;
    qb_dataset *dataset;
    const qb_labels *labels;
    char separator;
    int line;                 /* read so far */
    int columns, path, label; /* of the first row; label -1: none */
    const char *suffix;       /* of the names, which lack it */
    char **text;              /* [samples]: labels as they stand there */
    size_t n, capacity;
} table;

static bool csv_probe(const char *path) {
    return !qb_path_is_dir(path) && (qb_has_suffix(path, ".csv") || qb_has_suffix(path, ".tsv"));
}

/* Between quotes, of which two stand for one: written to *to, lines and separators included. */
static qb_status quoted_cell(table *t, char **at, char **to) {
    const int line = t->line + 1;
    for (++*at; **at != '"' || (*at)[1] == '"'; ++*at) {
        if (**at == '\0')
            return qb_fail(t->cx, QB_STATUS_FORMAT, "line %d: a quote without its end", line);
        *at += **at == '"';
        t->line += **at == '\n';
        *(*to)++ = **at;
    }
    ++*at;
    *at += **at == '\r' && ((*at)[1] == '\n' || (*at)[1] == '\0');
    return **at == '\0' || **at == '\n' || **at == t->separator
               ? QB_OK
               : qb_fail(t->cx, QB_STATUS_FORMAT, "line %d: text behind a quote's end",
                         t->line + 1);
}

/* Cuts the next line, which may span lines between quotes, into cells; not at the text's end. */
static qb_status next_row(table *t, char **at, cells *out) {
    out->n = 0;
    for (bool more = true; more;) {
        char *from = *at, *cell = from;
        if (*from == '"') {
            QB_TRY(quoted_cell(t, at, &cell));
        } else {
            while (**at != '\0' && **at != '\n' && **at != t->separator) ++*at;
            cell = *at;
            if (**at != t->separator && cell > from && cell[-1] == '\r') cell--;
        }
        more = **at == t->separator;
        t->line += !more;
        *at += **at != '\0';
        *cell = '\0';
        if (out->n < COLUMNS) out->cell[out->n++] = from;
    }
    return QB_OK;
}

/* What separates: of the first line's the most frequent one. */
static char find_separator(const char *text) {
    static const char marks[] = ",;\t";
    size_t most = 0, count[3] = {0};
    for (const char *c = text; *c != '\0' && *c != '\n'; c++)
        for (size_t k = 0; k < 3; k++) count[k] += *c == marks[k];
    for (size_t k = 1; k < 3; k++)
        if (count[k] > count[most]) most = k;
    return marks[most];
}

static int find_column(const cells *row, const char *const *names) {
    for (; *names; names++)
        for (int i = 0; i < row->n; i++)
            if (strcasecmp(row->cell[i], *names) == 0) return i;
    return -1;
}

/* Which of two columns of one name counts would be chance. */
static qb_status check_once(const table *t, const cells *row, int column) {
    for (int i = column + 1; column >= 0 && i < row->n; i++)
        if (strcasecmp(row->cell[i], row->cell[column]) == 0)
            return qb_fail(t->cx, QB_STATUS_FORMAT, "line 1: columns %d and %d are both '%s'",
                           column + 1, i + 1, row->cell[column]);
    return QB_OK;
}

/* Which columns count. *head: the first row holds names. */
static qb_status find_columns(table *t, const cells *row, bool *head) {
    static const char *const paths[] = {"path",     "file",  "filename",   "file_name",
                                        "filepath", "image", "image_path", "img",
                                        "image_id", "id",    NULL};
    static const char *const labels[] = {"label",    "class",      "category", "target", "label_id",
                                         "class_id", "class_name", "y",        NULL};
    t->path = find_column(row, paths);
    t->label = find_column(row, labels);
    *head = t->path >= 0 || t->label >= 0;
    QB_TRY(check_once(t, row, t->path));
    QB_TRY(check_once(t, row, t->label));
    for (int i = 0; t->path < 0 && i < row->n; i++)
        if (qb_name_is_image(row->cell[i])) t->path = i;
    if (!*head && t->path >= 0 && row->n == 2) t->label = 1 - t->path;
    if (t->path >= 0 && (t->label >= 0 || row->n == 1)) return QB_OK;
    return qb_fail(
        t->cx, QB_STATUS_FORMAT,
        "line 1: expected a column 'path' (also file, filename, image, ...) and a column "
        "'label' (also class, category, target, ...)");
}

/* Where the first image lies says where all do. */
static qb_status find_root(table *t, const char *name) {
    static const char *const suffix[] = {"", ".jpg", ".png", ".jpeg", ".JPEG"};
    qb_dataset *d = t->dataset;
    char *folder[3] = {d->folder ? qb_strdup(t->cx, d->folder) : qb_path_dir(t->cx, d->path)};
    folder[1] = folder[0] ? qb_path_join(t->cx, folder[0], "images") : NULL;
    const char *root = NULL;
    for (int k = 0; k < 2 && folder[k] && !root; k++)
        for (size_t i = 0; i < sizeof suffix / sizeof *suffix && !root; i++) {
            char *bare = qb_path_join(t->cx, folder[k], name);
            char *path = bare ? qb_format(t->cx, "%s%s", bare, suffix[i]) : NULL;
            qb_free(bare);
            if (path && qb_path_exists(path) && !qb_path_is_dir(path)) {
                root = qb_arena_strdup(t->cx, d->arena, folder[k]);
                t->suffix = suffix[i];
            }
            qb_free(path);
        }
    const bool failed = !folder[0] || !folder[1];
    if (!failed && !root)
        qb_fail(t->cx, QB_STATUS_NOTFOUND,
                "'%s', the first image, is neither in %s nor in %s (or name the folder: --images "
                "DIR)",
                name, folder[0], folder[1]);
    for (int k = 0; k < 2; k++) qb_free(folder[k]);
    if (!root) return t->cx->code;
    d->root = root;
    return QB_OK;
}

static qb_status add_row(table *t, const cells *row) {
    if (row->n == 1 && row->cell[0][0] == '\0') return QB_OK; /* an empty line */
    if (row->n <= t->path || row->n <= t->label)
        return qb_fail(t->cx, QB_STATUS_FORMAT, "line %d: %d fields, expected %d", t->line, row->n,
                       (t->path > t->label ? t->path : t->label) + 1);
    for (int i = t->columns; i < row->n; i++)
        if (row->cell[i][0] != '\0')
            return qb_fail(t->cx, QB_STATUS_FORMAT, "line %d: %d fields, the first line has %d",
                           t->line, row->n, t->columns);
    if (t->dataset->n == 0) QB_TRY(find_root(t, row->cell[t->path]));
    const char *name = QB_NEW(
        t->cx, qb_arena_format(t->cx, t->dataset->arena, "%s%s", row->cell[t->path], t->suffix));
    QB_TRY(qb_grow(t->cx, &t->text, &t->capacity, t->n + 1, sizeof *t->text));
    t->text[t->n++] = t->label < 0 ? NULL : row->cell[t->label];
    return qb_dataset_add(t->cx, t->dataset, name, 0, -1);
}

static bool is_number(const char *text) {
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* Names that no labels number: 0, 1, ... in byte order. */
static qb_status number_names(table *t) {
    QB_FREED char **name = qb_alloc(t->cx, t->n, sizeof *name);
    size_t kept = 0;
    if (!name) return t->cx->code;
    memcpy(name, t->text, t->n * sizeof *name);
    qsort(name, t->n, sizeof *name, qb_by_text);
    for (size_t i = 0; i < t->n; i++)
        if (kept == 0 || strcmp(name[kept - 1], name[i]) != 0) name[kept++] = name[i];
    for (size_t i = 0; i < t->n; i++)
        t->dataset->sample[i].label =
            (int32_t)((char **)bsearch(&t->text[i], name, kept, sizeof *name, qb_by_text) - name);
    t->dataset->n_classes = (int32_t)kept;
    return QB_OK;
}

static qb_status set_labels(table *t) {
    bool numbers = true;
    char where[32];
    if (t->label < 0) return QB_OK;
    t->dataset->has_labels = true;
    for (size_t i = 0; i < t->n; i++) numbers = numbers && is_number(t->text[i]);
    if (!numbers && !t->labels) return number_names(t);
    for (size_t i = 0; i < t->n; i++) {
        qb_sample *s = &t->dataset->sample[i];
        snprintf(where, sizeof where, "row %zu", i + 1);
        QB_TRY(qb_label_parse(t->cx, where, t->text[i], t->labels, &s->label));
        if (s->label >= t->dataset->n_classes) t->dataset->n_classes = s->label + 1;
    }
    if (t->labels) t->dataset->n_classes = t->labels->n;
    return QB_OK;
}

static qb_status read_table(table *t, char *text) {
    cells row;
    bool head;
    t->separator = find_separator(text);
    if (!*text) return QB_OK;
    QB_TRY(next_row(t, &text, &row));
    QB_TRY(find_columns(t, &row, &head));
    t->columns = row.n;
    if (!head) QB_TRY(add_row(t, &row));
    while (*text) {
        QB_TRY(next_row(t, &text, &row));
        QB_TRY(add_row(t, &row));
    }
    return set_labels(t);
}

static qb_status csv_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    table t = {.cx = cx, .dataset = dataset, .labels = labels, .suffix = ""};
    QB_FREED char *text = NULL;
    QB_TRY(qb_file_read_text(cx, dataset->path, QB_TEXT_FILE_MAX, &text));
    const qb_status status =
        read_table(&t, strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text);
    qb_free(t.text);
    return status;
}

const qb_dataset_format qb_format_csv = {
    .name = "csv",
    .text = "a .csv or .tsv table with a column of images and one of labels",
    .probe = csv_probe,
    .open = csv_open,
    .read = qb_dataset_read_file,
};
