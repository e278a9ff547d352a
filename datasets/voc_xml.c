/* PASCAL VOC's annotations: as much of XML as they and their tools need. Elements are those of the
 * places where VOC has them, so that parts of objects (`part`) have names and boxes of their own.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "datasets/truth_internal.h"

enum { DEPTH = 32, TAG_BYTES = 64, VALUE_BYTES = 4096 };

static const char *const corners[] = {"xmin", "ymin", "xmax", "ymax"};

typedef struct reader {
    qb_ctx *cx;
    qb_coco *truth;
    const char *at, *end;
    int depth; /* open elements */
    char open[DEPTH][TAG_BYTES];
    bool whole;     /* there was an <annotation>, with its end */
    bool leaf;      /* the innermost element has had no other inside */
    qb_strbuf text; /* of the innermost element */
    /* the object so far */
    qb_strbuf name;
    double corner[4];
    bool has_name, has_corner[4], difficult;
    char none[1]; /* where there is no text */
} reader;

static qb_status bad(reader *r, const char *what) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s", what);
}

/* ---- objects --------------------------------------------------------------------------------- */

static bool is_open(const reader *r, int depth, const char *tag) {
    return r->depth > depth && strcmp(r->open[depth], tag) == 0;
}

static void clear(qb_strbuf *text) {
    text->size = 0;
    if (text->data) text->data[0] = '\0';
}

static void begin_object(reader *r) {
    clear(&r->name);
    r->has_name = r->difficult = false;
    memset(r->has_corner, 0, sizeof r->has_corner);
}

/* The category of a name, new ones at the end. Ids are ranks, so they stay in order. */
static qb_status category_named(reader *r, int32_t *out) {
    qb_coco *t = r->truth;
    QB_FREED char *name = QB_NEW(r->cx, qb_text_clean(r->cx, r->name.data));
    const uint32_t hash = qb_index_hash(name, strlen(name));
    for (size_t at = 0; (*out = qb_index_next(&t->by_name, hash, &at)) >= 0;)
        if (strcmp(t->category[*out].name, name) == 0) return QB_OK;
    *out = t->n_categories;
    QB_TRY(qb_truth_add_category(r->cx, t, name));
    return qb_index_add(r->cx, &t->by_name, hash, *out);
}

static qb_status end_object(reader *r) {
    const double *v = r->corner;
    int32_t category;
    if (!r->has_name) return bad(r, "an object without name");
    for (int k = 0; k < 4; k++)
        if (!r->has_corner[k])
            return qb_fail(r->cx, QB_STATUS_FORMAT, "an object without %s in its bndbox",
                           corners[k]);
    QB_TRY(category_named(r, &category));
    const double box[] = {v[0] - 1, v[1] - 1, v[2] - v[0] + 1, v[3] - v[1] + 1};
    return qb_truth_add_object(r->cx, r->truth, category, box, r->difficult);
}

/* The text of the innermost element, without blanks around it. */
static char *trimmed(reader *r) {
    char *begin = r->text.data ? r->text.data : r->none, *end = begin + strlen(begin);
    while (end > begin && isspace((unsigned char)end[-1])) *--end = '\0';
    while (isspace((unsigned char)*begin)) begin++;
    return begin;
}

static qb_status take_name(reader *r) {
    const char *name = trimmed(r);
    if (!r->leaf) return bad(r, "name: expected a text");
    if (r->has_name) return bad(r, "an object with two names");
    if (!*name) return bad(r, "an object without name");
    r->has_name = true;
    qb_strbuf_add(&r->name, name);
    return r->name.failed ? qb_fail(r->cx, QB_STATUS_NOMEM, "out of memory") : QB_OK;
}

static qb_status take_number(reader *r, const char *tag, double *out) {
    char *end, *text = trimmed(r);
    *out = strtod(text, &end);
    if (!r->leaf || end == text || *end || !isfinite(*out) || fabs(*out) >= 1e9)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: expected a number, got '%.40s'", tag, text);
    return QB_OK;
}

