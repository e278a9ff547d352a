#include "json_clean.h"

#include <math.h>

#include "text.h"

json_t *qb_json_text(const char *text) {
    if (qb_text_is_clean(text)) return json_string(text);
    qb_ctx quiet;
    qb_ctx_init(&quiet);
    QB_FREED char *clean = qb_text_clean(&quiet, text);
    return clean ? json_string(clean) : NULL;
}

/* Keys cannot be renamed: what has such keys is made anew. */
static bool clean_keys(json_t *object) {
    const char *key;
    json_t *value;
    bool all = true;
    json_object_foreach(object, key, value) all = all && qb_text_is_clean(key);
    if (all) return true;
    json_auto_t *copy = json_copy(object);
    bool done = copy && json_object_clear(object) == 0;
    json_object_foreach(copy, key, value) {
        json_t *name = done ? qb_json_text(key) : NULL;
        done = name && json_object_set(object, json_string_value(name), value) == 0;
        json_decref(name);
    }
    return done;
}

static bool clean_object(json_t *object) {
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value) {
        if (!json_is_string(value)) {
            if (!qb_json_clean(value)) return false;
        } else if (!qb_text_is_clean(json_string_value(value))) {
            if (json_object_set_new(object, key, qb_json_text(json_string_value(value))) != 0)
                return false;
        }
    }
    return clean_keys(object);
}

static bool clean_list(json_t *list) {
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value) {
        if (!json_is_string(value)) {
            if (!qb_json_clean(value)) return false;
        } else if (!qb_text_is_clean(json_string_value(value))) {
            if (json_array_set_new(list, i, qb_json_text(json_string_value(value))) != 0)
                return false;
        }
    }
    return true;
}

bool qb_json_clean(json_t *root) {
    return json_is_object(root)  ? clean_object(root)
           : json_is_array(root) ? clean_list(root)
                                 : true;
}

json_t *qb_json_finite(double value) { return isfinite(value) ? json_real(value) : json_null(); }
