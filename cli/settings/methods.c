#include "cli/settings/methods.h"

#include <string.h>

static const char *const standard[] = {"entropy", "percentile", "minmax", "mse", NULL};
static const char *const candidates[] = {"lp", "percentile:99.999", "aciq", "moving-average", NULL};

static bool has_choice(const qb_methods *list, const qb_method_choice *choice) {
    char wanted[QB_METHOD_TEXT], text[QB_METHOD_TEXT];
    qb_method_text(choice, wanted, sizeof wanted);
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(qb_method_text(&list->choice[i], text, sizeof text), wanted) == 0) return true;
    return false;
}

/* Adds a method unless it is there; silently none when there is no room. */
static qb_status add(qb_ctx *cx, const char *text, qb_methods *list) {
    qb_method_choice choice;
    QB_TRY(qb_method_parse(cx, text, &choice));
    if (list->n < QB_TABLE_METHODS && !has_choice(list, &choice)) list->choice[list->n++] = choice;
    return QB_OK;
}

/* The standard form of a method is left out where another form of it was asked for. */
static bool has_method(const qb_methods *list, const char *name) {
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->choice[i].method->name, name) == 0) return true;
    return false;
}

static qb_status parse_list(qb_ctx *cx, const char *text, qb_methods *list) {
    list->n = 0;
    for (const char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        char word[QB_METHOD_TEXT];
        if (length >= sizeof word || list->n == QB_TABLE_METHODS)
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--method %s: expected at most %d names of at most %d letters", text,
                           QB_TABLE_METHODS, QB_METHOD_TEXT - 1);
        memcpy(word, at, length);
        word[length] = '\0';
        qb_method_choice choice;
        QB_TRY(qb_method_parse(cx, word, &choice));
        if (has_choice(list, &choice))
            return qb_fail(cx, QB_STATUS_USAGE, "--method %s: %s is given twice", text, word);
        list->choice[list->n++] = choice;
        at += length + (at[length] == ',');
    }
    if (list->n > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE, "--method: expected a method, got nothing");
}

qb_status qb_methods_parse(qb_ctx *cx, const char *text, int64_t n_samples, qb_methods *out) {
    QB_TRY(parse_list(cx, text, out));
    for (int i = 0; standard[i]; i++)
        if (!has_method(out, standard[i])) QB_TRY(add(cx, standard[i], out));
    if (qb_methods_auto(out) < 0) return QB_OK;
    for (int i = 0; candidates[i]; i++) {
        const bool recorded = n_samples <= QB_TABLE_SAMPLES;
        if (recorded || strcmp(candidates[i], "moving-average") != 0)
            QB_TRY(add(cx, candidates[i], out));
    }
    return QB_OK;
}

int32_t qb_methods_auto(const qb_methods *methods) {
    for (int32_t i = 0; i < methods->n; i++)
        if (methods->choice[i].method->chooses) return i;
    return -1;
}
