#include "calib/calib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

#define QB_CALIB_METHOD(name) extern const qb_calib_method qb_calib_method_##name;
#include "calib/methods.def"
#undef QB_CALIB_METHOD

static const qb_calib_method *const known[] = {
#define QB_CALIB_METHOD(name) &qb_calib_method_##name,
#include "calib/methods.def"
#undef QB_CALIB_METHOD
};
enum { N_METHODS = sizeof known / sizeof known[0] };

const qb_calib_method *const *qb_calib_methods(int32_t *n) {
    *n = N_METHODS;
    return known;
}

static qb_status unknown_method(qb_ctx *cx, const char *text) {
    qb_strbuf names = {0};
    for (int i = 0; i < N_METHODS; i++) {
        qb_strbuf_addf(&names, "%s%s", i ? ", " : "", known[i]->name);
        if (known[i]->argument) qb_strbuf_addf(&names, "[:%s]", known[i]->argument);
    }
    qb_status status = qb_fail(cx, QB_STATUS_USAGE, "unknown calibration method '%s': expected %s",
                               text, names.data ? names.data : "a known one");
    qb_strbuf_release(&names);
    return status;
}

static qb_status parse_argument(qb_ctx *cx, const qb_calib_method *method, const char *text,
                                double *out) {
    if (!method->argument)
        return qb_fail(cx, QB_STATUS_USAGE, "calibration method %s takes no argument, got '%s'",
                       method->name, text);
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= method->argument_min) ||
        !(value <= method->argument_max))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "calibration method %s: expected a number from %g to %g after the colon, "
                       "got '%s'",
                       method->name, method->argument_min, method->argument_max, text);
    *out = value;
    return QB_OK;
}

qb_status qb_method_parse(qb_ctx *cx, const char *text, qb_method_choice *out) {
    size_t length = strcspn(text, ":");
    for (int i = 0; i < N_METHODS; i++) {
        if (strlen(known[i]->name) != length || strncmp(known[i]->name, text, length) != 0)
            continue;
        qb_method_choice choice = {known[i], known[i]->argument_default};
        if (text[length] == ':')
            QB_TRY(parse_argument(cx, known[i], text + length + 1, &choice.argument));
        *out = choice;
        return QB_OK;
    }
    return unknown_method(cx, text);
}

char *qb_method_text(const qb_method_choice *choice, char *text, size_t n) {
    if (choice->method->argument)
        snprintf(text, n, "%s:%.12g", choice->method->name, choice->argument);
    else
        snprintf(text, n, "%s", choice->method->name);
    return text;
}

static qb_status name_methods(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                              int32_t n_methods) {
    if (n_methods < 1 || n_methods > QB_TABLE_METHODS)
        return qb_fail(cx, QB_STATUS_USAGE, "expected 1 to %d calibration methods, got %d",
                       QB_TABLE_METHODS, n_methods);
    for (int32_t m = 0; m < n_methods; m++) {
        qb_method_text(&methods[m], table->method[m], QB_METHOD_TEXT);
        for (int32_t k = 0; k < m; k++)
            if (strcmp(table->method[k], table->method[m]) == 0)
                return qb_fail(cx, QB_STATUS_USAGE, "calibration method %s is given twice",
                               table->method[m]);
    }
    table->n_methods = n_methods;
    return QB_OK;
}

qb_status qb_table_choose(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                          int32_t n_methods) {
    QB_TRY(name_methods(cx, table, methods, n_methods));
    for (int32_t i = 0; i < table->n_entries; i++) {
        qb_table_entry *e = &table->entry[i];
        for (int32_t m = 0; m < n_methods; m++)
            QB_TRY_WRAP(cx,
                        methods[m].method->range(cx, e->stats, methods[m].argument, &e->range[m]),
                        "tensor '%s': %s", e->name, table->method[m]);
    }
    return QB_OK;
}