/* The innermost element, which ends: its text counts where VOC has it. */
static qb_status take(reader *r) {
    const char *tag = r->open[r->depth - 1];
    double number;
    if (!is_open(r, 1, "object")) return QB_OK;
    if (r->depth == 2) return end_object(r);
    if (r->depth == 3 && strcmp(tag, "name") == 0) return take_name(r);
    if (r->depth == 3 && strcmp(tag, "difficult") == 0) {
        QB_TRY(take_number(r, tag, &number));
        r->difficult = number != 0;
    }
    for (int k = 0; r->depth == 4 && is_open(r, 2, "bndbox") && k < 4; k++) {
        if (strcmp(tag, corners[k]) != 0) continue;
        if (r->has_corner[k]) return qb_fail(r->cx, QB_STATUS_FORMAT, "%s is given twice", tag);
        QB_TRY(take_number(r, tag, &r->corner[k]));
        r->has_corner[k] = true;
    }
    return QB_OK;
}

/* ---- XML ------------------------------------------------------------------------------------- */

/* Goes behind the next occurrence of a text; false: there is none. */
static bool skip_behind(reader *r, const char *text) {
    const char *found = memmem(r->at, (size_t)(r->end - r->at), text, strlen(text));
    if (found) r->at = found + strlen(text);
    return found != NULL;
}

static bool begins(const reader *r, const char *text) {
    const size_t n = strlen(text);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0;
}

static void add_text(reader *r, const char *text, size_t n) {
    if (r->text.size + n < VALUE_BYTES)
        qb_strbuf_addn(&r->text, text, n);
    else
        r->leaf = false; /* no name and no number is that long */
}

static void add_character(reader *r, uint32_t code) {
    char out[4];
    size_t n = 0;
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char head[] = {0, 0xC0, 0xE0, 0xF0};
    out[n++] = (char)(head[more] | code >> 6 * more);
    for (int k = more - 1; k >= 0; k--) out[n++] = (char)(0x80 | (code >> 6 * k & 0x3F));
    add_text(r, out, n);
}

/* "&amp;", "&#228;", "&#xE4;". */
static qb_status read_entity(reader *r) {
    static const struct {
        const char *text;
        char character;
    } known[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(r, known[i].text)) {
            r->at += strlen(known[i].text);
            add_text(r, &known[i].character, 1);
            return QB_OK;
        }
    char digits[16], *end;
    const size_t left = (size_t)(r->end - r->at);
    snprintf(digits, sizeof digits, "%.*s", (int)(left < 15 ? left : 15), r->at);
    const bool hexadecimal = begins(r, "&#x");
    const char *from = digits + 2 + hexadecimal;
    unsigned long code = 0;
    if (begins(r, "&#")) code = strtoul(from, &end, hexadecimal ? 16 : 10);
    if (code == 0 || code > 0x10FFFF || !isalnum((unsigned char)*from) || *end != ';')
        return qb_fail(r->cx, QB_STATUS_FORMAT, "'%.10s': an entity that is not known", digits);
    add_character(r, (uint32_t)code);
    r->at += end + 1 - digits;
    return QB_OK;
}

static qb_status read_text(reader *r) {
    if (*r->at == '&') return read_entity(r);
    const char *from = r->at;
    while (r->at < r->end && *r->at != '<' && *r->at != '&') r->at++;
    add_text(r, from, (size_t)(r->at - from));
    return QB_OK;
}

/* The name of a tag, behind its '<' or "</". */
static qb_status read_tag(reader *r, char tag[TAG_BYTES]) {
    size_t n = 0;
    while (r->at < r->end && !isspace((unsigned char)*r->at) && !strchr("/><=&", *r->at)) {
        if (n + 1 == TAG_BYTES) return bad(r, "a tag of more than 63 bytes");
        tag[n++] = *r->at++;
    }
    tag[n] = '\0';
    return n > 0 ? QB_OK : bad(r, "a '<' without a tag");
}

