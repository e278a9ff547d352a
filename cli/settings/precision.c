#include "cli/settings/precision.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "engine/backends.h"
#include "engine/engine.h"
#include "engine/file.h"
#include "engine/providers.h"

#define LONGEST 256

static const char *const schemes[] = {[QB_SCHEME_U8_AFFINE] = "u8-affine",
                                      [QB_SCHEME_S8_AFFINE] = "s8-affine",
                                      [QB_SCHEME_S8_SYMMETRIC] = "s8-symmetric"};

const char *qb_scheme_text(qb_act_scheme scheme) { return schemes[scheme]; }

bool qb_scheme_parse(const char *text, qb_act_scheme *out) {
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strcmp(text, schemes[i]) == 0) {
            *out = (qb_act_scheme)i;
            return true;
        }
    return false;
}

static qb_status bad_form(qb_ctx *cx, const char *text, const char *why, const char *word) {
    return qb_fail(cx, QB_STATUS_USAGE, "precision '%s': %s '%s': expected " QB_PRECISION_FORM,
                   text, why, word);
}

/* The kinds of variants, each of which may come once. */
typedef enum variant { SCHEME, GRANULARITY, WEIGHTS, RECOVERY, N_VARIANTS } variant;

/* What follows a '+'; `given`, by kind, tells what came before. */
static qb_status apply_variant(qb_ctx *cx, const char *text, const char *word,
                               bool given[N_VARIANTS], qb_precision *out) {
    variant kind = SCHEME;
    if (strcmp(word, "per-tensor") == 0) {
        out->per_tensor_weights = true;
        kind = GRANULARITY;
    } else if (strcmp(word, "recover") == 0) {
        out->recover = true;
        kind = RECOVERY;
    } else if (strncmp(word, "weights-", 8) == 0) {
        QB_TRY_WRAP(cx, qb_weight_range_find(cx, word + 8, &out->weights), "precision '%s'", text);
        kind = WEIGHTS;
    } else if (!qb_scheme_parse(word, &out->activations)) {
        return bad_form(cx, text, "unknown variant", word);
    }
    if (given[kind]) return bad_form(cx, text, "one too many:", word);
    given[kind] = true;
    return QB_OK;
}

static qb_status parse_variants(qb_ctx *cx, const char *text, qb_precision *out) {
    bool given[N_VARIANTS] = {false};
    for (const char *at = text + strcspn(text, "+"); *at == '+';) {
        char word[32];
        const size_t length = strcspn(++at, "+");
        if (length >= sizeof word) return bad_form(cx, text, "unknown variant", at);
        memcpy(word, at, length);
        word[length] = '\0';
        QB_TRY(apply_variant(cx, text, word, given, out));
        at += length;
    }
    return QB_OK;
}

/* What stands in front of the '@'. */
static qb_status parse_kind(qb_ctx *cx, const char *text, qb_precision *out) {
    qb_precision p = *out;
    p.method[0] = '\0';
    const size_t name = strcspn(text, ":+"), head = strcspn(text, "+");
    if (strcmp(text, "fp32") == 0) {
        p.kind = QB_PRECISION_FP32;
    } else if (strcmp(text, "tf32") == 0) {
        p.kind = QB_PRECISION_TF32;
    } else if (strcmp(text, "fp16") == 0) {
        p.kind = QB_PRECISION_FP16;
    } else if (strcmp(text, "bf16") == 0) {
        p.kind = QB_PRECISION_BF16;
    } else if (name == 4 && (strncmp(text, "int8", 4) == 0 || strncmp(text, "best", 4) == 0)) {
        const size_t length = text[name] == ':' ? head - name - 1 : 0;
        if (text[name] == ':' && length == 0) return bad_form(cx, text, "no method after", ":");
        if (length >= sizeof p.method) return bad_form(cx, text, "unknown method", text + name + 1);
        p.kind = text[0] == 'b' ? QB_PRECISION_BEST : QB_PRECISION_INT8;
        memcpy(p.method, text + head - length, length);
        p.method[length] = '\0';
        QB_TRY(parse_variants(cx, text, &p));
    } else {
        return qb_fail(
            cx, QB_STATUS_USAGE,
            "unknown precision '%s': expected fp32, tf32, fp16, bf16, best or " QB_PRECISION_FORM,
            text);
    }
    *out = p;
    return QB_OK;
}

