/* The form of a plan's text. Each rule is about something that cuDNN, or the driver behind it, was
 * seen to take on trust: tests/gpu/test_cuda_plan_texts.c. A member that no rule knows is taken
 * where it is a word or a number. */
#include <elf.h>
#include <jansson.h>
#include <string.h>

#include "kernels/cuda/vendor/cudnn_text/cudnn_text.h"

#define NAME_DIGITS 9
#define RANK_MAX 8
#define KERNELS_MAX 16
#define POINTER_BYTES 8
#define MAP_BYTES                                                                                  \
    64 /* what a tensor map's place in the parameters is apart from the next at least */

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_number_name(const json_t *name) {
    const char *text = json_string_value(name);
    const size_t n = text ? strspn(text, "0123456789") : 0;
    return n > 0 && n <= NAME_DIGITS && !text[n];
}

static bool is_between(const json_t *value, json_int_t low, json_int_t high) {
    return json_is_integer(value) && json_integer_value(value) >= low &&
           json_integer_value(value) <= high;
}

static bool is_list_between(const json_t *list, size_t n, json_int_t low, json_int_t high) {
    size_t i;
    const json_t *item;
    if (!json_is_array(list) || json_array_size(list) != n) return false;
    json_array_foreach(list, i, item) {
        if (!is_between(item, low, high)) return false;
    }
    return true;
}

static bool is_word(const json_t *value) {
    const char *text = json_string_value(value);
    return text && strncmp(text, "CUDNN_", 6) == 0;
}

static bool is_simple(const json_t *value) {
    return json_is_number(value) || json_is_boolean(value) || json_is_string(value);
}

