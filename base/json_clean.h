/* Texts of JSON documents (jansson), made clean (base/text.h). */
#ifndef QB_BASE_JSON_CLEAN_H
#define QB_BASE_JSON_CLEAN_H

#include <jansson.h>

#include <stdbool.h>

/* Makes all keys and strings below `root` clean; false when memory runs out. */
bool qb_json_clean(json_t *root);
/* A number; null for one that is not finite. NULL when memory runs out. */
json_t *qb_json_finite(double value);
/* A string value of any text, made clean; NULL when memory runs out. */
json_t *qb_json_text(const char *text);
#endif
