#include "onnx_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ob_free(ob *b) {
    free(b->data);
    *b = (ob){0};
}

void ob_append(ob *b, const void *data, size_t n) {
    if (b->size + n > b->capacity) {
        b->capacity = 2 * (b->size + n) + 64;
        b->data = realloc(b->data, b->capacity);
        assert_non_null(b->data);
    }
    if (n) memcpy(b->data + b->size, data, n);
    b->size += n;
}

static void varint(ob *b, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        ob_append(b, &byte, 1);
        value >>= 7;
    } while (value);
}

void ob_int(ob *b, int field, int64_t value) {
    varint(b, (uint64_t)field << 3);
    varint(b, (uint64_t)value);
}

void ob_float(ob *b, int field, float value) {
    varint(b, (uint64_t)field << 3 | 5);
    ob_append(b, &value, sizeof value);
}

void ob_bytes(ob *b, int field, const void *data, size_t n) {
    varint(b, (uint64_t)field << 3 | 2);
    varint(b, n);
    ob_append(b, data, n);
}

void ob_text(ob *b, int field, const char *text) { ob_bytes(b, field, text, strlen(text)); }

void ob_message(ob *b, int field, ob *message) {
    ob_bytes(b, field, message->data, message->size);
    ob_free(message);
}

static ob attribute(const char *name, int type) {
    ob attr = {0};
    ob_text(&attr, 1, name);
    ob_int(&attr, 20, type);
    return attr;
}

void ob_attr_int(ob *node, const char *name, int64_t value) {
    ob attr = attribute(name, 2);
    ob_int(&attr, 3, value);
    ob_message(node, 5, &attr);
}

void ob_attr_float(ob *node, const char *name, float value) {
    ob attr = attribute(name, 1);
    ob_float(&attr, 2, value);
    ob_message(node, 5, &attr);
}

void ob_attr_text(ob *node, const char *name, const char *value) {
    ob attr = attribute(name, 3);
    ob_text(&attr, 4, value);
    ob_message(node, 5, &attr);
}

void ob_attr_ints(ob *node, const char *name, int n, const int64_t *values) {
    ob attr = attribute(name, 7);
    for (int i = 0; i < n; i++) ob_int(&attr, 8, values[i]);
    ob_message(node, 5, &attr);
}

void ob_attr_tensor(ob *node, const char *name, ob *tensor) {
    ob attr = attribute(name, 4);
    ob_message(&attr, 5, tensor);
    ob_message(node, 5, &attr);
}

/* Calls `each` for the words of a list. */
static void words(const char *list, char separator,
                  void (*each)(ob *b, int field, const char *word), ob *b, int field) {
    char copy[1024];
    assert_true(strlen(list) < sizeof copy);
    strcpy(copy, list);
    for (char *word = copy; *word;) {
        char *end = strchr(word, separator), *next = end ? end + 1 : word + strlen(word);
        if (end) *end = '\0';
        each(b, field, word);
        word = next;
    }
}

static void add_name(ob *b, int field, const char *word) {
    ob_text(b, field, strcmp(word, "-") ? word : "");
}

void ob_node_in(ob *graph, const char *domain, const char *op, const char *name, const char *in,
                const char *out, ob *attrs) {
    ob node = {0};
    words(in, ' ', add_name, &node, 1);
    words(out, ' ', add_name, &node, 2);
    ob_text(&node, 3, name);
    ob_text(&node, 4, op);
    if (*domain) ob_text(&node, 7, domain);
    if (attrs) {
        ob_append(&node, attrs->data, attrs->size);
        ob_free(attrs);
    }
    ob_message(graph, 1, &node);
}

void ob_node(ob *graph, const char *op, const char *name, const char *in, const char *out,
             ob *attrs) {
    ob_node_in(graph, "", op, name, in, out, attrs);
}

static void add_dim(ob *b, int field, const char *word) { ob_int(b, field, atoll(word)); }

