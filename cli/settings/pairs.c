#include "cli/settings/pairs.h"

#include <string.h>

#include "base/strbuf.h"

bool qb_pair_next(const char **at, qb_pair *out) {
    if (!*at || **at == '\0') return false;
    const char *text = *at;
    const size_t length = strcspn(text, ",");
    const char *colon = memrchr(text, ':', length);
    *out = (qb_pair){.name = colon ? text : NULL,
                     .name_length = colon ? (size_t)(colon - text) : 0,
                     .value = colon ? colon + 1 : text};
    out->value_length = length - (size_t)(out->value - text);
    *at = text + length + (text[length] == ',');
    return true;
}

bool qb_pair_is(const qb_pair *pair, const char *name) {
    return pair->name && strlen(name) == pair->name_length &&
           memcmp(pair->name, name, pair->name_length) == 0;
}

static int32_t index_of(const qb_pair *pair, const char *const *names, int32_t n) {
    int32_t i = n - 1;
    while (i >= 0 && !qb_pair_is(pair, names[i])) i--;
    return i < 0 && !pair->name && n == 1 ? 0 : i;
}

/* Does an element behind this one mean the same input? It would replace it. */
static bool comes_again(const qb_pair *pair, const char *const *names, int32_t n, int32_t index) {
    const char *rest = pair->value + pair->value_length;
    qb_pair next;
    if (*rest == ',') rest++;
    while (qb_pair_next(&rest, &next))
        if (index_of(&next, names, n) == index) return true;
    return false;
}

qb_status qb_pair_input(qb_ctx *cx, const char *option, const qb_pair *pair,
                        const char *const *names, int32_t n, int32_t *index) {
    int32_t i = index_of(pair, names, n);
    *index = i;
    if (i >= 0 && comes_again(pair, names, n, i))
        return qb_fail(cx, QB_STATUS_USAGE, "--%s: input '%s' is given twice", option, names[i]);
    if (i >= 0) return QB_OK;
    qb_strbuf known = {0};
    char *text;
    if (n == 0) qb_strbuf_add(&known, "none");
    for (i = 0; i < n; i++) qb_strbuf_addf(&known, "%s%s", i > 0 ? ", " : "", names[i]);
    QB_TRY(qb_strbuf_take(cx, &known, &text));
    qb_fail(cx, QB_STATUS_USAGE, "--%s: the model has no input '%.*s'; it has %s", option,
            (int)(pair->name ? pair->name_length : pair->value_length),
            pair->name ? pair->name : pair->value, text);
    qb_free(text);
    return cx->code;
}
