#include "json_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void qb_json_reader_init(qb_ctx *cx, const char *name, const char *text, size_t n,
                         qb_json_reader *out) {
    const bool marked = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0; /* byte order mark */
    *out = (qb_json_reader){
        .cx = cx, .name = name, .begin = text, .at = text + (marked ? 3 : 0), .end = text + n};
}

void qb_json_reader_release(qb_json_reader *r) { qb_strbuf_release(&r->text); }

qb_status qb_json_fail(qb_json_reader *r, const char *fmt, ...) {
    char message[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    long long line = 1;
    const char *start = r->begin;
    for (const char *c = r->begin; c < r->at; c++)
        if (*c == '\n') {
            line++;
            start = c + 1;
        }
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: line %lld, column %lld: %s", r->name, line,
                   (long long)(r->at - start) + 1, message);
}

static void skip_space(qb_json_reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

qb_json_kind qb_json_peek(qb_json_reader *r) {
    skip_space(r);
    if (r->at >= r->end) return QB_JSON_NOTHING;
    switch (*r->at) {
    case '{': return QB_JSON_OBJECT;
    case '[': return QB_JSON_LIST;
    case '"': return QB_JSON_STRING;
    case 't':
    case 'f': return QB_JSON_BOOL;
    case 'n': return QB_JSON_NULL;
    default:
        return *r->at == '-' || (*r->at >= '0' && *r->at <= '9') ? QB_JSON_NUMBER : QB_JSON_NOTHING;
    }
}

static qb_status unexpected(qb_json_reader *r, const char *expected) {
    skip_space(r);
    if (r->at >= r->end) return qb_json_fail(r, "expected %s, the text ends", expected);
    size_t n = 0;
    while (n < 16 && r->at + n < r->end && (unsigned char)r->at[n] > ' ' &&
           (unsigned char)r->at[n] < 0x7f)
        n++;
    return qb_json_fail(r, "expected %s, got '%.*s'", expected, (int)n, r->at);
}

qb_status qb_json_enter(qb_json_reader *r, qb_json_kind kind) {
    if (qb_json_peek(r) != kind)
        return unexpected(r, kind == QB_JSON_LIST ? "a list" : "an object");
    if (r->depth >= QB_JSON_DEPTH_MAX)
        return qb_json_fail(r, "more than %d objects and lists in one another", QB_JSON_DEPTH_MAX);
    r->at++;
    r->lists = r->lists << 1 | (kind == QB_JSON_LIST);
    r->depth++;
    r->first = true;
    return QB_OK;
}

/* ---- strings ---- */

static int32_t hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits after \u. */
static qb_status read_hex(qb_json_reader *r, uint32_t *out) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const int32_t digit = r->at < r->end ? hex_digit(*r->at) : -1;
        if (digit < 0) return qb_json_fail(r, "expected four hexadecimal digits after \\u");
        value = value * 16 + (uint32_t)digit;
    }
    *out = value;
    return QB_OK;
}

static void add_character(qb_strbuf *out, uint32_t code) {
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    char bytes[4];
    for (int i = n - 1; i > 0; i--, code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(n == 1 ? code : lead[n] | code);
    qb_strbuf_addn(out, bytes, (size_t)n);
}

static qb_status read_unicode(qb_json_reader *r) {
    uint32_t code, low;
    QB_TRY(read_hex(r, &code));
    if (code >= 0xd800 && code < 0xdc00 && r->end - r->at >= 6 && memcmp(r->at, "\\u", 2) == 0) {
        r->at += 2;
        QB_TRY(read_hex(r, &low));
        if (low < 0xdc00 || low > 0xdfff) return qb_json_fail(r, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code < 0xe000) {
        return qb_json_fail(r, "half a surrogate pair");
    }
    if (code < ' ' || code == 0x7f) return qb_json_fail(r, "a control character in a string");
    add_character(&r->text, code);
    return QB_OK;
}

static qb_status read_escape(qb_json_reader *r) {
    static const char from[] = "\"\\/", blank[] = "bfnrt"; /* the latter become a space */
    const char c = r->at < r->end ? *r->at++ : '\0';
    if (c == 'u') return read_unicode(r);
    if (c != '\0' && strchr(from, c))
        qb_strbuf_addn(&r->text, &c, 1);
    else if (c != '\0' && strchr(blank, c))
        qb_strbuf_addn(&r->text, " ", 1);
    else
        return qb_json_fail(r, "an escape that JSON does not know");
    return QB_OK;
}

qb_status qb_json_read_text(qb_json_reader *r) {
    if (qb_json_peek(r) != QB_JSON_STRING) return unexpected(r, "a string");
    r->at++;
    if (r->text.data) r->text.data[0] = '\0';
    r->text.size = 0;
    for (;;) {
        const char *run = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (unsigned char)*r->at >= ' ' &&
               *r->at != 0x7f)
            r->at++;
        qb_strbuf_addn(&r->text, run, (size_t)(r->at - run));
        if (r->at >= r->end) return qb_json_fail(r, "a string without an end");
        const char c = *r->at;
        if (c != '"' && c != '\\') return qb_json_fail(r, "a control character in a string");
        r->at++;
        if (c == '"') break;
        QB_TRY(read_escape(r));
    }
    if (r->text.failed) return qb_fail(r->cx, QB_STATUS_NOMEM, "%s: a long string", r->name);
    return QB_OK;
}

/* ---- members and elements ---- */

static qb_status read_key(qb_json_reader *r) {
    if (qb_json_peek(r) != QB_JSON_STRING) return unexpected(r, "a key in quotes");
    QB_TRY(qb_json_read_text(r));
    const size_t n = r->text.size < sizeof r->key ? r->text.size : sizeof r->key - 1;
    if (n > 0) memcpy(r->key, r->text.data, n);
    r->key[n] = '\0';
    skip_space(r);
    if (r->at >= r->end || *r->at != ':') return unexpected(r, "':'");
    r->at++;
    return QB_OK;
}

qb_status qb_json_next(qb_json_reader *r, bool *more) {
    const bool list = r->lists & 1;
    const char close = list ? ']' : '}';
    skip_space(r);
    *more = !(r->at < r->end && *r->at == close);
    if (!*more) {
        r->at++;
        r->lists >>= 1;
        r->depth--;
        r->first = false;
        return QB_OK;
    }
    if (!r->first) {
        if (r->at >= r->end || *r->at != ',')
            return unexpected(r, list ? "',' or ']'" : "',' or '}'");
        r->at++;
    }
    r->first = false;
    return list ? QB_OK : read_key(r);
}

/* ---- numbers ---- */

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

/* The end of the number that begins at r->at, NULL where there is none. */
static const char *number_end(const qb_json_reader *r) {
    const char *at = r->at + (*r->at == '-'), *digits = at;
    at = skip_digits(at, r->end);
    if (at == digits || (*digits == '0' && at - digits > 1)) return NULL;
    if (at < r->end && *at == '.') {
        digits = ++at;
        at = skip_digits(at, r->end);
        if (at == digits) return NULL;
    }
    if (at < r->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < r->end && (*at == '+' || *at == '-')) at++;
        digits = at;
        at = skip_digits(at, r->end);
        if (at == digits) return NULL;
    }
    return at;
}

