/* Preference lists of tactic backends, as build specs name them: "cpu,dnnl,ref", "cuda,cpu". */
#ifndef QB_ENGINE_BACKENDS_H
#define QB_ENGINE_BACKENDS_H

#include "base/arena.h"
#include "base/ctx.h"

#define QB_BACKENDS_MAX 4 /* rows of backends.def */

/* A list, resolved. */
typedef struct qb_backend_list {
    const struct qb_device_api *device;    /* that stands in front; NULL: the host alone */
    const char *name[QB_BACKENDS_MAX + 1]; /* of the host, in order, ref among them; then NULL */
} qb_backend_list;

/* The reference is added where it is not there. The default list (NULL) may name what this build
 * does not have; QB_STATUS_USAGE for any other that does, and for a device that is not the first.
 * Behind a device stand the default ones unless others are named. */
qb_status qb_backends_parse(qb_ctx *cx, const char *text, qb_backend_list *out);
/* And back: "cuda,cpu,ref"; lives in the arena. NULL with an error. */
const char *qb_backends_text(qb_ctx *cx, const qb_backend_list *list, qb_arena *arena);

/* Does a preference list (NULL: the default) begin with a device that this build knows? */
bool qb_backends_name_device(const char *backends);
/* Are all of a preference list here and now? QB_STATUS_USAGE for what this build does not have, the
 * device's own error where it cannot be opened. */
qb_status qb_backends_check(qb_ctx *cx, const char *backends);
/* A preference list as records name it, new memory: "cpu" for NULL and whatever means the same in
 * this build, else its families without the reference at the end that each has: "dnnl", "ref",
 * "cuda"; "cpu,ref" for the own kernels alone. NULL with an error for a list that is none. */
char *qb_backends_name(qb_ctx *cx, const char *backends);
#endif
