/* qb_config_parse and all that reads its result, on any text. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_everything(qb_ctx *cx, const qb_config *config, size_t size) {
    static const char *const paths[] = {"model", "calibration.method", "preprocess.mean", "a",
                                        "a.b",   "calibration",        "gate.max_drop"};
    static const char *const known[] = {"model", "calibration.method", "preprocess.*", "a", NULL};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *text = NULL;
        int64_t integer;
        double numbers[4];
        bool flag;
        int n;
        /* An escape of two bytes ("\L") stands for at most three. */
        if (qb_config_string(cx, config, paths[i], &text) == QB_OK && text &&
            strlen(text) > 3 * size)
            abort();
        (void)qb_config_int(cx, config, paths[i], &integer);
        (void)qb_config_double(cx, config, paths[i], numbers);
        (void)qb_config_bool(cx, config, paths[i], &flag);
        if (qb_config_doubles(cx, config, paths[i], numbers, 4, &n) == QB_OK && n > 4) abort();
    }
    (void)qb_config_check_keys(cx, config, known);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_config *config = NULL;
    if (qb_config_parse(&cx, "fuzz.yaml", (const char *)data, size, &config) == QB_OK) {
        read_everything(&cx, config, size);
    } else if (cx.code == QB_OK || cx.message[0] == '\0' || config) {
        abort(); /* a failure says why and gives nothing */
    }
    qb_config_free(config);
    return 0;
}