/* Up to 15 digits and 22 places are exact in one division of doubles. */
static bool convert_short(const char *at, const char *end, double *out) {
    static const double power[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const bool negative = *at == '-';
    int64_t value = 0;
    int digits = 0, places = 0;
    bool point = false;
    for (at += negative; at < end; at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        if (*at < '0' || *at > '9' || ++digits > 15) return false;
        value = value * 10 + (*at - '0');
        places += point;
    }
    const double result = (double)value / power[places];
    *out = negative ? -result : result;
    return true;
}

qb_status qb_json_read_number(qb_json_reader *r, double *out) {
    const char *end = qb_json_peek(r) == QB_JSON_NUMBER ? number_end(r) : NULL;
    if (!end) return unexpected(r, "a number");
    double value;
    if (!convert_short(r->at, end, &value)) {
        char copy[512];
        const size_t n = (size_t)(end - r->at);
        if (n >= sizeof copy) return qb_json_fail(r, "a number of %zu characters", n);
        memcpy(copy, r->at, n);
        copy[n] = '\0';
        value = strtod(copy, NULL);
        if (!isfinite(value)) return qb_json_fail(r, "a number that no double holds");
    }
    r->at = end;
    *out = value;
    return QB_OK;
}

qb_status qb_json_read_integer(qb_json_reader *r, int64_t *out) {
    const char *end = qb_json_peek(r) == QB_JSON_NUMBER ? number_end(r) : NULL;
    if (!end) return unexpected(r, "a whole number");
    const bool negative = *r->at == '-';
    const char *c = r->at + negative;
    int64_t value = 0;
    for (; c < end && *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c - '0', &value))
            return unexpected(r, "a whole number of 64 bits");
    if (c == end) {
        *out = negative ? -value : value;
        r->at = end;
        return QB_OK;
    }
    const char *start = r->at;
    double number;
    QB_TRY(qb_json_read_number(r, &number));
    if (number != floor(number) || fabs(number) > 0x1p53) {
        r->at = start;
        return unexpected(r, "a whole number");
    }
    *out = (int64_t)number;
    return QB_OK;
}

static bool take_word(qb_json_reader *r, const char *word) {
    const size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

qb_status qb_json_read_bool(qb_json_reader *r, bool *out) {
    const qb_json_kind kind = qb_json_peek(r);
    double number;
    if (kind == QB_JSON_NUMBER) {
        QB_TRY(qb_json_read_number(r, &number));
        *out = number != 0;
    } else if (kind == QB_JSON_BOOL && take_word(r, "true")) {
        *out = true;
    } else if (kind == QB_JSON_BOOL && take_word(r, "false")) {
        *out = false;
    } else {
        return unexpected(r, "true, false, 0 or 1");
    }
    return QB_OK;
}

static qb_status skip_scalar(qb_json_reader *r, qb_json_kind kind) {
    const char *end;
    bool flag;
    switch (kind) {
    case QB_JSON_STRING: return qb_json_read_text(r);
    case QB_JSON_BOOL: return qb_json_read_bool(r, &flag);
    case QB_JSON_NUMBER:
        end = number_end(r);
        if (!end) break;
        r->at = end;
        return QB_OK;
    case QB_JSON_NULL:
        if (take_word(r, "null")) return QB_OK;
        break;
    default: break;
    }
    return unexpected(r, "a value");
}

qb_status qb_json_skip(qb_json_reader *r) {
    const int32_t depth = r->depth;
    do {
        const qb_json_kind kind = qb_json_peek(r);
        if (kind == QB_JSON_OBJECT || kind == QB_JSON_LIST)
            QB_TRY(qb_json_enter(r, kind));
        else
            QB_TRY(skip_scalar(r, kind));
        for (bool more = false; r->depth > depth && !more;) QB_TRY(qb_json_next(r, &more));
    } while (r->depth > depth);
    return QB_OK;
}

qb_status qb_json_read_end(qb_json_reader *r) {
    skip_space(r);
    return r->at >= r->end ? QB_OK : unexpected(r, "nothing after the value");
}
