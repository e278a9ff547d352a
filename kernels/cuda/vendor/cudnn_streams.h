/* What streams have to do with cuDNN: nothing where it was never used. */
#ifndef QB_CUDA_CUDNN_STREAMS_H
#define QB_CUDA_CUDNN_STREAMS_H

#include "base/ctx.h"

/* Before the stream is captured: cuDNN's plans can then be recorded on it. */
qb_status qb_cudnn_stream_ready(qb_ctx *cx, void *stream);
/* Before the stream is destroyed, when nothing is captured on it any more. */
void qb_cudnn_stream_close(void *stream);

#endif
