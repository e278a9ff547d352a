#include <math.h>
#include <string.h>

#include "eval/task.h"

#define X(name) extern const qb_task qb_task_##name;
#include "eval/tasks.def"

const qb_task *const qb_tasks[] = {
#define X(name) &qb_task_##name,
#include "eval/tasks.def"
    NULL};
enum { TASKS = sizeof qb_tasks / sizeof *qb_tasks - 1 };

void qb_task_settings_default(qb_task_settings *s) {
    *s = (qb_task_settings){.segment = {.threshold = 0.5}};
    qb_detect_settings_default(&s->detect);
}

void qb_task_settings_release(qb_task_settings *s) {
    qb_detect_settings_release(&s->detect);
    qb_labels_release(&s->segment.classes);
    qb_free(QB_MOVE(s->output));
}

const qb_task *qb_task_guess(qb_ctx *cx, const qb_task_data *data) {
    for (int i = 0; i < TASKS; i++)
        if (qb_tasks[i]->fits && qb_tasks[i]->fits(cx, data)) return qb_tasks[i];
    return NULL;
}

/* Is `word` one of those in `words`? */
static bool is_among(const char *word, const char *words) {
    const size_t n = strlen(word);
    if (n == 0) return false;
    for (const char *at = words; (at = strstr(at, word)) != NULL; at++)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

static const qb_task *find_word(const char *word) {
    for (int i = 0; i < TASKS; i++)
        if (strcmp(word, qb_tasks[i]->name) == 0 || is_among(word, qb_tasks[i]->words))
            return qb_tasks[i];
    return NULL;
}

const qb_task *qb_task_find(const char *text) {
    const qb_task *task = find_word(text);
    const char *last = NULL;
    for (const char *c = text; *c != '\0'; c++)
        if (strchr(" -_", *c)) last = c + 1;
    return task || !last ? task : find_word(last);
}

qb_status qb_task_of_word(qb_ctx *cx, const char *word, const qb_task **out) {
    const char *names[TASKS + 1] = {NULL};
    char text[512];
    for (int i = 0; i < TASKS; i++) names[i] = qb_tasks[i]->name;
    *out = qb_task_find(word);
    if (*out) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "task: %s",
                   qb_word_error(names, word, text, sizeof text));
}

qb_status qb_run_metric_add(qb_ctx *cx, qb_run_row *row, const qb_metric_label *label,
                            const qb_run_metric *numbers) {
    size_t capacity = (size_t)row->n_metrics;
    QB_TRY(qb_grow(cx, &row->metric, &capacity, (size_t)row->n_metrics + 1, sizeof *row->metric));
    qb_run_metric *out = &row->metric[row->n_metrics++];
    *out = *numbers;
    out->name = qb_strdup(cx, label->name);
    out->title = qb_strdup(cx, label->title);
    out->unit = qb_strdup(cx, label->unit);
    out->definition = qb_strdup(cx, label->definition);
    return out->name && out->title && out->unit && out->definition ? QB_OK : cx->code;
}

qb_status qb_run_number_add(qb_ctx *cx, qb_run_row *row, const qb_metric_label *label,
                            double value) {
    return qb_run_metric_add(
        cx, row, label,
        &(qb_run_metric){.value = value, .ci = {NAN, NAN}, .drop = NAN, .drop_ci = {NAN, NAN}});
}

qb_status qb_run_class_score_add(qb_ctx *cx, qb_run_row *row, const char *name, double value,
                                 int64_t n) {
    size_t capacity = (size_t)row->n_per_class;
    QB_TRY(qb_grow(cx, &row->per_class, &capacity, (size_t)row->n_per_class + 1,
                   sizeof *row->per_class));
    char *copy = QB_NEW(cx, qb_strdup(cx, name));
    row->per_class[row->n_per_class++] = (qb_run_class_score){copy, value, n};
    return QB_OK;
}
