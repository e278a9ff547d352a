#include "json_damage.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* Where a value lies: in a list or in an object. */
typedef struct place {
    json_t *parent;
    const char *key;
    size_t index;
    char path[256];
} place;

static json_t *value_at(const place *p) {
    return p->key ? json_object_get(p->parent, p->key) : json_array_get(p->parent, p->index);
}

/* Takes over the value. */
static void put(const place *p, json_t *value) {
    if (p->key)
        json_object_set_new(p->parent, p->key, value);
    else
        json_array_set_new(p->parent, p->index, value);
}

/* Steps through all values; *left counts down to the one that is meant. */
static bool find(json_t *parent, const char *path, size_t *left, place *out);

static bool is_it(json_t *parent, const char *key, size_t index, json_t *value, const char *path,
                  size_t *left, place *out) {
    char here[256];
    if (key)
        snprintf(here, sizeof here, "%s.%s", path, key);
    else
        snprintf(here, sizeof here, "%s[%zu]", path, index);
    if ((*left)-- == 0) {
        *out = (place){.parent = parent, .key = key, .index = index};
        memcpy(out->path, here, sizeof here);
        return true;
    }
    return find(value, here, left, out);
}

static bool find(json_t *parent, const char *path, size_t *left, place *out) {
    size_t i;
    const char *key;
    json_t *value;
    if (json_is_array(parent)) {
        json_array_foreach(parent, i, value) {
            if (is_it(parent, NULL, i, value, path, left, out)) return true;
        }
    } else {
        json_object_foreach(parent, key, value) {
            if (is_it(parent, key, 0, value, path, left, out)) return true;
        }
    }
    return false;
}

static place any_place(json_t *root, qb_rng *rng) {
    place p;
    size_t all = SIZE_MAX, left;
    (void)find(root, "", &all, &p);
    left = (size_t)qb_rng_below(rng, SIZE_MAX - all);
    (void)find(root, "", &left, &p);
    return p;
}

static json_t *other_number(const json_t *value, qb_rng *rng) {
    static const json_int_t extreme[] = {0,         -1,         1,          255,       65536,
                                         INT32_MAX, INT32_MIN,  1LL << 31,  1LL << 40, INT64_MAX,
                                         INT64_MIN, UINT32_MAX, 1000000007, 3,         1LL << 62};
    const json_int_t old = json_integer_value(value);
    switch (qb_rng_below(rng, 4)) {
    case 0: return json_integer(old + 1);
    case 1: return json_integer((json_int_t)((uint64_t)old * 1000));
    case 2: return json_real(1e300);
    default: return json_integer(extreme[qb_rng_below(rng, sizeof extreme / sizeof *extreme)]);
    }
}

static json_t *other_string(const json_t *value, qb_rng *rng) {
    const char *old = json_string_value(value);
    const size_t n = json_string_length(value);
    char *text = malloc(2 * n + 16);
    switch (qb_rng_below(rng, 5)) {
    case 0: snprintf(text, 2 * n + 16, "%s%s", old, old); break;
    case 1: snprintf(text, 2 * n + 16, "%.*s", (int)(n / 2), old); break;
    case 2:
        snprintf(text, 2 * n + 16, "%llu", (unsigned long long)qb_rng_below(rng, 1 << 30));
        break;
    case 3: text[0] = 0; break;
    default:
        memcpy(text, old, n + 1);
        if (n > JSON_DAMAGE_LONG)
            text[n - 1] = 0;
        else if (n > 0)
            text[qb_rng_below(rng, n)] = (char)(32 + qb_rng_below(rng, 95));
    }
    json_t *made = json_string(text);
    free(text);
    return made;
}

static json_t *other_type(qb_rng *rng) {
    switch (qb_rng_below(rng, 8)) {
    case 0: return json_null();
    case 1: return json_true();
    case 2: return json_array();
    case 3: return json_object();
    case 4: return json_string("A");
    case 5: return json_real(0.5);
    case 6: return json_pack("[[[[i]]]]", 1);
    default: return json_integer(7);
    }
}

static void damage_value(json_t *root, qb_rng *rng, char *what, size_t n) {
    const place p = any_place(root, rng);
    json_t *value = value_at(&p);
    const char *how;
    switch (qb_rng_below(rng, 6)) {
    case 0:
        how = "left out";
        if (p.key)
            json_object_del(p.parent, p.key);
        else
            json_array_remove(p.parent, p.index);
        break;
    case 1:
        how = "of another type";
        put(&p, other_type(rng));
        break;
    case 2: {
        const place from = any_place(root, rng);
        how = "what is elsewhere";
        put(&p, json_deep_copy(value_at(&from)));
        break;
    }
    case 3:
        if (json_is_array(value)) {
            json_t *copy = json_deep_copy(value);
            how = "twice as long";
            json_array_extend(value, copy);
            json_decref(copy);
            break;
        }
        /* fall through */
    default:
        how = "changed";
        if (json_is_string(value))
            put(&p, other_string(value, rng));
        else if (json_is_number(value))
            put(&p, other_number(value, rng));
        else if (json_is_boolean(value))
            put(&p, json_boolean(!json_is_true(value)));
        else if (json_is_array(value))
            json_array_clear(value);
        else
            json_object_clear(value);
    }
    snprintf(what, n, "%s %s; ", p.path, how);
}

static char *damage_values(const char *text, qb_rng *rng, size_t *bytes, char *what) {
    json_t *root = json_loads(text, 0, NULL);
    size_t at = 0;
    for (uint64_t left = 1 + qb_rng_below(rng, 3); left > 0 && json_object_size(root) > 0; left--) {
        damage_value(root, rng, what + at, 512 - at);
        at += strlen(what + at);
    }
    char *damaged = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    *bytes = strlen(damaged);
    return damaged;
}

static bool is_in_long_string(const char *text, size_t n, size_t at) {
    size_t from = at, to = at;
    while (from > 0 && text[from - 1] != '"') from--;
    while (to < n && text[to] != '"') to++;
    return to - from > JSON_DAMAGE_LONG;
}

static size_t short_place(const char *text, size_t n, qb_rng *rng) {
    size_t at = 0;
    do at = (size_t)qb_rng_below(rng, n);
    while (is_in_long_string(text, n, at));
    return at;
}

/* Some bytes of short strings, and of what lies between strings. */
static char *damage_bytes(const char *text, qb_rng *rng, size_t *bytes, char *what) {
    const size_t n = strlen(text);
    char *damaged = malloc(n + 1);
    memcpy(damaged, text, n + 1);
    *bytes = n;
    if (qb_rng_below(rng, 10) == 0) {
        *bytes = (size_t)qb_rng_below(rng, n);
        damaged[*bytes] = 0;
        snprintf(what, 512, "cut to %zu bytes", *bytes);
        return damaged;
    }
    for (uint64_t left = 1 + qb_rng_below(rng, 2); left > 0; left--) {
        const size_t at = short_place(text, n, rng);
        damaged[at] = (char)(qb_rng_below(rng, 2) ? damaged[at] ^ 1 << qb_rng_below(rng, 7)
                                                  : 32 + (int)qb_rng_below(rng, 95));
        snprintf(what, 512, "byte %zu: %.20s...", at, text + (at > 10 ? at - 10 : 0));
    }
    return damaged;
}

char *json_damage(const char *text, uint64_t seed, size_t *bytes, char what[512]) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    what[0] = 0;
    return qb_rng_below(&rng, 4) == 0 ? damage_bytes(text, &rng, bytes, what)
                                      : damage_values(text, &rng, bytes, what);
}
