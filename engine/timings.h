/* The timing cache: how long tactics took on a device, kept in a file between builds.
 *
 *   qbench timings 1
 *   device NVIDIA H200, driver 13.0, CUDA 13.0, cuDNN 91300, qbench 0.1.0
 *   12.25<TAB>cuda.conv_s8.mma_nhwc_64x64x64<TAB>conv;u8:nhwc:1x64x56x56:t;...
 *   -<TAB>cuda.conv_s8.cudnn<TAB>conv;...
 *
 * Microseconds, or '-' where the tactic does not take the problem. Sections of other devices (or of
 * other versions of the driver, the libraries or qbench) are kept and not looked at. One object
 * belongs to one thread at a time. */
#ifndef QB_ENGINE_TIMINGS_H
#define QB_ENGINE_TIMINGS_H

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_timings qb_timings;

/* The entries of `device` from the text of a file (`name` for messages). Errors name the line. */
qb_status qb_timings_parse(qb_ctx *cx, const char *name, const char *text, const char *device,
                           qb_timings **out);
/* The same from a file; an absent file, or path NULL, is an empty cache. */
qb_status qb_timings_load(qb_ctx *cx, const char *path, const char *device, qb_timings **out);
/* The whole file's new text, new memory: other devices' sections as they were, then this one's. */
qb_status qb_timings_text(qb_ctx *cx, const qb_timings *timings, char **text);
/* Writes the file when an entry was added since it was loaded. Atomic. */
qb_status qb_timings_save(qb_ctx *cx, const qb_timings *timings, const char *path);
void qb_timings_free(qb_timings *timings); /* accepts NULL */

/* Is there an entry? Seconds, or a negative number where the tactic does not take the problem. */
bool qb_timings_find(const qb_timings *timings, const char *tactic, const char *problem,
                     double *seconds);
/* Adds an entry; seconds < 0: not taken. */
qb_status qb_timings_add(qb_ctx *cx, qb_timings *timings, const char *tactic, const char *problem,
                         double seconds);

/* The problem as one word, new memory: all that its time may depend on (types, layouts, shapes,
 * slices, zero points or none, the window, what is fused), and not its scales. */
qb_status qb_problem_key(qb_ctx *cx, const qb_problem *problem, const bool *constant, char **out);

#ifdef __cplusplus
}
#endif
#endif
