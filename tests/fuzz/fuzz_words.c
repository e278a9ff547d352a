/* What is written on a command line in a language of its own: the first byte says which, the rest
 * is the text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/calib.h"
#include "cli/settings/methods.h"
#include "cli/settings/precision.h"
#include "engine/providers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A failure says something, and gives nothing. */
static void check(const qb_ctx *cx, qb_status status) {
    if (status != cx->code || (status != QB_OK && cx->message[0] == '\0')) abort();
    if (status == QB_STATUS_INTERNAL) abort();
}

static void read_shards(const char *text) {
    char again[8192];
    qb_shards shards = {0}, second = {0};
    if (!qb_shards_parse(text, &shards)) return;
    if (shards.n < 0 || shards.n > QB_TABLE_SHARDS) abort();
    qb_shards_text(&shards, again, sizeof again);
    if (!qb_shards_parse(again, &second) || memcmp(&shards, &second, sizeof shards) != 0) abort();
}

static void read_method(qb_ctx *cx, const char *text) {
    qb_method_choice choice, again;
    char canonical[256];
    const qb_status status = qb_method_parse(cx, text, &choice);
    check(cx, status);
    if (status != QB_OK) return;
    qb_method_text(&choice, canonical, sizeof canonical);
    if (qb_method_parse(cx, canonical, &again) != QB_OK || again.method != choice.method) abort();
}

static void read_methods(qb_ctx *cx, const char *text) {
    qb_methods list;
    check(cx, qb_methods_parse(cx, text, 100, &list));
}

static void read_precision(qb_ctx *cx, const char *text) {
    qb_precision precision = {0};
    qb_build_spec spec;
    const qb_status status = qb_precision_parse(cx, text, &precision);
    check(cx, status);
    if (status == QB_OK) (void)qb_precision_spec(&precision, &spec);
}

static void read_providers(qb_ctx *cx, const char *text) {
    const char *backends;
    char *missing = NULL;
    check(cx, qb_providers_choose(cx, text, &backends, &missing));
    qb_free(missing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    if (size < 1) return 0;
    qb_ctx_init(&cx);
    char *text = malloc(size);
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 5) {
    case 0: read_shards(text); break;
    case 1: read_method(&cx, text); break;
    case 2: read_methods(&cx, text); break;
    case 3: read_precision(&cx, text); break;
    case 4: read_providers(&cx, text); break;
    }
    free(text);
    return 0;
}
