/* Where a device's tactics come from: libraries, which a user may leave out, and qbench itself. */
#ifndef QB_KERNELS_SOURCES_H
#define QB_KERNELS_SOURCES_H

#include "kernels/tactic.h"

/* A bit for each library. */
enum { QB_SOURCE_OWN = 0, QB_SOURCE_CUDNN = 1, QB_SOURCE_CUBLAS_LT = 2, QB_SOURCES_ALL = 3 };

/* Of a tactic, by its name: "cuda.conv_f16.cudnn" is cuDNN's. */
uint32_t qb_tactic_source(const qb_tactic *tactic);

/* "-CUDNN,+CUBLAS_LT", as trtexec's --tacticSources: a word with - is left out (its bit set in
 * *without), one with + is not. Sources of TensorRT that qbench has nothing of are taken and change
 * nothing. NULL: none is left out. QB_STATUS_USAGE names the word that is wrong. */
qb_status qb_sources_parse(qb_ctx *cx, const char *text, uint32_t *without);
#endif
