#include "pack.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are packed as they are");

void qb_pack_refuse(qb_pack *p, const char *what) {
    if (p->status == QB_OK)
        p->status = qb_fail(p->cx, QB_STATUS_FORMAT, "%s: damaged: %s", p->name, what);
}

void qb_pack_bytes(qb_pack *p, void *data, size_t n) {
    if (p->reads && (p->status != QB_OK || n > p->left)) {
        memset(data, 0, n);
        qb_pack_refuse(p, "it ends too early");
    } else if (p->reads) {
        if (n > 0) memcpy(data, p->at, n);
        p->at += n;
        p->left -= n;
    } else {
        qb_strbuf_addn(&p->out, data, n);
    }
}

void qb_pack_bool(qb_pack *p, bool *value) {
    uint8_t byte = *value;
    QB_PACK(p, byte);
    *value = byte != 0;
}

void qb_pack_count(qb_pack *p, int64_t *n, size_t each) {
    QB_PACK(p, *n);
    if (!p->reads || (*n >= 0 && (uint64_t)*n <= p->left / (each > 0 ? each : 1))) return;
    qb_pack_refuse(p, "more things are counted than there are");
    *n = 0;
}

void qb_pack_list(qb_pack *p, void **list, int64_t *n, size_t size) {
    qb_pack_count(p, n, size);
    if (p->reads && p->status == QB_OK) {
        *list = qb_alloc(p->cx, (size_t)*n + 1, size);
        if (!*list) p->status = p->cx->code;
    }
    if (p->status != QB_OK)
        *n = 0;
    else
        qb_pack_bytes(p, *list, (size_t)*n * size);
}

void qb_pack_number_of(qb_pack *p, int64_t *n, int64_t most) {
    QB_PACK(p, *n);
    if (p->reads && p->status == QB_OK && (*n < 0 || *n > most))
        qb_pack_refuse(p, "a number of things that cannot be");
}

void qb_pack_text(qb_pack *p, char **text) {
    int64_t n = !p->reads && *text ? (int64_t)strlen(*text) : 0;
    void *list = p->reads ? NULL : *text;
    qb_pack_list(p, &list, &n, 1); /* one byte more is there, and zero */
    if (!p->reads) return;
    *text = list;
    if (list && strlen(list) != (size_t)n) qb_pack_refuse(p, "a text with a zero byte");
}

qb_status qb_pack_end(qb_pack *p) {
    if (p->out.failed && p->status == QB_OK)
        p->status = qb_fail(p->cx, QB_STATUS_NOMEM, "out of memory");
    if (p->reads && p->left > 0) qb_pack_refuse(p, "more bytes than expected");
    return p->status;
}