void ob_tensor(ob *tensor, const char *name, qb_dtype dtype, const char *dims, const void *data,
               size_t n) {
    words(dims, ',', add_dim, tensor, 1);
    ob_int(tensor, 2, qb_dtype_to_onnx(dtype));
    ob_text(tensor, 8, name);
    ob_bytes(tensor, 9, data, n);
}

void ob_initializer(ob *graph, const char *name, qb_dtype dtype, const char *dims, const void *data,
                    size_t n) {
    ob tensor = {0};
    ob_tensor(&tensor, name, dtype, dims, data, n);
    ob_message(graph, 5, &tensor);
}

void ob_floats(ob *graph, const char *name, const char *dims, int n, const float *data) {
    ob_initializer(graph, name, QB_DTYPE_F32, dims, data, (size_t)n * sizeof *data);
}

static void add_symbolic_dim(ob *b, int field, const char *word) {
    ob dim = {0};
    if ((*word >= '0' && *word <= '9') || *word == '-')
        ob_int(&dim, 1, atoll(word));
    else if (strcmp(word, "?"))
        ob_text(&dim, 2, strcmp(word, "'?'") ? word : "?");
    ob_message(b, field, &dim);
}

static void add_info(ob *graph, int field, const char *name, qb_dtype dtype, const char *dims) {
    ob info = {0}, type = {0}, tensor = {0}, shape = {0};
    ob_int(&tensor, 1, qb_dtype_to_onnx(dtype));
    if (dims) {
        words(dims, ',', add_symbolic_dim, &shape, 1);
        ob_message(&tensor, 2, &shape);
    }
    ob_message(&type, 1, &tensor);
    ob_text(&info, 1, name);
    ob_message(&info, 2, &type);
    ob_message(graph, field, &info);
}

void ob_input(ob *graph, const char *name, qb_dtype dtype, const char *dims) {
    add_info(graph, 11, name, dtype, dims);
}

void ob_output(ob *graph, const char *name, qb_dtype dtype, const char *dims) {
    add_info(graph, 12, name, dtype, dims);
}

void ob_import(ob *model, const char *domain, int64_t version) {
    ob import = {0};
    ob_text(&import, 1, domain);
    ob_int(&import, 2, version);
    ob_message(model, 8, &import);
}

void ob_model(ob *model, int64_t ir, int64_t opset, ob *graph) {
    ob_int(model, 1, ir);
    ob_import(model, "", opset);
    ob_message(model, 7, graph);
}

qb_status ob_parse(qb_ctx *cx, ob *model, qb_graph **out) {
    /* Exactly as many bytes, so that address checkers see a read behind the end. */
    uint8_t *exact = malloc(model->size ? model->size : 1);
    assert_non_null(exact);
    if (model->size) memcpy(exact, model->data, model->size);
    qb_status status = qb_onnx_parse(cx, "test.onnx", NULL, exact, model->size, out);
    free(exact);
    ob_free(model);
    return status;
}

qb_status ob_parse_graph(qb_ctx *cx, ob *graph, qb_graph **out) {
    ob model = {0};
    ob_model(&model, 8, 17, graph);
    return ob_parse(cx, &model, out);
}

char *ob_text_of(qb_ctx *cx, const qb_graph *graph) {
    char *text = NULL;
    assert_ok(cx, qb_graph_text(cx, graph, &text));
    return text;
}

void ob_round_trip(qb_ctx *cx, const qb_graph *graph, ob *bytes) {
    char *data = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&data, &size);
    assert_non_null(stream);
    qb_status status = qb_onnx_write(cx, graph, stream);
    fclose(stream);
    assert_ok(cx, status);
    qb_graph *again = NULL;
    assert_ok(cx, qb_onnx_parse(cx, "again.onnx", NULL, data, size, &again));
    char *before = ob_text_of(cx, graph), *after = ob_text_of(cx, again);
    assert_string_equal(after, before);
    qb_free(before);
    qb_free(after);
    qb_graph_free(again);
    *bytes = (ob){(uint8_t *)data, size, size};
}
