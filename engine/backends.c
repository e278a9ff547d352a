#include "engine/backends.h"

#include <stdio.h>
#include <string.h>

#include "base/opt.h"
#include "base/strbuf.h"
#include "engine/device_internal.h"

typedef struct backend {
    const char *name;
    bool is_device;
} backend;

static const backend known_backends[] = {
#define QB_BACKEND(name, summary) {#name, false},
#define QB_DEVICE(name, summary) {#name, true},
#include "backends.def"
};

#define N_BACKENDS (int)(sizeof known_backends / sizeof *known_backends)
#define DEFAULT_BACKENDS "cpu,dnnl,ref"
_Static_assert(N_BACKENDS <= QB_BACKENDS_MAX, "qb_backend_list holds all");

/* One that this build has; else NULL. */
static const char *find_backend(const char *name, size_t n) {
    for (int i = 0; i < N_BACKENDS; i++) {
        const backend *b = &known_backends[i];
        if (strlen(b->name) == n && memcmp(b->name, name, n) == 0)
            return b->is_device && !qb_device_find(b->name) ? NULL : b->name;
    }
    return NULL;
}

/* What stands in a list but is nothing that this build has. */
static qb_status unknown_backend(qb_ctx *cx, const char *text, size_t n) {
    const char *names[N_BACKENDS + 1] = {NULL};
    char word[32];
    int known = 0;
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    for (int i = 0; i < N_BACKENDS; i++) {
        const backend *b = &known_backends[i];
        if (strcmp(b->name, word) == 0)
            return qb_fail(cx, QB_STATUS_USAGE, "backend '%s': this qbench was built without it",
                           word);
        if (!b->is_device || qb_device_find(b->name)) names[known++] = b->name;
    }
    const char *nearest = qb_nearest(word, names);
    if (nearest)
        return qb_fail(cx, QB_STATUS_USAGE, "backend '%s'; did you mean '%s'?", word, nearest);
    qb_strbuf known_text = {0};
    for (int i = 0; i < known; i++)
        qb_strbuf_addf(&known_text, "%s%s", i > 0 ? ", " : "", names[i]);
    qb_fail(cx, QB_STATUS_USAGE, "backend '%s': this qbench has %s", word,
            known_text.failed ? "others" : known_text.data);
    qb_strbuf_release(&known_text);
    return cx->code;
}

static bool has(const char *const *list, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (list[i] == name) return true;
    return false;
}

qb_status qb_backends_parse(qb_ctx *cx, const char *text, qb_backend_list *out) {
    *out = (qb_backend_list){0};
    if (text) {
        const size_t first = strcspn(text, ",");
        const char *name = find_backend(text, first);
        if (name) out->device = qb_device_find(name);
        if (out->device) text = text[first] == ',' && text[first + 1] ? text + first + 1 : NULL;
    }
    const bool lenient = !text;
    int n = 0;
    if (lenient) text = DEFAULT_BACKENDS;
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, ",");
        const char *name = find_backend(at, length);
        if (!name && !lenient) return unknown_backend(cx, at, length);
        if (name && qb_device_find(name))
            return qb_fail(cx, QB_STATUS_USAGE, "backend '%s' must be the first of the list", name);
        if (name && !has(out->name, n, name)) out->name[n++] = name;
        at += length + (at[length] == ',');
    }
    const char *ref = find_backend("ref", 3);
    if (!has(out->name, n, ref)) out->name[n] = ref;
    return QB_OK;
}

const char *qb_backends_text(qb_ctx *cx, const qb_backend_list *list, qb_arena *arena) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    if (list->device) qb_strbuf_addf(&text, "%s,", list->device->backend);
    for (int i = 0; list->name[i]; i++)
        qb_strbuf_addf(&text, "%s%s", i > 0 ? "," : "", list->name[i]);
    if (text.failed) qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    return text.failed ? NULL : qb_arena_strdup(cx, arena, text.data);
}

qb_status qb_backends_check(qb_ctx *cx, const char *backends) {
    qb_backend_list list;
    QB_TRY(qb_backends_parse(cx, backends, &list));
    if (!*backends) return unknown_backend(cx, "", 0);
    if (list.device) QB_TRY_WRAP(cx, list.device->open(cx, 0, NULL), "backend '%s'", backends);
    return QB_OK;
}

char *qb_backends_name(qb_ctx *cx, const char *backends) {
    qb_backend_list list, usual;
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    if (qb_backends_parse(cx, backends, &list) != QB_OK) return NULL;
    qb_backends_parse(cx, NULL, &usual); /* never fails */
    const bool default_behind = memcmp(list.name, usual.name, sizeof list.name) == 0,
               own = strcmp(list.name[0], "cpu") == 0;
    if (list.device) qb_strbuf_addf(&text, "%.*s", (int)strcspn(backends, ","), backends);
    if (!list.device && default_behind) qb_strbuf_add(&text, "cpu");
    for (int i = 0; list.name[i] && !default_behind; i++)
        if (list.name[i + 1] || i == 0 || (i == 1 && own))
            qb_strbuf_addf(&text, "%s%s", text.size > 0 ? "," : "", list.name[i]);
    char *name = text.failed ? NULL : qb_strdup(cx, text.data);
    if (text.failed) qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    return name;
}

bool qb_backends_name_device(const char *backends) {
    const char *first = backends ? find_backend(backends, strcspn(backends, ",")) : NULL;
    return first && qb_device_find(first);
}
