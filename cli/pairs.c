#include "cli/pairs.h"

#include <string.h>

bool qb_pair_next(const char **at, qb_pair *out) {
    if (!*at || **at == '\0') return false;
    const char *text = *at;
    const size_t length = strcspn(text, ",");
    const char *colon = memrchr(text, ':', length);
    *out = (qb_pair){.name = colon ? text : NULL,
                     .name_length = colon ? (size_t)(colon - text) : 0,
                     .value = colon ? colon + 1 : text};
    out->value_length = length - (size_t)(out->value - text);
    *at = text + length + (text[length] == ',');
    return true;
}

bool qb_pair_is(const qb_pair *pair, const char *name) {
    return pair->name && strlen(name) == pair->name_length &&
           memcmp(pair->name, name, pair->name_length) == 0;
}
