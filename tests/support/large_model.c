/* large_model KIND N FILE: an ONNX model of about N nodes (inputs, weights ...) of one kind, for
 * tests of time and memory. The bytes are written by hand: no library stands in the way of a
 * million nodes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- protobuf ---- */

typedef struct bytes {
    char *data;
    size_t n, room;
} bytes;

static void put(bytes *b, const void *from, size_t n) {
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n) + 64;
        b->data = realloc(b->data, b->room);
        if (!b->data) abort();
    }
    if (n) memcpy(b->data + b->n, from, n);
    b->n += n;
}

static void varint(bytes *b, uint64_t v) {
    do {
        const unsigned char byte = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        put(b, &byte, 1);
        v >>= 7;
    } while (v);
}

static void number(bytes *b, unsigned field, int64_t v) {
    varint(b, field << 3);
    varint(b, (uint64_t)v);
}

static void block(bytes *b, unsigned field, const void *from, size_t n) {
    varint(b, field << 3 | 2);
    varint(b, n);
    put(b, from, n);
}

static void text(bytes *b, unsigned field, const char *s) { block(b, field, s, strlen(s)); }

/* Appends a message and empties it. */
static void message(bytes *b, unsigned field, bytes *from) {
    block(b, field, from->data, from->n);
    from->n = 0;
}

/* ---- ONNX ---- */

enum { FLOAT = 1, U8 = 2, S8 = 3, S64 = 7, BOOL = 9 };

static bytes graph, functions, scratch, inner;
static char name_buffer[8][64];

/* "xI"; eight of them live at a time. */
static const char *name(const char *stem, long i) {
    static int next;
    char *out = name_buffer[next++ % 8];
    snprintf(out, sizeof name_buffer[0], "%s%ld", stem, i);
    return out;
}

static void attr_int(bytes *node, const char *key, int64_t v) {
    bytes a = {0};
    text(&a, 1, key);
    number(&a, 3, v);
    number(&a, 20, 2);
    message(node, 5, &a);
    free(a.data);
}

static void attr_ints(bytes *node, const char *key, int n, const int64_t *v) {
    bytes a = {0};
    text(&a, 1, key);
    for (int i = 0; i < n; i++) number(&a, 8, v[i]);
    number(&a, 20, 7);
    message(node, 5, &a);
    free(a.data);
}

static void attr_graph(bytes *node, const char *key, bytes *body) {
    bytes a = {0};
    text(&a, 1, key);
    message(&a, 6, body);
    number(&a, 20, 5);
    message(node, 5, &a);
    free(a.data);
}

/* Begins a node in `scratch`: inputs and outputs are words, separated by blanks. */
static void words(bytes *b, unsigned field, const char *list) {
    while (*list) {
        const size_t n = strcspn(list, " ");
        block(b, field, list, n);
        list += n + (list[n] == ' ');
    }
}

static bytes *open_node(const char *op, const char *in, const char *out) {
    words(&scratch, 1, in);
    words(&scratch, 2, out);
    text(&scratch, 4, op);
    return &scratch;
}

static void node(const char *op, const char *in, const char *out) {
    open_node(op, in, out);
    message(&graph, 1, &scratch);
}

/* A node of two inputs. */
static void node2(const char *op, const char *a, const char *b, const char *out) {
    text(&scratch, 1, a);
    text(&scratch, 1, b);
    text(&scratch, 2, out);
    text(&scratch, 4, op);
    message(&graph, 1, &scratch);
}

static void tensor(bytes *g, unsigned field, const char *key, int type, int rank,
                   const int64_t *dim, const void *data, size_t n) {
    bytes t = {0};
    for (int i = 0; i < rank; i++) number(&t, 1, dim[i]);
    number(&t, 2, type);
    text(&t, 8, key);
    block(&t, 9, data, n);
    message(g, field, &t);
    free(t.data);
}

static void ints(const char *key, int n, const int64_t *v) {
    const int64_t dim[1] = {n};
    tensor(&graph, 5, key, S64, 1, dim, v, (size_t)n * sizeof *v);
}
static void scalar_int(const char *key, int64_t v) {
    tensor(&graph, 5, key, S64, 0, NULL, &v, sizeof v);
}
static void scalar_float(const char *key, float v) {
    tensor(&graph, 5, key, FLOAT, 0, NULL, &v, sizeof v);
}

