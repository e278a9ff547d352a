/* The text (JSON) in which cuDNN keeps a plan: the graph, the GPU, and the code that was compiled
 * for it. Here it is only looked at, which takes neither cuDNN nor a GPU. */
#ifndef QB_KERNELS_CUDNN_TEXT_H
#define QB_KERNELS_CUDNN_TEXT_H

#include <stdint.h>

#include "base/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_CUDNN_TEXT_MAX ((size_t)16 << 20) /* bytes; plans seen have up to 90 KB */

/* Has it the form of a plan? cuDNN trusts the text it reads: it ends the process where a list is
 * none, a tensor's name is no number, or lists lie in lists without end. The numbers and the code
 * in it are not judged. */
bool qb_cudnn_text_is_plan(const char *text, size_t bytes);

/* The text as it is for the GPU of this ordinal, at this place of the bus: both are in it, and
 * nothing else differs between two GPUs of a kind. New memory. */
qb_status qb_cudnn_text_on(qb_ctx *cx, const char *text, size_t bytes, int32_t ordinal,
                           int32_t place, char **out);

#ifdef __cplusplus
}
#endif
#endif
