/* Damage to a text of JSON, by a seed: numbers, names, lists and members changed where they are, or
 * bytes of the text. Strings of more than JSON_DAMAGE_LONG bytes are cut, doubled or replaced, but
 * no byte in the middle of them is changed. */
#ifndef JSON_DAMAGE_H
#define JSON_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

#define JSON_DAMAGE_LONG 4000

/* New memory (free), `*bytes` long and followed by 0. `what` tells where and how. */
char *json_damage(const char *text, uint64_t seed, size_t *bytes, char what[512]);

#endif
