/* Status codes: the one enumeration that every function that can fail returns. */
#ifndef QB_BASE_STATUS_H
#define QB_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text). Add a row here; names and texts follow. */
#define QB_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(NOMEM, "out of memory")                                                                      \
    X(IO, "input/output error")                                                                    \
    X(FORMAT, "malformed file")                                                                    \
    X(UNSUPPORTED, "not supported")                                                                \
    X(INVALID, "invalid argument")                                                                 \
    X(NOTFOUND, "not found")                                                                       \
    X(MISMATCH, "artifacts do not belong together")                                                \
    X(CANCELLED, "cancelled")                                                                      \
    X(USAGE, "usage error")                                                                        \
    X(CHECK, "a check did not hold")                                                               \
    X(INTERNAL, "internal error")

typedef enum qb_status {
#define X(name, text) QB_STATUS_##name,
    QB_STATUS_LIST(X)
#undef X
        QB_STATUS_COUNT,
    QB_OK = QB_STATUS_OK
} qb_status;

#ifdef __cplusplus
}
#endif
#endif