static bool ends_in(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static bool is_tensor(json_t *tensor) {
    const char *key;
    json_t *value;
    const json_t *dim = json_object_get(tensor, "dim");
    const size_t rank = json_array_size(dim);
    const bool vector = json_object_get(tensor, "vectDim") != NULL;
    if (!is_number_name(json_object_get(tensor, "name")) || rank < 1 || rank > RANK_MAX ||
        !is_list_between(dim, rank, 1, INT32_MAX) ||
        !is_list_between(json_object_get(tensor, "stride"), rank, 0, (json_int_t)1 << 48) ||
        (vector && !is_between(json_object_get(tensor, "vectDim"), -1, (json_int_t)rank - 1)))
        return false;
    json_object_foreach(tensor, key, value) {
        const bool list = strcmp(key, "dim") == 0 || strcmp(key, "stride") == 0;
        if (!list && !is_simple(value)) return false;
        if (json_is_string(value) && strcmp(key, "name") != 0 && !is_word(value)) return false;
    }
    return true;
}

static bool names_a_tensor(const json_t *tensors, const json_t *name) {
    size_t i;
    const json_t *tensor;
    if (!is_number_name(name)) return false;
    json_array_foreach(tensors, i, tensor) {
        if (json_equal(json_object_get(tensor, "name"), name)) return true;
    }
    return false;
}

/* Pads, strides and windows: integers, or fractions as pairs. */
static bool is_window(const json_t *list) {
    size_t i;
    const json_t *item;
    if (json_array_size(list) < 1 || json_array_size(list) > RANK_MAX) return false;
    json_array_foreach(list, i, item) {
        const bool pair = is_list_between(item, 2, INT32_MIN, INT32_MAX) &&
                          json_integer_value(json_array_get(item, 1)) > 0;
        if (!pair && !is_between(item, INT32_MIN, INT32_MAX)) return false;
    }
    return true;
}

/* Words stand where the key says so, else a string is the name of a tensor. */
static bool has_word(const char *key) {
    static const char *const endings[] = {"operation", "ode", "Prec", "Type", "Opt"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_in(key, endings[i])) return true;
    return false;
}

static bool is_node(json_t *node, const json_t *tensors) {
    const char *key;
    json_t *value;
    size_t sides = 0; /* of all lists */
    if (!is_word(json_object_get(node, "operation"))) return false;
    json_object_foreach(node, key, value) {
        if (json_is_array(value)) {
            if (!is_window(value) || (sides && json_array_size(value) != sides)) return false;
            sides = json_array_size(value);
        } else if (!is_simple(value) ||
                   (json_is_string(value) &&
                    !(has_word(key) ? is_word(value) : names_a_tensor(tensors, value)))) {
            return false;
        }
    }
    value = json_object_get(node, "nbSpatialDims");
    return !value || is_between(value, (json_int_t)sides, (json_int_t)sides);
}

static bool is_graph(const json_t *graph) {
    const json_t *tensors = json_object_get(graph, "tensors");
    const json_t *nodes = json_object_get(graph, "nodes");
    size_t i;
    json_t *item;
    if (!json_is_string(json_object_get(graph, "finalizeMode")) || !json_is_array(tensors) ||
        !json_is_array(nodes) || json_object_size(graph) != 3)
        return false;
    json_array_foreach(tensors, i, item) {
        if (!is_tensor(item)) return false;
    }
    json_array_foreach(nodes, i, item) {
        if (!is_node(item, tensors)) return false;
    }
    return true;
}

/* ---- the GPU --------------------------------------------------------------------------------- */

/* Lists are the three sides of a grid or a block. */
static bool is_profile(json_t *profile) {
    const char *key;
    json_t *value;
    if (!json_is_object(profile)) return false;
    json_object_foreach(profile, key, value) {
        const bool name = json_is_string(value) && strcmp(key, "deviceName") == 0;
        if (!name && !is_between(value, 0, INT64_MAX) && !is_list_between(value, 3, 0, INT32_MAX))
            return false;
    }
    return true;
}

/* ---- the code -------------------------------------------------------------------------------- */

/* What a character of base64 stands for; -1: it is none. */
static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The bytes that a base64 text has; the first `most` of them go to `out`. False: it is none. */
static bool decode(const json_t *value, uint8_t *out, size_t most, size_t *bytes) {
    const char *text = json_string_value(value);
    size_t n = json_string_length(value), end = n;
    if (!text || n % 4) return false;
    while (end > 0 && n - end < 2 && text[end - 1] == '=') end--;
    *bytes = end / 4 * 3 + (end % 4 ? end % 4 - 1 : 0);
    uint32_t bits = 0;
    for (size_t i = 0, at = 0; i < end; i++) {
        const int digit = digit_of(text[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 == 0) continue;
        if (at < most && at < *bytes) out[at] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
        at++;
    }
    return true;
}

/* A file of machine code, whole: its tables lie at its end. */
static bool is_machine_code(const json_t *value) {
    Elf64_Ehdr elf;
    size_t bytes;
    if (!decode(value, (uint8_t *)&elf, sizeof elf, &bytes) || bytes < sizeof elf) return false;
    const uint64_t sections = elf.e_shoff + (uint64_t)elf.e_shnum * elf.e_shentsize;
    const uint64_t segments = elf.e_phoff + (uint64_t)elf.e_phnum * elf.e_phentsize;
    return memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_machine == EM_CUDA &&
           elf.e_shentsize == sizeof(Elf64_Shdr) && elf.e_phentsize == sizeof(Elf64_Phdr) &&
           elf.e_shoff < bytes && elf.e_phoff < bytes &&
           (sections > segments ? sections : segments) == bytes;
}

/* Places in the parameters that cuDNN writes to. */
static bool is_list_of_places(const json_t *offsets, size_t bytes) {
    size_t i;
    json_t *place;
    if (!json_is_array(offsets)) return false;
    json_array_foreach(offsets, i, place) {
        const char *as = json_string_value(json_object_get(place, "update_as"));
        const size_t capacity = !as ? 0 : strcmp(as, "pointer") == 0 ? POINTER_BYTES : MAP_BYTES;
        const char *key;
        json_t *value;
        if (capacity > bytes ||
            !is_between(json_object_get(place, "value"), 0, (json_int_t)(bytes - capacity)))
            return false;
        json_object_foreach(place, key, value) {
            if (!json_is_integer(value) && !json_is_string(value)) return false;
        }
    }
    return true;
}

static bool is_kernel(const json_t *kernel) {
    const json_t *params = json_object_get(kernel, "kernelParams");
    size_t bytes;
    return json_is_string(json_object_get(kernel, "kernelName")) &&
           is_machine_code(json_object_get(kernel, "cubin")) &&
           decode(json_object_get(params, "rawData"), NULL, 0, &bytes) &&
           is_list_of_places(json_object_get(params, "offsets"), bytes);
}

/* What was compiled; without it the library has the code. No kernel is there twice. */
static bool is_payload(const json_t *payload) {
    const json_t *kernels = json_object_get(payload, "kernels");
    const size_t n = json_array_size(kernels);
    if (!payload) return true;
    if (n < 1 || n > KERNELS_MAX || json_object_size(payload) != 1) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *kernel = json_array_get(kernels, i);
        if (!is_kernel(kernel)) return false;
        for (size_t j = 0; j < i; j++)
            if (json_equal(kernel, json_array_get(kernels, j))) return false;
    }
    return true;
}

static bool is_engine(json_t *engine) {
    const char *key;
    json_t *value, *knobs = json_object_get(engine, "knobChoices");
    if (!json_is_object(engine) || (knobs && !json_is_object(knobs))) return false;
    json_object_foreach(knobs, key, value) {
        if (!json_is_integer(value)) return false;
    }
    json_object_foreach(engine, key, value) {
        const bool part = value == knobs || strcmp(key, "payload") == 0;
        if (!part && !json_is_integer(value)) return false;
    }
    return is_payload(json_object_get(engine, "payload"));
}

/* ---- the text -------------------------------------------------------------------------------- */

static bool is_plan(json_t *root) {
    static const char *const parts[] = {"operationGraph", "GPUProfile", "engine"};
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        bool part = false;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            part = part || strcmp(key, parts[i]) == 0;
        if (!part && !json_is_integer(value)) return false;
    }
    return json_is_integer(json_object_get(root, "cudnnVersion")) &&
           is_graph(json_object_get(root, parts[0])) &&
           is_profile(json_object_get(root, parts[1])) &&
           is_engine(json_object_get(root, parts[2]));
}

bool qb_cudnn_text_is_plan(const char *text, size_t bytes) {
    if (bytes > QB_CUDNN_TEXT_MAX) return false;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const bool good = is_plan(root);
    json_decref(root);
    return good;
}
