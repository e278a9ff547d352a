/* What decodes image files: the processor, or a device that takes JPEG files in batches. */
#ifndef QB_DATASETS_DECODER_H
#define QB_DATASETS_DECODER_H

#include "datasets/dataset.h"
#include "kernels/cuda/vendor/jpeg_batch.h"

/* Threads that decode at once for a device's batches to fill; they wait most of the time. */
#define QB_DECODER_CALLERS 48

typedef struct qb_decoder qb_decoder;

/* The batch decoder of this name ("nvjpeg"). QB_STATUS_USAGE for any other name but "cpu", which
 * gives *out NULL; QB_STATUS_UNSUPPORTED in a build without it. */
qb_status qb_decoder_find(qb_ctx *cx, const char *name, const qb_jpeg_batch_api **out);

/* Opens lanes on the device. Fails as api->open does. */
qb_status qb_decoder_open(qb_ctx *cx, const qb_jpeg_batch_api *api, int32_t device,
                          qb_decoder **out);
void qb_decoder_close(qb_decoder *decoder);             /* accepts NULL; nobody may be in it */
const char *qb_decoder_name(const qb_decoder *decoder); /* "cpu" for NULL */

/* As qb_image_decode, from any number of threads: files of several callers are decoded together.
 * What the device does not take (see qb_jpeg_plain), the processor decodes, or says what is wrong
 * with it. Which of the two decodes a file, and to which pixels, depends on the file alone. NULL is
 * the processor. */
qb_status qb_decoder_decode(qb_ctx *cx, qb_decoder *decoder, const char *name, const uint8_t *data,
                            size_t size, qb_image *out);

/* Is it a JPEG file as cameras and nearly all programs write it, whole from the first marker to the
 * last: baseline, 8 bits, one scan, YCbCr with chroma in full or half resolution? Then the job's
 * width and height are set. Grey, CMYK, RGB and progressive files are not, nor are truncated ones
 * or those with restart markers in a wrong place. The codes between the markers are not looked at.
 */
bool qb_jpeg_plain(const uint8_t *data, size_t size, qb_jpeg_job *job);
#endif
