/* Einsum: sums of products over named dimensions, by the definition. */
#include <ctype.h>

#include "graph/einsum_internal.h"
#include "ops_internal.h"

typedef struct einsum_attrs {
    const char *equation;
} einsum_attrs;
QB_ATTRS(einsum_table, {.name = "equation",
                        .type = QB_ATTR_STRING,
                        .offset = offsetof(einsum_attrs, equation),
                        .default_string = "",
                        .required = true});

#define UNUSED QB_EINSUM_UNUSED

static int32_t label_of(char c) { return islower((unsigned char)c) ? c - 'a' : c - 'A' + 26; }

static qb_status parse_term(qb_ctx *cx, const char **text, qb_einsum_term *out) {
    *out = (qb_einsum_term){.dots = -1};
    for (; **text && **text != ',' && **text != '-'; ++*text) {
        char c = **text;
        if (c == ' ') continue;
        if (c == '.' && strncmp(*text, "...", 3) == 0 && out->dots < 0) {
            out->dots = out->n;
            *text += 2;
        } else if (isalpha((unsigned char)c) && out->n < QB_EINSUM_TERM) {
            out->label[out->n++] = label_of(c);
        } else {
            return qb_fail(cx, QB_STATUS_INVALID, "attribute equation: unexpected '%.20s'", *text);
        }
    }
    return QB_OK;
}

static qb_status parse(qb_ctx *cx, const char *text, int32_t n_operands, qb_einsum *e) {
    *e = (qb_einsum){0};
    for (;;) {
        if (e->n_operands == QB_EINSUM_OPERANDS)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected at most %d operands",
                           QB_EINSUM_OPERANDS);
        QB_TRY(parse_term(cx, &text, &e->in[e->n_operands++]));
        if (*text != ',') break;
        text++;
    }
    if (e->n_operands != n_operands)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute equation: expected %d terms, got %d",
                       n_operands, e->n_operands);
    if (*text == '\0') return QB_OK;
    if (strncmp(text, "->", 2) != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute equation: unexpected '%.20s'", text);
    text += 2;
    e->arrow = true;
    QB_TRY(parse_term(cx, &text, &e->out));
    if (*text)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute equation: unexpected '%.20s'", text);
    return QB_OK;
}

/* Puts the ellipsis' dimensions into the term's list; `dims` of them. */
static qb_status expand_dots(qb_ctx *cx, qb_einsum_term *t, int32_t dims, int32_t longest) {
    if (t->dots < 0) return QB_OK;
    if (t->n + dims > QB_EINSUM_TERM)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute equation: too many dimensions");
    for (int32_t i = t->n - 1; i >= t->dots; i--) t->label[i + dims] = t->label[i];
    for (int32_t i = 0; i < dims; i++)
        t->label[t->dots + i] = QB_EINSUM_LETTERS + longest - dims + i;
    t->n += dims;
    return QB_OK;
}

/* Without an arrow: the ellipsis, then the letters that occur once, in alphabetical order of ASCII
 * (capitals first). */
static void implicit_output(qb_einsum *e) {
    int32_t seen[QB_EINSUM_LABELS] = {0};
    for (int32_t i = 0; i < e->n_operands; i++)
        for (int32_t d = 0; d < e->in[i].n; d++) seen[e->in[i].label[d]]++;
    e->out = (qb_einsum_term){.dots = -1};
    for (int32_t i = 0; i < e->n_dots; i++) e->out.label[e->out.n++] = QB_EINSUM_LETTERS + i;
    for (int32_t i = 0; i < QB_EINSUM_LETTERS; i++) {
        int32_t label = (i + 26) % QB_EINSUM_LETTERS;
        if (seen[label] == 1) e->out.label[e->out.n++] = label;
    }
}

static qb_status note_size(qb_ctx *cx, qb_einsum *e, int32_t label, int64_t dim) {
    int64_t *size = &e->size[label];
    if (*size == UNUSED || (*size == 1 && label >= QB_EINSUM_LETTERS)) {
        *size = dim;
    } else if (dim >= 0 && *size >= 0 && dim != *size &&
               !(dim == 1 && label >= QB_EINSUM_LETTERS)) {
        return qb_fail(cx, QB_STATUS_INVALID, "one label stands for sizes %lld and %lld",
                       (long long)*size, (long long)dim);
    } else if (*size < 0 && dim >= 0) {
        *size = dim;
    }
    return QB_OK;
}

qb_status qb_einsum_resolve(qb_ctx *cx, const char *text, const qb_shape *const *shapes, int32_t n,
                            qb_einsum *e) {
    QB_TRY(parse(cx, text, n, e));
    int32_t dots[QB_EINSUM_OPERANDS];
    for (int32_t i = 0; i < n; i++) {
        dots[i] = shapes[i]->rank - e->in[i].n;
        if (dots[i] < 0 || (dots[i] > 0 && e->in[i].dots < 0))
            return qb_fail(cx, QB_STATUS_INVALID,
                           "operand %d: the term has %d labels, the rank is "
                           "%d",
                           i, e->in[i].n, shapes[i]->rank);
        if (dots[i] > e->n_dots) e->n_dots = dots[i];
    }
    for (int32_t k = 0; k < QB_EINSUM_LABELS; k++) e->size[k] = UNUSED;
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(expand_dots(cx, &e->in[i], dots[i], e->n_dots));
        for (int32_t d = 0; d < e->in[i].n; d++)
            QB_TRY(note_size(cx, e, e->in[i].label[d], shapes[i]->dim[d]));
    }
    if (!e->arrow)
        implicit_output(e);
    else
        QB_TRY(expand_dots(cx, &e->out, e->n_dots, e->n_dots));
    if (e->out.n > QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "output: expected rank 0 to %d, got %d",
                       QB_MAX_RANK, e->out.n);
    for (int32_t d = 0; d < e->out.n; d++)
        if (e->size[e->out.label[d]] == UNUSED)
            return qb_fail(cx, QB_STATUS_INVALID, "output label %d is in no operand", d);
    return QB_OK;
}

