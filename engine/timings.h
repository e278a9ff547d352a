/* The timing cache: how long tactics took on a device, kept in a file between builds.
 *
 *   qbench timings 1
 *   device NVIDIA H200, driver 13.0, CUDA 13.0, cuDNN 91300, qbench 0.1.0
 *   12.25<TAB>cuda.conv_s8.mma_nhwc_64x64x64<TAB>conv;u8:nhwc:1x64x56x56:t;...
 *   -<TAB>cuda.conv_s8.cudnn<TAB>conv;...
 *   6.1<TAB>cuda.matmul_f16.cublaslt<TAB>matmul;...<TAB>3
 *   compiled<TAB>0123456789abcdef0123456789abcdef<TAB>{"cudnnVersion":91900,...
 *
 * Microseconds, or '-' where the tactic does not take the problem; last, where the tactic has a
 * choice, the algorithm (qb_problem.variant) that was fastest. "compiled" is what a library
 * compiled for such an algorithm (kernels/compiled.h): compiled once more it works the same, but
 * may differ in bytes that mean nothing, and so would engine files. Sections of other devices (or
 * of other versions of the driver, the libraries or qbench) are kept and not looked at. One object
 * belongs to one thread at a time. */
#ifndef QB_ENGINE_TIMINGS_H
#define QB_ENGINE_TIMINGS_H

#include "kernels/compiled.h"
#include "kernels/problem.h"

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
QB_RELEASE_AT(qb_timings, qb_timings_free)

/* How long a tactic took, by which of its algorithms. */
typedef struct qb_timing {
    double seconds;  /* a multiple of a nanosecond, as the file has it; negative: not taken */
    int32_t variant; /* 0: it has no choice */
} qb_timing;

/* Is there an entry? */
bool qb_timings_find(const qb_timings *timings, const char *tactic, const char *problem,
                     qb_timing *timing);
/* Is there one of that tactic, for any problem? */
bool qb_timings_have(const qb_timings *timings, const char *tactic);
/* Adds an entry, or changes the one that there is, rounded to what the file will say; *timing is
 * that. */
qb_status qb_timings_add(qb_ctx *cx, qb_timings *timings, const char *tactic, const char *problem,
                         qb_timing *timing);

/* What was compiled; lines of text are kept in the file. */
qb_compiled *qb_timings_compiled(qb_timings *timings);

/* The problem as one word, new memory: all that its time may depend on (types, layouts, shapes,
 * slices, zero points or none, the window, what is fused), and not its scales. */
qb_status qb_problem_key(qb_ctx *cx, const qb_problem *problem, const bool *constant, char **out);
#endif