static qb_status close_element(reader *r, const char *tag) {
    if (r->depth == 0 || strcmp(r->open[r->depth - 1], tag) != 0)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "</%s>, but open is %s", tag,
                       r->depth > 0 ? r->open[r->depth - 1] : "nothing");
    QB_TRY(take(r));
    r->depth--;
    r->leaf = false;
    clear(&r->text);
    r->whole = r->depth == 0;
    return QB_OK;
}

static qb_status open_element(reader *r, const char *tag) {
    if (r->depth == 0 && (r->whole || strcmp(tag, "annotation") != 0))
        return bad(r, "expected one <annotation>");
    if (r->depth == DEPTH)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "elements nested more than %d deep", DEPTH);
    snprintf(r->open[r->depth++], TAG_BYTES, "%s", tag);
    r->leaf = true;
    clear(&r->text);
    if (r->depth == 2 && is_open(r, 1, "object")) begin_object(r);
    return QB_OK;
}

/* What stands between a tag and its '>'; *empty: "/>". */
static qb_status skip_attributes(reader *r, bool *empty) {
    char quote = 0;
    for (; r->at < r->end; r->at++) {
        if (quote) {
            if (*r->at == quote) quote = 0;
        } else if (*r->at == '"' || *r->at == '\'') {
            quote = *r->at;
        } else if (*r->at == '>') {
            *empty = r->at[-1] == '/';
            r->at++;
            return QB_OK;
        }
    }
    return bad(r, "a tag without its '>'");
}

static qb_status read_element(reader *r) {
    char tag[TAG_BYTES];
    bool empty;
    const bool closes = begins(r, "</");
    r->at += 1 + closes;
    QB_TRY(read_tag(r, tag));
    QB_TRY(skip_attributes(r, &empty));
    if (closes) return close_element(r, tag);
    QB_TRY(open_element(r, tag));
    return empty ? close_element(r, tag) : QB_OK;
}

static qb_status read_cdata(reader *r) {
    const char *from = r->at + strlen("<![CDATA[");
    r->at = from;
    if (!skip_behind(r, "]]>")) return bad(r, "a <![CDATA[ without its ']]>'");
    add_text(r, from, (size_t)(r->at - from) - 3);
    return QB_OK;
}

static qb_status read_doctype(reader *r) {
    const char *from = r->at;
    if (!skip_behind(r, ">") || memchr(from, '[', (size_t)(r->at - from)))
        return bad(r, "a document type with declarations of its own");
    return QB_OK;
}

static qb_status read_next(reader *r) {
    if (*r->at != '<') return read_text(r);
    if (begins(r, "<!--")) return skip_behind(r, "-->") ? QB_OK : bad(r, "a comment without end");
    if (begins(r, "<?")) return skip_behind(r, "?>") ? QB_OK : bad(r, "a <? without its '?>'");
    if (begins(r, "<![CDATA[")) return read_cdata(r);
    if (begins(r, "<!")) return read_doctype(r);
    return read_element(r);
}

static qb_status read_all(reader *r) {
    if (memchr(r->at, '\0', (size_t)(r->end - r->at)))
        return bad(r, "expected text in UTF-8, got a zero byte");
    while (r->at < r->end) QB_TRY(read_next(r));
    if (r->text.failed) return qb_fail(r->cx, QB_STATUS_NOMEM, "out of memory");
    if (r->depth > 0)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s is without its end: the file is cut short",
                       r->open[r->depth - 1]);
    return r->whole ? QB_OK : bad(r, "expected an <annotation>");
}

qb_status qb_voc_objects_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                               qb_coco *truth) {
    reader r = {.cx = cx, .truth = truth, .at = text, .end = text + n};
    const qb_status status = read_all(&r);
    int line = 1;
    for (const char *c = text; c < r.at; c++) line += *c == '\n';
    qb_strbuf_release(&r.text);
    qb_strbuf_release(&r.name);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s:%d", name, line);
}