/* A precision, wherever it is to run. The length of a file's name may be any. */
static bool is_precision(const char *text) {
    qb_ctx quiet; /* what is neither a precision nor a file is for the caller to tell */
    qb_precision ignored = {0};
    char kind[LONGEST];
    const char *at = strrchr(text, '@');
    const size_t length = at ? (size_t)(at - text) : strlen(text);
    if (length >= sizeof kind) return false;
    memcpy(kind, text, length);
    kind[length] = '\0';
    qb_ctx_init(&quiet);
    return parse_kind(&quiet, kind, &ignored) == QB_OK;
}

bool qb_precision_is_quantized(const qb_precision *precision) {
    return precision->kind == QB_PRECISION_INT8 || precision->kind == QB_PRECISION_BEST;
}

bool qb_precision_names_engine(const char *text) {
    if (qb_has_suffix(text, ".qbe")) return true;
    return (strchr(text, '/') || !is_precision(text)) && qb_engine_file_is(text);
}

const char *qb_precision_where(const char *text) {
    const char *at = strrchr(text, '@');
    return !at || qb_has_suffix(text, ".onnx") || qb_precision_names_engine(text)
               ? text + strlen(text)
               : at;
}

qb_status qb_precision_place(qb_ctx *cx, const char *text, qb_precision *out) {
    const char *where = qb_precision_where(text);
    if (!*where) return QB_OK;
    QB_TRY_WRAP(cx, qb_backends_require(cx, where + 1, &out->spec.backends), "%s", text);
    out->placed = true;
    return QB_OK;
}

qb_status qb_precision_parse(qb_ctx *cx, const char *text, qb_precision *out) {
    const char *where = qb_precision_where(text);
    qb_precision p = *out;
    char kind[LONGEST];
    if (where - text >= LONGEST)
        return qb_fail(cx, QB_STATUS_USAGE, "precision '%.32s...' is too long", text);
    snprintf(kind, sizeof kind, "%.*s", (int)(where - text), text);
    QB_TRY(parse_kind(cx, kind, &p));
    QB_TRY(qb_precision_place(cx, text, &p));
    *out = p;
    return QB_OK;
}

#define FP16_IS_OF_GPUS                                                                            \
    "no kernel of the processor computes in fp16, its own ones and oneDNN's alike; it runs on a "  \
    "GPU (--providers cuda)"

const char *qb_precision_spec(const qb_precision *precision, qb_build_spec *out) {
    const char *backends = precision->spec.backends;
    const bool device = qb_backends_name_device(backends);
    *out = precision->spec;
    out->float_type = QB_DTYPE_F32;
    switch (precision->kind) {
    case QB_PRECISION_FP32: break;
    case QB_PRECISION_TF32:
        out->tf32 = true;
        if (!device)
            return "a processor computes in fp32 itself; it runs on a GPU (--providers cuda)";
        break;
    case QB_PRECISION_FP16:
        if (!device && qb_engine_no_bf16(backends)) return FP16_IS_OF_GPUS;
        if (!device) return FP16_IS_OF_GPUS "; this processor computes in bf16 (--precision bf16)";
        out->float_type = QB_DTYPE_F16;
        break;
    case QB_PRECISION_BF16:
        if (device) return "the kernels of a GPU compute in fp16, use that there";
        out->float_type = QB_DTYPE_BF16;
        return qb_engine_no_bf16(backends);
    case QB_PRECISION_INT8: /* what is not INT8 on a GPU is FP16 */
        if (device) out->float_type = QB_DTYPE_F16;
        out->no_mixed_precision = true;
        break;
    case QB_PRECISION_BEST: /* a GPU's build chooses between the two; for a processor qb_fastest */
        if (device) out->float_type = QB_DTYPE_F16;
        break;
    }
    return NULL;
}