/* An input (11) or output (12) of a graph. */
static void value(bytes *g, unsigned field, const char *key, int type, int rank,
                  const int64_t *dim) {
    bytes v = {0}, t = {0}, s = {0}, d = {0};
    for (int i = 0; i < rank; i++) {
        number(&d, 1, dim[i]);
        message(&s, 1, &d);
    }
    number(&t, 1, type);
    if (rank >= 0) message(&t, 2, &s);
    message(&v, 1, &t); /* tensor_type of the type */
    t.n = 0;
    text(&t, 1, key);
    message(&t, 2, &v);
    message(g, field, &t);
    free(v.data), free(t.data), free(s.data), free(d.data);
}

static const int64_t image[4] = {1, 4, 8, 8}, row[2] = {1, 16};
static void input(void) { value(&graph, 11, "x", FLOAT, 4, image); }
static void output(const char *key) { value(&graph, 12, key, FLOAT, -1, NULL); }

/* ---- kinds: many nodes ---- */

static void chain(const char *op, long n) {
    input();
    for (long i = 0; i < n; i++) node(op, i ? name("v", i - 1) : "x", name("v", i));
    output(name("v", n - 1));
}

static void relu(long n) { chain("Relu", n); }
static void identity(long n) { chain("Identity", n); }
static void sigmoid(long n) { chain("Sigmoid", n); }

static void same_name(long n) {
    input();
    for (long i = 0; i < n; i++) {
        text(open_node("Relu", i ? name("v", i - 1) : "x", name("v", i)), 3, "node");
        message(&graph, 1, &scratch);
    }
    output(name("v", n - 1));
}

/* One value read by all. */
static void add(long n) {
    input();
    for (long i = 0; i < n; i++) node2("Add", i ? name("v", i - 1) : "x", "x", name("v", i));
    output(name("v", n - 1));
}

static void scale(long n) {
    input();
    scalar_float("c", 1.5f);
    for (long i = 0; i < n; i++)
        node2(i % 2 ? "Mul" : "Add", i ? name("v", i - 1) : "x", "c", name("v", i));
    output(name("v", n - 1));
}

