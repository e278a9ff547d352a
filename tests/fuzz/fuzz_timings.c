/* The reader of timing caches: what it takes it writes again, and reads again the same. */
#include <stdlib.h>
#include <string.h>

#include "engine/timings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char device[] = "GPU A, driver 1.0";
    qb_ctx cx;
    qb_ctx_init(&cx);
    char *text = malloc(size + 1), *first = NULL, *second = NULL;
    qb_timings *timings = NULL, *again = NULL;
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (qb_timings_parse(&cx, "fuzz", text, device, &timings) == QB_OK) {
        if (qb_timings_text(&cx, timings, &first) != QB_OK ||
            qb_timings_parse(&cx, "again", first, device, &again) != QB_OK ||
            qb_timings_text(&cx, again, &second) != QB_OK || strcmp(first, second) != 0)
            abort();
    } else if (timings || cx.code == QB_OK || cx.message[0] == '\0') {
        abort();
    }
    qb_free(first);
    qb_free(second);
    qb_timings_free(timings);
    qb_timings_free(again);
    free(text);
    return 0;
}
