#include "onnx_tree.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "graph/op.h"
#include "onnx.pb-c.h"

enum { MAX_FIELDS = 1 << 14, MAX_DEPTH = 24, MAX_CHANGES = 4 };
enum { WIRE_VARINT, WIRE_64, WIRE_LENGTH, WIRE_32 = 5 };

/* One field of a message. Those of an inner message are its children. */
typedef struct field {
    const ProtobufCMessageDescriptor *in; /* the message that it is a field of */
    const ProtobufCMessageDescriptor *of; /* the message that it holds; NULL: none */
    uint32_t number;
    unsigned wire;
    uint64_t value;      /* of a varint or of fixed width */
    const uint8_t *data; /* of what has a length and holds no message */
    size_t size;
    struct field *first, *next;
} field;

typedef struct tree {
    field *pool; /* [MAX_FIELDS] */
    size_t n;
    qb_rng rng;
    uint8_t *bytes; /* room for changed text */
    size_t n_bytes;
} tree;

#define ROOM ((size_t)1 << 16)

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct span {
    const uint8_t *at, *end;
} span;

static bool take_varint(span *s, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        const uint8_t byte = *s->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool take_fixed(span *s, size_t n, uint64_t *out) {
    *out = 0;
    if ((size_t)(s->end - s->at) < n) return false;
    memcpy(out, s->at, n);
    s->at += n;
    return true;
}

static field *read_fields(tree *t, const ProtobufCMessageDescriptor *in, span s, int depth,
                          bool *good);

static bool read_content(tree *t, field *f, span *s, int depth) {
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(f->in, f->number);
    uint64_t size;
    bool good = true;
    switch (f->wire) {
    case WIRE_VARINT: return take_varint(s, &f->value);
    case WIRE_64: return take_fixed(s, 8, &f->value);
    case WIRE_32: return take_fixed(s, 4, &f->value);
    case WIRE_LENGTH: break;
    default: return false;
    }
    if (!take_varint(s, &size) || size > (uint64_t)(s->end - s->at)) return false;
    f->data = s->at;
    f->size = (size_t)size;
    s->at += size;
    if (!known || known->type != PROTOBUF_C_TYPE_MESSAGE) return true;
    f->of = known->descriptor;
    f->first = read_fields(t, f->of, (span){f->data, f->data + f->size}, depth + 1, &good);
    return good;
}

static field *read_fields(tree *t, const ProtobufCMessageDescriptor *in, span s, int depth,
                          bool *good) {
    field *first = NULL, **link = &first;
    *good = depth <= MAX_DEPTH;
    while (*good && s.at < s.end) {
        uint64_t tag;
        if (t->n == MAX_FIELDS || !take_varint(&s, &tag) || tag > UINT32_MAX || tag < 8) {
            *good = false;
            break;
        }
        field *f = &t->pool[t->n++];
        *f = (field){.in = in, .number = (uint32_t)(tag >> 3), .wire = tag & 7};
        *good = read_content(t, f, &s, depth);
        *link = f;
        link = &f->next;
    }
    return first;
}

/* A tree whose pool[0] stands for the model; false when the bytes are none. */
static bool read_tree(tree *t, const uint8_t *data, size_t size) {
    bool good;
    const size_t root = t->n;
    if (t->n == MAX_FIELDS) return false;
    t->pool[t->n++] = (field){.of = &onnx__model_proto__descriptor, .wire = WIRE_LENGTH};
    t->pool[root].first = read_fields(t, t->pool[root].of, (span){data, data + size}, 0, &good);
    return good;
}

/* --- writing ---------------------------------------------------------------------------------- */

static size_t varint_size(uint64_t value) {
    size_t n = 1;
    while (value >>= 7) n++;
    return n;
}

static size_t content_size(const field *f, int depth);

static size_t field_size(const field *f, int depth) {
    size_t n = varint_size((uint64_t)f->number << 3), content;
    switch (f->wire) {
    case WIRE_VARINT: return n + varint_size(f->value);
    case WIRE_64: return n + 8;
    case WIRE_32: return n + 4;
    default: content = content_size(f, depth); return n + varint_size(content) + content;
    }
}

static size_t content_size(const field *f, int depth) {
    size_t n = 0;
    if (!f->of) return f->size;
    for (const field *c = f->first; c && depth < MAX_DEPTH; c = c->next)
        n += field_size(c, depth + 1);
    return n;
}

static uint8_t *put_varint(uint8_t *to, uint64_t value) {
    for (; value > 0x7f; value >>= 7) *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

static uint8_t *put_content(const field *f, uint8_t *to, int depth);

static uint8_t *put_field(const field *f, uint8_t *to, int depth) {
    const size_t fixed = f->wire == WIRE_64 ? 8 : 4;
    to = put_varint(to, (uint64_t)f->number << 3 | f->wire);
    if (f->wire == WIRE_VARINT) return put_varint(to, f->value);
    if (f->wire == WIRE_LENGTH)
        return put_content(f, put_varint(to, content_size(f, depth)), depth);
    memcpy(to, &f->value, fixed);
    return to + fixed;
}

static uint8_t *put_content(const field *f, uint8_t *to, int depth) {
    if (!f->of) {
        if (f->size) memcpy(to, f->data, f->size);
        return to + f->size;
    }
    for (const field *c = f->first; c && depth < MAX_DEPTH; c = c->next)
        to = put_field(c, to, depth + 1);
    return to;
}

static size_t write_tree(const field *root, uint8_t *out, size_t max_size) {
    const size_t size = content_size(root, 0);
    uint8_t *bytes = size && size <= max_size ? malloc(size) : NULL;
    if (!bytes) return 0;
    put_content(root, bytes, 0);
    memcpy(out, bytes, size); /* the tree may still point into `out` while it is written */
    free(bytes);
    return size;
}

/* --- changing --------------------------------------------------------------------------------- */

static size_t below(tree *t, size_t n) { return (size_t)qb_rng_below(&t->rng, n); }

static field *any_field(tree *t, size_t n) { return n > 1 ? &t->pool[1 + below(t, n - 1)] : NULL; }

static field *copy_of(tree *t, const field *f) {
    if (t->n == MAX_FIELDS) return NULL;
    t->pool[t->n] = *f;
    return &t->pool[t->n++];
}

/* The field that leads to `f`, and from where; NULL: it was taken out before. */
static field **link_to(tree *t, const field *f) {
    for (size_t i = 0; i < t->n; i++)
        for (field **link = &t->pool[i].first; *link; link = &(*link)->next)
            if (*link == f) return link;
    return NULL;
}

static uint64_t odd_number(tree *t, uint64_t old) {
    static const int64_t odd[] = {0,        1,         2,         3,         -1,        -2,
                                  4,        5,         7,         8,         9,         10,
                                  11,       16,        63,        64,        127,       128,
                                  255,      256,       65535,     1 << 20,   INT32_MAX, INT32_MIN,
                                  1u << 31, INT64_MAX, INT64_MIN, 1ll << 32, 1ll << 40, 1ll << 62};
    switch (below(t, 4)) {
    case 0: return old + 1;
    case 1: return old - 1;
    default: return (uint64_t)odd[below(t, sizeof odd / sizeof *odd)];
    }
}

static uint64_t odd_float(tree *t, unsigned wire) {
    static const double odd[] = {0, -0.0, 1, -1, 0.5, 1e-30, 1e30, 1e300, 2147483648.0};
    const size_t which = below(t, sizeof odd / sizeof *odd + 2);
    double wide = which < sizeof odd / sizeof *odd ? odd[which] : (which & 1) ? 0.0 / 0.0 : 1 / 0.0;
    float narrow = (float)wide;
    uint64_t bits = 0;
    if (wire == WIRE_64)
        memcpy(&bits, &wide, sizeof wide);
    else
        memcpy(&bits, &narrow, sizeof narrow);
    return bits;
}

static void set_text(field *f, const char *text) {
    f->data = (const uint8_t *)text;
    f->size = strlen(text);
}

/* Text of the same message and field elsewhere, any other text, or a word of the standard. */
static void change_text(tree *t, field *f) {
    int32_t n;
    const qb_op *const *ops = qb_ops(&n);
    const qb_op *op = ops[below(t, (size_t)n)];
    switch (below(t, 4)) {
    case 0: set_text(f, op->name); return;
    case 1: set_text(f, op->attrs && op->attrs->name ? op->attrs->name : ""); return;
    default: break;
    }
    for (int tries = 0; tries < 32; tries++) {
        const field *other = any_field(t, t->n);
        if (other->wire != WIRE_LENGTH || other->of) continue;
        if (tries < 24 && (other->number != f->number || other->in != f->in)) continue;
        f->data = other->data;
        f->size = other->size;
        return;
    }
}

/* Tensor data and packed numbers: longer, shorter, or some bytes others. */
static void change_bytes(tree *t, field *f) {
    const size_t room = ROOM - t->n_bytes, more = 1 + below(t, 16);
    if (f->size + more > room) return;
    uint8_t *to = t->bytes + t->n_bytes;
    if (f->size) memcpy(to, f->data, f->size);
    size_t n = f->size;
    switch (below(t, 3)) {
    case 0:
        memset(to + n, (int)below(t, 256), more);
        n += more;
        break;
    case 1: n = n ? below(t, n) : 0; break;
    default:
        for (size_t i = 0; i < more && n; i++) to[below(t, n)] = (uint8_t)qb_rng_u64(&t->rng);
    }
    t->n_bytes += n;
    f->data = to;
    f->size = n;
}

static bool is_text(const field *f) {
    const ProtobufCFieldDescriptor *known =
        f->in ? protobuf_c_message_descriptor_get_field(f->in, f->number) : NULL;
    return known && known->type == PROTOBUF_C_TYPE_STRING;
}

static void change_value(tree *t, field *f) {
    if (f->wire == WIRE_VARINT) {
        f->value = odd_number(t, f->value);
    } else if (f->wire != WIRE_LENGTH) {
        f->value = odd_float(t, f->wire);
    } else if (!f->of) {
        if (is_text(f) || below(t, 4) == 0)
            change_text(t, f);
        else
            change_bytes(t, f);
    }
}

static void remove_field(tree *t, const field *f) {
    field **link = link_to(t, f);
    if (link) *link = f->next;
}

/* A copy of `f` before or behind the first field that `at` leads to. The copy shares its children:
 * a later change of them changes both. */
static void insert_copy(tree *t, const field *f, field **at) {
    field *copy = at ? copy_of(t, f) : NULL;
    if (!copy) return;
    copy->next = *at;
    *at = copy;
}

static void swap_with_next(tree *t, field *f) {
    field **link = link_to(t, f), *next = f->next;
    if (!link || !next) return;
    f->next = next->next;
    next->next = f;
    *link = next;
}

/* A field of another place of the same kind of message, from [first, end) of the pool. */
static const field *find_donor(tree *t, const field *f, size_t first, size_t end,
                               bool same_number) {
    for (int tries = 0; tries < 64 && end > first; tries++) {
        const field *other = &t->pool[first + below(t, end - first)];
        if (other != f && other->in == f->in && other->in &&
            (!same_number || other->number == f->number))
            return other;
    }
    return NULL;
}

static bool contains(const field *f, const field *inner, int depth) {
    if (f == inner) return true;
    for (const field *c = f->first; c && depth < MAX_DEPTH; c = c->next)
        if (contains(c, inner, depth + 1)) return true;
    return false;
}

static void replace_content(tree *t, field *f, size_t first, size_t end) {
    const field *donor = find_donor(t, f, first, end, true);
    if (!donor || contains(donor, f, 0)) return;
    field *next = f->next;
    *f = *donor;
    f->next = next;
}

static void insert_donor(tree *t, field *f, size_t first, size_t end) {
    const field *donor = find_donor(t, f, first, end, false);
    if (donor && !contains(donor, f, 0)) insert_copy(t, donor, link_to(t, f));
}

static void change(tree *t, size_t n) {
    field *f = any_field(t, n);
    if (!f) return;
    switch (below(t, 10)) {
    case 0: remove_field(t, f); break;
    case 1: insert_copy(t, f, link_to(t, f)); break;
    case 2: swap_with_next(t, f); break;
    case 3: replace_content(t, f, 1, n); break;
    case 4: insert_donor(t, f, 1, n); break;
    default: /* values are what most fields are about */
        for (int tries = 0; tries < 8 && f->of; tries++) f = any_field(t, n);
        change_value(t, f);
    }
}

static bool tree_create(tree *t, unsigned seed) {
    *t = (tree){.pool = malloc(MAX_FIELDS * sizeof *t->pool), .bytes = malloc(ROOM)};
    qb_rng_seed(&t->rng, seed);
    return t->pool && t->bytes;
}

static void tree_release(tree *t) {
    free(t->pool);
    free(t->bytes);
}

size_t qb_onnx_tree_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    tree t;
    size_t written = 0;
    if (tree_create(&t, seed) && read_tree(&t, data, size)) {
        const size_t n = t.n, changes = 1 + below(&t, MAX_CHANGES);
        for (size_t i = 0; i < changes; i++) change(&t, n);
        written = write_tree(&t.pool[0], data, max_size);
    }
    tree_release(&t);
    return written;
}

size_t qb_onnx_tree_cross(const uint8_t *first, size_t first_size, const uint8_t *second,
                          size_t second_size, uint8_t *out, size_t max_size, unsigned seed) {
    tree t;
    size_t written = 0;
    if (tree_create(&t, seed) && read_tree(&t, first, first_size)) {
        const size_t n = t.n;
        if (n > 1 && read_tree(&t, second, second_size)) {
            const size_t end = t.n, changes = 1 + below(&t, MAX_CHANGES);
            for (size_t i = 0; i < changes; i++) {
                field *f = any_field(&t, n);
                if (below(&t, 2))
                    replace_content(&t, f, n, end);
                else
                    insert_donor(&t, f, n, end);
            }
            written = write_tree(&t.pool[0], out, max_size);
        }
    }
    tree_release(&t);
    return written;
}
