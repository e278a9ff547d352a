/* Other tools' calibration files: every reader on any bytes; what one accepts can be written in
 * every format that keeps names and read back with as many ranges. */
#include <stdlib.h>
#include <string.h>

#include "calib/ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_all(qb_ctx *cx, const qb_ranges *ranges) {
    int32_t n;
    const qb_calib_format *const *formats = qb_calib_formats(&n);
    for (int32_t i = 0; i < n; i++) {
        const qb_calib_format *format = formats[i];
        qb_strbuf text = {0};
        qb_ranges again;
        if (format->wants_graph) continue;
        const qb_status status = format->write(cx, ranges, NULL, &text);
        if (status == QB_OK && text.data) {
            if (qb_ranges_parse(cx, "again", text.data, text.size, &format, &again) != QB_OK)
                abort();
            if (again.n > ranges->n) abort();
            qb_ranges_release(&again);
        } else if (status != QB_OK && status != QB_STATUS_UNSUPPORTED) {
            abort();
        }
        qb_strbuf_release(&text);
    }
}

static void parse(const uint8_t *data, size_t size, const qb_calib_format *format) {
    qb_ctx cx;
    qb_ranges ranges;
    qb_ctx_init(&cx);
    if (qb_ranges_parse(&cx, "fuzz", (const char *)data, size, &format, &ranges) != QB_OK) {
        if (cx.code == QB_OK || !cx.message[0] || cx.code == QB_STATUS_INTERNAL) abort();
        return;
    }
    if (ranges.n < 1 || !format) abort();
    write_all(&cx, &ranges);
    qb_ranges_release(&ranges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int32_t n;
    const qb_calib_format *const *formats = qb_calib_formats(&n);
    parse(data, size, NULL);
    for (int32_t i = 0; i < n; i++) parse(data, size, formats[i]);
    return 0;
}
