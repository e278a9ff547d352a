/* newcomer: a text file; its first line gives samples and numbers of each, every other line a class
 * and the numbers. */
#include <stdio.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"

#define NUMBERS_MAX 1000000

typedef struct state {
    int n, width;
    float *number; /* [n x width] */
    int64_t *label;
} state;

static bool probe(const char *path) { return qb_has_suffix(path, ".newcomer"); }

static qb_status read_numbers(qb_ctx *cx, state *s, const char *path, FILE *file) {
    bool ok = fscanf(file, "%d %d", &s->n, &s->width) == 2 && s->n > 0 && s->width > 0 &&
              s->n <= NUMBERS_MAX && s->width <= NUMBERS_MAX / s->n;
    if (!ok)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected two numbers, samples and width", path);
    s->number = qb_alloc(cx, (size_t)s->n * (size_t)s->width, sizeof *s->number);
    s->label = qb_alloc(cx, (size_t)s->n, sizeof *s->label);
    if (!s->number || !s->label) return cx->code;
    for (int i = 0; ok && i < s->n; i++) {
        long long label = 0;
        ok = fscanf(file, "%lld", &label) == 1;
        s->label[i] = label;
        for (int k = 0; ok && k < s->width; k++)
            ok = fscanf(file, "%f", &s->number[i * s->width + k]) == 1;
    }
    if (ok) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected %d lines of a class and %d numbers", path,
                   s->n, s->width);
}

static qb_status open_it(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    state *s = dataset->state = qb_alloc(cx, 1, sizeof *s);
    FILE *file = s ? fopen(dataset->path, "re") : NULL;
    if (!file) return s ? qb_fail_errno(cx, "open %s", dataset->path) : cx->code;
    qb_status status = read_numbers(cx, s, dataset->path, file);
    fclose(file);
    if (status != QB_OK) return status;
    return qb_dataset_add_rows(cx, dataset, s->n, s->label, labels);
}

static qb_status read_it(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                         qb_tensors *out) {
    const state *s = dataset->state;
    const qb_tensor row = {
        .desc = {.dtype = QB_DTYPE_F32, .layout = QB_LAYOUT_ROW, .shape = {2, {1, s->width}}},
        .data = s->number + sample->position * s->width};
    return qb_tensors_add(cx, out, NULL, &row);
}

static void close_it(qb_dataset *dataset) {
    state *s = dataset->state;
    if (!s) return;
    qb_free(s->number);
    qb_free(s->label);
    qb_free(s);
}

const qb_dataset_format qb_format_newcomer = {
    .name = "newcomer",
    .text = "a text file of numbers",
    .probe = probe,
    .open = open_it,
    .read_tensors = read_it,
    .close = close_it,
};