static void conv(long n) {
    const int64_t shape[4] = {4, 4, 1, 1};
    const float w[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    input();
    tensor(&graph, 5, "w", FLOAT, 4, shape, w, sizeof w);
    for (long i = 0; i < n; i++) node2("Conv", i ? name("v", i - 1) : "x", "w", name("v", i));
    output(name("v", n - 1));
}

/* Conv, BatchNormalization, Relu, each with weights of its own. */
static void conv_norm(long n) {
    const int64_t shape[4] = {4, 4, 1, 1}, four[1] = {4};
    const float w[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    input();
    for (long i = 0; i < n / 3; i++) {
        char in[200];
        tensor(&graph, 5, name("w", i), FLOAT, 4, shape, w, sizeof w);
        for (int k = 0; k < 4; k++) {
            char key[48];
            snprintf(key, sizeof key, "p%d_%ld", k, i);
            tensor(&graph, 5, key, FLOAT, 1, four, (const float[4]){1, 1, 1, 1}, 16);
        }
        node2("Conv", i ? name("v", i - 1) : "x", name("w", i), name("a", i));
        snprintf(in, sizeof in, "a%ld p0_%ld p1_%ld p2_%ld p3_%ld", i, i, i, i, i);
        node("BatchNormalization", in, name("b", i));
        node("Relu", name("b", i), name("v", i));
    }
    output(name("v", n / 3 - 1));
}

static void matmul(long n) {
    const int64_t shape[2] = {8, 8};
    float w[64] = {0};
    for (int i = 0; i < 8; i++) w[9 * i] = 1;
    input();
    tensor(&graph, 5, "w", FLOAT, 2, shape, w, sizeof w);
    tensor(&graph, 5, "c", FLOAT, 1, shape, w, 32);
    for (long i = 0; i < n / 2; i++) {
        node2("MatMul", i ? name("v", i - 1) : "x", "w", name("a", i));
        node2("Add", name("a", i), "c", name("v", i));
    }
    output(name("v", n / 2 - 1));
}

static void qdq(long n) {
    const int64_t shape[1] = {0};
    (void)shape;
    input();
    scalar_float("s", 0.1f);
    tensor(&graph, 5, "z", U8, 0, NULL, "\200", 1);
    for (long i = 0; i < n / 3; i++) {
        char in[96];
        snprintf(in, sizeof in, "%s s z", i ? name("v", i - 1) : "x");
        node("QuantizeLinear", in, name("q", i));
        snprintf(in, sizeof in, "q%ld s z", i);
        node("DequantizeLinear", in, name("d", i));
        node("Relu", name("d", i), name("v", i));
    }
    output(name("v", n / 3 - 1));
}

static void reshape(long n) {
    const int64_t flat[2] = {1, -1};
    input();
    ints("a", 2, flat);
    ints("b", 4, image);
    for (long i = 0; i < n; i++)
        node2("Reshape", i ? name("v", i - 1) : "x", i % 2 ? "b" : "a", name("v", i));
    output(name("v", n - 1));
}

static void transpose(long n) {
    const int64_t perm[4] = {0, 2, 3, 1};
    input();
    for (long i = 0; i < n; i++) {
        attr_ints(open_node("Transpose", i ? name("v", i - 1) : "x", name("v", i)), "perm", 4,
                  perm);
        message(&graph, 1, &scratch);
    }
    output(name("v", n - 1));
}

/* Computed shapes: Shape, Reshape by it. */
static void shapes(long n) {
    input();
    for (long i = 0; i < n / 2; i++) {
        node("Shape", i ? name("v", i - 1) : "x", name("s", i));
        node2("Reshape", i ? name("v", i - 1) : "x", name("s", i), name("v", i));
    }
    output(name("v", n / 2 - 1));
}

/* Everything folds. */
static void constants(long n) {
    const float w[16] = {1};
    input();
    tensor(&graph, 5, "w", FLOAT, 2, row, w, sizeof w);
    for (long i = 0; i < n; i++) node2("Add", i ? name("v", i - 1) : "w", "w", name("v", i));
    node("Relu", "x", "y");
    output(name("v", n - 1));
    output("y");
}

/* The same node again and again: all but one are common subexpressions. */
static void common(long n) {
    input();
    for (long i = 0; i < n; i++) node("Relu", "x", name("v", i));
    open_node("Sum", "", "y");
    for (long i = 0; i < n; i++) text(&scratch, 1, name("v", i));
    message(&graph, 1, &scratch);
    output("y");
}

/* Relu on each of n slices, put together by one node. */
static void many_inputs(const char *op, long n) {
    input();
    for (long i = 0; i < n; i++) {
        scalar_float(name("c", i), (float)i);
        node2("Mul", "x", name("c", i), name("v", i));
    }
    open_node(op, "", "y");
    for (long i = 0; i < n; i++) text(&scratch, 1, name("v", i));
    if (strcmp(op, "Concat") == 0) attr_int(&scratch, "axis", 1);
    message(&graph, 1, &scratch);
    output("y");
}
static void concat(long n) { many_inputs("Concat", n); }
static void sum(long n) { many_inputs("Sum", n); }

static void split(long n) {
    const int64_t wide[2] = {1, n};
    value(&graph, 11, "x", FLOAT, 2, wide);
    attr_int(open_node("Split", "x", ""), "axis", 1);
    attr_int(&scratch, "num_outputs", n);
    for (long i = 0; i < n; i++) text(&scratch, 2, name("p", i));
    message(&graph, 1, &scratch);
    for (long i = 0; i < n; i++) node("Relu", name("p", i), name("v", i));
    open_node("Concat", "", "y");
    for (long i = 0; i < n; i++) text(&scratch, 1, name("v", i));
    attr_int(&scratch, "axis", 1);
    message(&graph, 1, &scratch);
    output("y");
}

static void initializers(long n) {
    const int64_t four[1] = {4};
    input();
    for (long i = 0; i < n; i++)
        tensor(&graph, 5, name("w", i), FLOAT, 1, four, "0123456789abcdef", 16);
    node("Relu", "x", "y");
    output("y");
}

static void inputs(long n) {
    for (long i = 0; i < n; i++) {
        value(&graph, 11, name("x", i), FLOAT, 2, row);
        node("Relu", name("x", i), name("y", i));
        output(name("y", i));
    }
}

/* A chain of which every value is an output. */
static void outputs(long n) {
    input();
    for (long i = 0; i < n; i++) {
        node("Relu", i ? name("v", i - 1) : "x", name("v", i));
        output(name("v", i));
    }
}

/* n branches of two, from one value. */
static void fan(long n) {
    input();
    for (long i = 0; i < n / 2; i++) {
        node("Sigmoid", "x", name("a", i));
        node2("Mul", name("a", i), i ? name("v", i - 1) : "x", name("v", i));
    }
    output(name("v", n / 2 - 1));
}

/* Nobody reads what they make. */
static void dead(long n) {
    input();
    for (long i = 0; i < n; i++) node("Relu", i ? name("v", i - 1) : "x", name("v", i));
    node("Relu", "x", "y");
    output("y");
}

static void gelu(long n) {
    input();
    scalar_float("r", 1.41421356f);
    scalar_float("one", 1);
    scalar_float("half", 0.5f);
    for (long i = 0; i < n / 5; i++) {
        const char *x = i ? name("v", i - 1) : "x";
        node2("Div", x, "r", name("a", i));
        node("Erf", name("a", i), name("b", i));
        node2("Add", name("b", i), "one", name("c", i));
        node2("Mul", i ? name("v", i - 1) : "x", name("c", i), name("d", i));
        node2("Mul", name("d", i), "half", name("v", i));
    }
    output(name("v", n / 5 - 1));
}

/* One name of n characters. */
static void long_name(long n) {
    char *wide = malloc((size_t)n + 1);
    if (!wide) abort();
    memset(wide, 'n', (size_t)n);
    wide[n] = '\0';
    input();
    node("Relu", "x", wide);
    for (int i = 0; i < 100; i++) {
        text(open_node("Relu", wide, name("y", i)), 3, wide);
        message(&graph, 1, &scratch);
        output(name("y", i));
    }
    free(wide);
}

/* ---- kinds: bodies in bodies, functions that call functions ---- */

/* n times If in If, with constant conditions. */
static void nested_if(long n) {
    bytes body = {0}, outer = {0}, it = {0};
    input();
    tensor(&graph, 5, "yes", BOOL, 0, NULL, "\1", 1);
    for (long i = 0; i < n; i++) {
        bytes other = {0};
        words(&it, 1, i ? "yes" : "x");
        text(&it, 2, name("b", i));
        text(&it, 4, i ? "If" : "Relu");
        if (i) {
            put(&other, body.data, body.n);
            attr_graph(&it, "then_branch", &body);
            attr_graph(&it, "else_branch", &other);
        }
        message(&outer, 1, &it);
        text(&outer, 2, "body");
        value(&outer, 12, name("b", i), FLOAT, -1, NULL);
        body.n = 0;
        put(&body, outer.data, outer.n);
        outer.n = 0;
        free(other.data);
    }
    words(&scratch, 1, "yes");
    text(&scratch, 2, "y");
    text(&scratch, 4, "If");
    put(&inner, body.data, body.n);
    attr_graph(&scratch, "then_branch", &inner);
    attr_graph(&scratch, "else_branch", &body);
    message(&graph, 1, &scratch);
    output("y");
    free(body.data), free(outer.data), free(it.data);
}

/* n functions; each calls the one before it `calls` times. */
static void functions_of(long n, int calls) {
    bytes f = {0};
    input();
    for (long i = 0; i < n; i++) {
        text(&f, 1, name("f", i));
        text(&f, 4, "a");
        text(&f, 5, name("o", calls - 1));
        for (int k = 0; k < calls; k++) {
            text(&scratch, 1, k ? name("o", k - 1) : "a");
            text(&scratch, 2, name("o", k));
            text(&scratch, 4, i ? name("f", i - 1) : "Relu");
            if (i) text(&scratch, 7, "own");
            message(&f, 7, &scratch);
        }
        number(&scratch, 2, 17);
        message(&f, 9, &scratch);
        text(&scratch, 1, "own");
        number(&scratch, 2, 1);
        message(&f, 9, &scratch);
        text(&f, 10, "own");
        message(&functions, 25, &f);
    }
    text(&scratch, 1, "x");
    text(&scratch, 2, "y");
    text(&scratch, 4, name("f", n - 1));
    text(&scratch, 7, "own");
    message(&graph, 1, &scratch);
    output("y");
    free(f.data);
}
static void functions_twice(long n) { functions_of(n, 2); }
/* One function of n nodes, called once; and n functions, of which one is called. */
static void function_wide(long n) { functions_of(1, (int)n); }
static void function_calls(long n) {
    functions_of(1, 1);
    for (long i = 0; i < n; i++) {
        text(&scratch, 1, i ? name("v", i - 1) : "y");
        text(&scratch, 2, name("v", i));
        text(&scratch, 4, "f0");
        text(&scratch, 7, "own");
        message(&graph, 1, &scratch);
    }
    output(name("v", n - 1));
}
static void function_list(long n) {
    bytes f = {0};
    input();
    for (long i = 0; i < n; i++) {
        text(&f, 1, name("f", i));
        text(&f, 4, "a");
        text(&f, 5, "o");
        text(&scratch, 1, "a");
        text(&scratch, 2, "o");
        text(&scratch, 4, "Relu");
        message(&f, 7, &scratch);
        number(&scratch, 2, 17);
        message(&f, 9, &scratch);
        text(&f, 10, "own");
        message(&functions, 25, &f);
    }
    for (long i = 0; i < n; i++) {
        text(&scratch, 1, i ? name("v", i - 1) : "x");
        text(&scratch, 2, name("v", i));
        text(&scratch, 4, name("f", i));
        text(&scratch, 7, "own");
        message(&graph, 1, &scratch);
    }
    output(name("v", n - 1));
    free(f.data);
}

/* Loop of n iterations around Relu. */
static void loop(long n) {
    bytes body = {0}, it = {0};
    input();
    scalar_int("trips", n);
    tensor(&graph, 5, "yes", BOOL, 0, NULL, "\1", 1);
    words(&it, 1, "c");
    words(&it, 2, "again");
    text(&it, 4, "Identity");
    message(&body, 1, &it);
    words(&it, 1, "a");
    words(&it, 2, "b");
    text(&it, 4, "Relu");
    message(&body, 1, &it);
    text(&body, 2, "body");
    value(&body, 11, "i", S64, 0, NULL);
    value(&body, 11, "c", BOOL, 0, NULL);
    value(&body, 11, "a", FLOAT, 4, image);
    value(&body, 12, "again", BOOL, 0, NULL);
    value(&body, 12, "b", FLOAT, 4, image);
    words(&scratch, 1, "trips yes x");
    text(&scratch, 2, "y");
    text(&scratch, 4, "Loop");
    attr_graph(&scratch, "body", &body);
    message(&graph, 1, &scratch);
    output("y");
    free(body.data), free(it.data);
}

/* ---- kinds: a small file that asks for n bytes ---- */

/* The tensor of n floats that `big` is goes into an Add with the input, so that it counts. */
static void use_big(void) {
    input();
    node("ReduceMax", "big", "m");
    node2("Add", "x", "m", "y");
    output("y");
}

static void constant_of_shape(long n) {
    const int64_t shape[1] = {n};
    ints("shape", 1, shape);
    node("ConstantOfShape", "shape", "big");
    use_big();
}
static void expand(long n) {
    const int64_t shape[1] = {n};
    ints("shape", 1, shape);
    scalar_float("one", 1);
    node2("Expand", "one", "shape", "big");
    use_big();
}
static void tile(long n) {
    const int64_t repeats[1] = {n}, one[1] = {1};
    ints("repeats", 1, repeats);
    tensor(&graph, 5, "one", FLOAT, 1, one, "\0\0\0\0", 4);
    node2("Tile", "one", "repeats", "big");
    use_big();
}
static void range(long n) {
    scalar_float("from", 0);
    scalar_float("to", (float)n);
    scalar_float("step", 1);
    node("Range", "from to step", "big");
    use_big();
}
static void pad(long n) {
    const int64_t pads[2] = {0, n}, one[1] = {1};
    ints("pads", 2, pads);
    tensor(&graph, 5, "one", FLOAT, 1, one, "\0\0\0\0", 4);
    node2("Pad", "one", "pads", "big");
    use_big();
}
static void resize(long n) {
    const int64_t sizes[3] = {1, 1, n}, one[3] = {1, 1, 1};
    ints("sizes", 3, sizes);
    tensor(&graph, 5, "one", FLOAT, 3, one, "\0\0\0\0", 4);
    open_node("Resize", "one", "");
    text(&scratch, 1, "");
    text(&scratch, 1, "");
    text(&scratch, 1, "sizes");
    text(&scratch, 2, "big");
    message(&graph, 1, &scratch);
    use_big();
}
static void one_hot(long n) {
    const int64_t two[1] = {2}, one[1] = {1}, zero = 0;
    tensor(&graph, 5, "at", S64, 1, one, &zero, sizeof zero);
    scalar_int("depth", n);
    tensor(&graph, 5, "off_on", FLOAT, 1, two, (const float[2]){0, 1}, 8);
    node("OneHot", "at depth off_on", "big");
    use_big();
}
/* Indices [n / 1024] into rows of 1024. */
static void gather(long n) {
    const int64_t shape[1] = {n / 1024}, wide[2] = {1, 1024};
    float *rows = calloc(1024, sizeof *rows);
    if (!rows) abort();
    ints("shape", 1, shape);
    tensor(&graph, 5, "rows", FLOAT, 2, wide, rows, 4096);
    open_node("ConstantOfShape", "shape", "at");
    {
        bytes a = {0}, t = {0};
        const int64_t zero = 0;
        text(&a, 1, "value");
        number(&t, 1, 1);
        number(&t, 2, S64);
        block(&t, 9, &zero, sizeof zero);
        message(&a, 5, &t);
        number(&a, 20, 4);
        message(&scratch, 5, &a);
        free(a.data), free(t.data);
    }
    message(&graph, 1, &scratch);
    node2("Gather", "rows", "at", "big");
    use_big();
    free(rows);
}
/* Doubles until it has n elements. */
static void doubling(long n) {
    const int64_t one[1] = {1};
    long last = 0;
    tensor(&graph, 5, "d0", FLOAT, 1, one, "\0\0\0\0", 4);
    for (long size = 1; size < n; size *= 2, last++) {
        attr_int(open_node("Concat", "", ""), "axis", 0);
        text(&scratch, 1, name("d", last));
        text(&scratch, 1, name("d", last));
        text(&scratch, 2, name("d", last + 1));
        message(&graph, 1, &scratch);
    }
    node("Identity", name("d", last), "big");
    use_big();
}
/* Large at run time only: the input's elements repeated. */
static void runtime_tile(long n) {
    const int64_t repeats[4] = {1, 1, 1, n / 256};
    input();
    ints("repeats", 4, repeats);
    node2("Tile", "x", "repeats", "big");
    node("ReduceMax", "big", "y");
    output("y");
}
static void matmul_outer(long n) {
    const int64_t a[1] = {1}, tall[2] = {-1, 1}, flat[2] = {1, -1}, shape[1] = {n};
    (void)a;
    ints("shape", 1, shape);
    ints("tall", 2, tall);
    ints("flat", 2, flat);
    node("ConstantOfShape", "shape", "c");
    node2("Reshape", "c", "tall", "l");
    node2("Reshape", "c", "flat", "r");
    node2("MatMul", "l", "r", "big");
    use_big();
}
/* An input that claims n elements. */
static void wide_input(long n) {
    const int64_t shape[2] = {1, n};
    value(&graph, 11, "x", FLOAT, 2, shape);
    node("Relu", "x", "y");
    output("y");
}

static const struct {
    const char *name;
    void (*make)(long n);
} kinds[] = {
#define X(kind) {#kind, kind},
    X(relu) X(identity) X(sigmoid) X(same_name) X(add) X(scale) X(conv) X(conv_norm) X(matmul)
        X(qdq) X(reshape) X(transpose) X(shapes) X(constants) X(common) X(concat) X(sum) X(split)
            X(initializers) X(inputs) X(outputs) X(fan) X(dead) X(gelu) X(long_name) X(nested_if)
                X(functions_twice) X(function_wide) X(function_calls) X(function_list) X(loop)
                    X(constant_of_shape) X(expand) X(tile) X(range) X(pad) X(resize) X(one_hot)
                        X(gather) X(doubling) X(runtime_tile) X(matmul_outer) X(wide_input)
#undef X
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* What surrounds the graph. */
static int write_model(const char *path) {
    bytes model = {0}, import = {0};
    number(&model, 1, 8); /* IR version */
    text(&graph, 2, "large");
    message(&model, 7, &graph);
    number(&import, 2, 18);
    message(&model, 8, &import);
    text(&import, 1, "own");
    number(&import, 2, 1);
    message(&model, 8, &import);
    put(&model, functions.data, functions.n);
    FILE *f = fopen(path, "wb");
    const int failed = !f || fwrite(model.data, 1, model.n, f) != model.n || fclose(f) != 0;
    free(model.data), free(import.data);
    return failed;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < N_KINDS; i++) puts(kinds[i].name);
        return 0;
    }
    for (int i = 0; argc == 4 && i < N_KINDS; i++) {
        if (strcmp(kinds[i].name, argv[1]) != 0) continue;
        kinds[i].make(atol(argv[2]));
        return write_model(argv[3]);
    }
    fprintf(stderr, "usage: large_model KIND N FILE, or --list\n");
    return 2;
}
