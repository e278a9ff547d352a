/* Engine files (.qbe): a built engine with its packed weights, to be loaded where it was built or
 * on a machine like it. The form is described in docs/formats/engine.md. */
#ifndef QB_ENGINE_FILE_H
#define QB_ENGINE_FILE_H

#include "base/hash.h"
#include "engine/engine.h"

#define QB_ENGINE_FILE_FORMAT 6

/* Where an engine comes from, for those who find its file later. Texts may be NULL. */
typedef struct qb_engine_origin {
    const char *model;       /* file name of the ONNX model */
    const char *precision;   /* "int8:entropy" */
    const char *calibration; /* the calibration's method */
    qb_hash data_hash;       /* of the calibration data; zero: none */
    const char *prepared;    /* how those became inputs, as text */
    const char *options;     /* more of the command that builds it: "--batch 4"; NULL: none */
    /* Where else than here the file is to load. Either keeps the weights as the model has them, and
     * they are packed at every load; where something differs, kernels are chosen anew. */
    bool version_compatible;  /* with other versions of qbench and its libraries */
    bool hardware_compatible; /* on other processors */
} qb_engine_origin;

/* Writes the file, atomically. The same engine gives the same bytes. An engine of a device is bound
 * to such a device, its driver and libraries, and to a processor only where that runs some of its
 * steps. Refused (QB_STATUS_UNSUPPORTED): compatible files of an engine that has no plain weights
 * any more, because it was loaded from a file that is not. */
qb_status qb_engine_save(qb_ctx *cx, const qb_engine *engine, const qb_engine_origin *origin,
                         const char *path);

/* Signs a file that was saved with the private key in the file `key`, into PATH.sig: 64 bytes that
 * `openssl pkeyutl -verify -rawin` checks as well. Where cx->engine_key is set, every function
 * below refuses (QB_STATUS_MISMATCH) a file that is not signed by that key before it looks at its
 * content. */
qb_status qb_engine_file_sign(qb_ctx *cx, const char *key, const char *path);

/* Checks every byte (hashes), that the file fits this program and processor, as far as it says that
 * it must, and makes the engine again as it was recorded; packed weights stay in the file, which is
 * mapped read-only and must not be cut short while the engine lives. Errors: QB_STATUS_FORMAT
 * (damaged, or written by a newer format), QB_STATUS_MISMATCH (made for another machine or program;
 * the message has both sides and the command that builds it anew). */
qb_status qb_engine_load(qb_ctx *cx, const char *path, qb_engine **out);
/* The same on another one of several devices than the first, 0; for an engine of the host that
 * number means nothing. */
qb_status qb_engine_load_on(qb_ctx *cx, const char *path, int32_t device, qb_engine **out);

/* Whether a file begins as an engine file does, whatever its name; false where it cannot be read.
 */
bool qb_engine_file_is(const char *path);

/* The tags of a file as JSON text (new memory), after all of its hashes were checked; works for
 * files that do not fit this machine. */
qb_status qb_engine_file_tags(qb_ctx *cx, const char *path, char **json);

/* The plan of a file as JSON text (new memory), schema qbench.plan/1, likewise. */
qb_status qb_engine_file_plan(qb_ctx *cx, const char *path, char **json);

/* The command that builds the file anew ("qbench build --model ..."), new memory. */
qb_status qb_engine_file_command(qb_ctx *cx, const char *path, char **command);

/* What kernels ask of a processor, as engine files record it: "avx2 fma avx512f ...". */
void qb_engine_processor(char *text, size_t n);
#endif
