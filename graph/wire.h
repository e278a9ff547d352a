/* The protobuf encoding below protobuf-c, which unpacks whatever it is given: bytes are checked
 * first, and what it may allocate is bounded. */
#ifndef QB_GRAPH_WIRE_H
#define QB_GRAPH_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "base/ctx.h"

typedef struct qb_span {
    const uint8_t *data;
    size_t size;
} qb_span;

typedef struct qb_wire_field {
    uint32_t number, type; /* type: 0 varint, 1 64 bit, 2 with length, 5 32 bit */
    qb_span whole;         /* with the tag */
    qb_span content;       /* of type 2, without the length */
} qb_wire_field;

/* Takes one field off the front of `rest`. False at the end and when the bytes are malformed (then
 * rest->size is not 0). */
bool qb_wire_next(qb_span *rest, qb_wire_field *out);
/* Checks bytes against a message's descriptor: tags, lengths, wire types, text without zero bytes,
 * nesting depth. Errors give the offset. */
qb_status qb_wire_check(qb_ctx *cx, const ProtobufCMessageDescriptor *desc, qb_span bytes);
/* Unpacks checked bytes. All that protobuf-c allocates must stay within a budget proportional to
 * the bytes: empty messages cost two bytes in a file and over a hundred in memory. */
qb_status qb_wire_unpack(qb_ctx *cx, const ProtobufCMessageDescriptor *desc, qb_span bytes,
                         ProtobufCMessage **out);
void qb_wire_free(ProtobufCMessage *message); /* accepts NULL */
QB_RELEASE_AT(ProtobufCMessage, qb_wire_free)
#endif