static qb_status infer_einsum(qb_ctx *cx, const qb_infer_args *args) {
    const einsum_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_shape *shapes[QB_EINSUM_OPERANDS];
    int32_t n = qb_infer_at(args)->n_in;
    qb_shape out = {.rank = -1};
    qb_dtype dtype = qb_infer_in(args, 0)->dtype;
    if (n > QB_EINSUM_OPERANDS)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected at most %d operands, got %d",
                       QB_EINSUM_OPERANDS, n);
    bool known = true;
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(qb_infer_same_type(cx, args, i));
        shapes[i] = &qb_infer_in(args, i)->shape;
        known = known && shapes[i]->rank >= 0;
    }
    if (known) {
        qb_einsum e;
        QB_TRY(qb_einsum_resolve(cx, attrs->equation, shapes, n, &e));
        out.rank = e.out.n;
        for (int32_t d = 0; d < e.out.n; d++) out.dim[d] = e.size[e.out.label[d]];
    }
    return qb_infer_set(cx, args, 0, dtype, &out);
}

/* The loops: first the output's labels, then those that are summed over. */
typedef struct loops {
    int32_t n, n_out;
    int64_t size[QB_EINSUM_LABELS], stride[QB_EINSUM_OPERANDS][QB_EINSUM_LABELS];
} loops;

static void make_loops(const qb_einsum *e, const qb_shape *const *shapes, loops *l) {
    int32_t place[QB_EINSUM_LABELS];
    *l = (loops){0};
    for (int32_t k = 0; k < QB_EINSUM_LABELS; k++) place[k] = -1;
    for (int32_t d = 0; d < e->out.n; d++) {
        if (place[e->out.label[d]] >= 0) continue; /* a label twice in the output */
        place[e->out.label[d]] = l->n;
        l->size[l->n++] = e->size[e->out.label[d]];
    }
    l->n_out = l->n;
    for (int32_t k = 0; k < QB_EINSUM_LABELS; k++) {
        if (place[k] >= 0 || e->size[k] == UNUSED) continue;
        place[k] = l->n;
        l->size[l->n++] = e->size[k];
    }
    for (int32_t i = 0; i < e->n_operands; i++) {
        int64_t stride[QB_MAX_RANK];
        qb_strides_of(shapes[i], stride);
        for (int32_t d = 0; d < e->in[i].n; d++)
            if (shapes[i]->dim[d] != 1) l->stride[i][place[e->in[i].label[d]]] += stride[d];
    }
}

/* Steps loops [first, last) once; false when they are through. `at` follows each operand. */
static bool step(const loops *l, int32_t first, int32_t last, int32_t n_operands, int64_t *index,
                 int64_t *at) {
    for (int32_t d = last - 1; d >= first; d--) {
        for (int32_t i = 0; i < n_operands; i++) at[i] += l->stride[i][d];
        if (++index[d] < l->size[d]) return true;
        for (int32_t i = 0; i < n_operands; i++) at[i] -= l->size[d] * l->stride[i][d];
        index[d] = 0;
    }
    return false;
}

/* One element of the output: the sum over the inner loops. */
static void sum_products(const loops *l, const qb_tensor *in, int32_t n, int64_t *index,
                         int64_t *at, qb_tensor *out, int64_t to) {
    qb_dtype dtype = in[0].desc.dtype;
    bool integer = qb_dtype_is_integer(dtype);
    double sum = 0.0;
    uint64_t total = 0;
    do {
        double v = 1.0;
        uint64_t k = 1;
        for (int32_t i = 0; i < n; i++) {
            if (integer)
                k *= qb_integer_get(dtype, in[i].data, at[i]);
            else
                v *= qb_number_get(dtype, in[i].data, at[i]);
        }
        sum += v, total += k;
    } while (step(l, l->n_out, l->n, n, index, at));
    if (integer)
        qb_integer_put(dtype, out->data, to, total);
    else
        qb_number_put(dtype, out->data, to, sum);
}

static qb_status eval_einsum(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const einsum_attrs *attrs = node->attrs;
    const qb_shape *shapes[QB_EINSUM_OPERANDS];
    for (int32_t i = 0; i < node->n_in; i++) shapes[i] = &in[i].desc.shape;
    qb_einsum e;
    loops l;
    QB_TRY(qb_einsum_resolve(cx, attrs->equation, shapes, node->n_in, &e));
    make_loops(&e, shapes, &l);
    size_t bytes = (size_t)qb_shape_count(&out[0].desc.shape) * qb_dtype_size(out[0].desc.dtype);
    if (bytes > 0) memset(out[0].data, 0, bytes);
    int64_t inner = 1, outer = 1, index[QB_EINSUM_LABELS] = {0}, at[QB_EINSUM_OPERANDS] = {0};
    for (int32_t d = 0; d < l.n; d++) *(d < l.n_out ? &outer : &inner) *= l.size[d];
    if (inner == 0 || outer == 0) return QB_OK; /* empty sums are zero */
    if (l.n_out != e.out.n)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "a label twice in the output of '%s'",
                       attrs->equation);
    int64_t to = 0;
    do sum_products(&l, in, node->n_in, index, at, &out[0], to++);
    while (step(&l, 0, l.n_out, node->n_in, index, at));
    return QB_OK;
}

QB_OP_SIMPLE(einsum, "Einsum", 12, 1, INT32_MAX, 1, sizeof(einsum_attrs), einsum_table, FLOAT,
             infer_einsum, eval_einsum, .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_WINDOW);
