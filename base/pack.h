/* Values into bytes and back by the same calls: what describes an object once writes and reads it.
 * Numbers are little-endian, as they lie in memory. The first failure stays in `status`; calls
 * after it do nothing, and what they should have read is zero. */
#ifndef QB_BASE_PACK_H
#define QB_BASE_PACK_H

#include <stdint.h>

#include "strbuf.h"

typedef struct qb_pack {
    qb_ctx *cx;
    const char *name; /* of the file that is read, for messages; not owned */
    bool reads;
    qb_status status;
    const uint8_t *at; /* what is left to be read; not owned */
    size_t left;
    qb_strbuf out; /* what was written */
} qb_pack;

/* n bytes. */
void qb_pack_bytes(qb_pack *p, void *data, size_t n);
/* A number or a structure without padding and pointers. */
#define QB_PACK(p, place) qb_pack_bytes((p), &(place), sizeof(place))
/* A bool, which is read as 0 or 1. */
void qb_pack_bool(qb_pack *p, bool *value);
/* A number of things of which there are at most `most`: any other is damage. */
void qb_pack_number_of(qb_pack *p, int64_t *n, int64_t most);
/* A text; NULL becomes "". What is read is new memory. */
void qb_pack_text(qb_pack *p, char **text);
/* How many things follow, of `each` bytes at least: more than there is room for is damage. */
void qb_pack_count(qb_pack *p, int64_t *n, size_t each);
/* A list of n things of `size` bytes; what is read is new memory. */
void qb_pack_list(qb_pack *p, void **list, int64_t *n, size_t size);
/* What is read is not what was written: QB_STATUS_FORMAT with the name and `what`. */
void qb_pack_refuse(qb_pack *p, const char *what);
/* The status; bytes that nobody read are damage. */
qb_status qb_pack_end(qb_pack *p);
#endif
