#include "kernels/sources.h"

#include <string.h>
#include <strings.h>

#define WORDS "CUDNN, CUBLAS_LT, CUBLAS, EDGE_MASK_CONVOLUTIONS or JIT_CONVOLUTIONS"

static const struct source {
    const char *word;
    uint32_t bit;
} sources[] = {{"CUDNN", QB_SOURCE_CUDNN},
               {"CUBLAS_LT", QB_SOURCE_CUBLAS_LT},
               {"CUBLAS", QB_SOURCE_OWN},
               {"EDGE_MASK_CONVOLUTIONS", QB_SOURCE_OWN},
               {"JIT_CONVOLUTIONS", QB_SOURCE_OWN}};

uint32_t qb_tactic_source(const qb_tactic *tactic) {
    if (strstr(tactic->name, "cudnn")) return QB_SOURCE_CUDNN;
    return strstr(tactic->name, "cublaslt") ? QB_SOURCE_CUBLAS_LT : QB_SOURCE_OWN;
}

static const struct source *find(const char *word, size_t n) {
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strlen(sources[i].word) == n && strncasecmp(sources[i].word, word, n) == 0)
            return &sources[i];
    return NULL;
}

qb_status qb_sources_parse(qb_ctx *cx, const char *text, uint32_t *without) {
    uint32_t out = 0;
    for (const char *at = text; at && *at;) {
        const size_t n = strcspn(at, ",");
        const struct source *s = n > 1 ? find(at + 1, n - 1) : NULL;
        if (!s || (*at != '-' && *at != '+'))
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--tacticSources: expected + or - and " WORDS ", got '%.*s'", (int)n,
                           at);
        out = *at == '-' ? out | s->bit : out & ~s->bit;
        at += n + (at[n] == ',');
    }
    *without = out;
    return QB_OK;
}
