/* Texts of cuDNN's plans, and where they belong: a text that was moved moves to the same place
 * again. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/vendor/cudnn_text/cudnn_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    char *moved, *again;
    const char *text = (const char *)data;
    if (!qb_cudnn_text_is_plan(text, size)) return 0;
    qb_ctx_init(&cx);
    if (qb_cudnn_text_on(&cx, text, size, 1, 20, &moved) != QB_OK) abort();
    if (qb_cudnn_text_is_plan(moved, strlen(moved))) {
        if (qb_cudnn_text_on(&cx, moved, strlen(moved), 1, 20, &again) != QB_OK) abort();
        if (strcmp(moved, again) != 0) abort();
        qb_free(again);
    }
    qb_free(moved);
    return 0;
}
