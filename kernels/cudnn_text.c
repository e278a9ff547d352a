#include "kernels/cudnn_text.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "base/strbuf.h"

#define NAME_DIGITS 9
#define NESTED_MAX 4 /* lists in lists */

/* ---- its form -------------------------------------------------------------------------------- */

static bool is_number_name(const json_t *name) {
    const char *text = json_string_value(name);
    const size_t n = text ? strspn(text, "0123456789") : 0;
    return n > 0 && n <= NAME_DIGITS && !text[n];
}

/* Integers, or lists of them. */
static bool is_list_of_integers(const json_t *list, int depth) {
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item) {
        if (json_is_array(item) && depth < NESTED_MAX ? !is_list_of_integers(item, depth + 1)
                                                      : !json_is_integer(item))
            return false;
    }
    return true;
}

/* A word of cuDNN's, or the name of a tensor. */
static bool is_word_or_name(const json_t *text) {
    return strncmp(json_string_value(text), "CUDNN_", 6) == 0 || is_number_name(text);
}

/* Of a tensor or of an operation: nothing in it but words, numbers and lists of integers. */
static bool is_record(json_t *record, bool tensor) {
    const char *key;
    json_t *value;
    if (!json_is_object(record) || (tensor && !is_number_name(json_object_get(record, "name"))))
        return false;
    json_object_foreach(record, key, value) {
        if (json_is_object(value) || json_is_null(value)) return false;
        if (json_is_array(value) && !is_list_of_integers(value, tensor ? NESTED_MAX : 0))
            return false;
        if (json_is_string(value) && !is_word_or_name(value)) return false;
    }
    return true;
}

static bool is_list_of_records(const json_t *list, bool tensors) {
    size_t i;
    json_t *item;
    if (!json_is_array(list)) return false;
    json_array_foreach(list, i, item) {
        if (!is_record(item, tensors)) return false;
    }
    return true;
}

/* `payload` is what was compiled; without it the library has the code. */
static bool is_payload(const json_t *payload) {
    size_t i;
    const json_t *kernel, *kernels = json_object_get(payload, "kernels");
    if (!payload) return true;
    if (!json_is_array(kernels)) return false;
    json_array_foreach(kernels, i, kernel) {
        if (!json_is_string(json_object_get(kernel, "kernelName")) ||
            !json_is_string(json_object_get(kernel, "cubin")) ||
            !json_is_object(json_object_get(kernel, "kernelParams")))
            return false;
    }
    return true;
}

bool qb_cudnn_text_is_plan(const char *text, size_t bytes) {
    if (bytes > QB_CUDNN_TEXT_MAX) return false;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *graph = json_object_get(root, "operationGraph");
    const json_t *engine = json_object_get(root, "engine");
    const bool good = json_is_integer(json_object_get(root, "cudnnVersion")) &&
                      json_is_object(json_object_get(root, "GPUProfile")) &&
                      json_is_string(json_object_get(graph, "finalizeMode")) &&
                      is_list_of_records(json_object_get(graph, "tensors"), true) &&
                      is_list_of_records(json_object_get(graph, "nodes"), false) &&
                      json_is_object(engine) && is_payload(json_object_get(engine, "payload"));
    json_decref(root);
    return good;
}

/* ---- where it belongs ------------------------------------------------------------------------ */

/* Copies what lies before a key's number, then the other number; returns what lies behind. */
static const char *put_number(qb_strbuf *out, const char *at, const char *end, const char *key,
                              int32_t number) {
    const char *found = memmem(at, (size_t)(end - at), key, strlen(key));
    if (!found) return at;
    found += strlen(key);
    qb_strbuf_addn(out, at, (size_t)(found - at));
    qb_strbuf_addf(out, "%d", (int)number);
    while (found < end && isdigit((unsigned char)*found)) found++;
    return found;
}

qb_status qb_cudnn_text_on(qb_ctx *cx, const char *text, size_t bytes, int32_t ordinal,
                           int32_t place, char **out) {
    const char *end = text + bytes, *at = text;
    qb_strbuf buf = {0};
    at = put_number(&buf, at, end, "\"pciDeviceId\":", place);
    at = put_number(&buf, at, end, "\"cudaDeviceId\":", ordinal);
    qb_strbuf_addn(&buf, at, (size_t)(end - at));
    const qb_status status = qb_strbuf_take(cx, &buf, out);
    qb_strbuf_release(&buf);
    return status;
}
