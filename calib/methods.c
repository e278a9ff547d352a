#include "calib/calib.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

#define QB_CALIB_METHOD(name) extern const qb_calib_method qb_calib_method_##name;
#include "calib/methods.def"

static const qb_calib_method *const known[] = {
#define QB_CALIB_METHOD(name) &qb_calib_method_##name,
#include "calib/methods.def"
};
enum { N_METHODS = sizeof known / sizeof known[0] };

/* "percentile[:P][:two-sided|one-sided]" */
static void add_form(qb_strbuf *out, const qb_calib_method *method) {
    qb_strbuf_add(out, method->name);
    if (method->argument) qb_strbuf_addf(out, "[:%s]", method->argument);
    for (int i = 0; method->variants && method->variants[i]; i++)
        qb_strbuf_addf(out, "%s%s", i ? "|" : "[:", method->variants[i]);
    if (method->variants) qb_strbuf_add(out, "]");
}

static qb_status unknown_method(qb_ctx *cx, const char *text) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf names = {0};
    for (int i = 0; i < N_METHODS; i++) {
        if (i) qb_strbuf_add(&names, ", ");
        add_form(&names, known[i]);
    }
    return qb_fail(cx, QB_STATUS_USAGE, "unknown calibration method '%s': expected %s", text,
                   names.data ? names.data : "a known one");
}

/* A word after the colon that is neither a variant nor a number. */
static qb_status bad_word(qb_ctx *cx, const qb_calib_method *method, const char *word) {
    if (!method->argument && !method->variants)
        return qb_fail(cx, QB_STATUS_USAGE, "calibration method %s takes no argument, got '%s'",
                       method->name, word);
    QB_RELEASED(qb_strbuf_release) qb_strbuf expected = {0};
    if (method->argument)
        qb_strbuf_addf(&expected, "a number from %g to %g%s", method->argument_min,
                       method->argument_max, method->variants ? " or " : "");
    for (int i = 0; method->variants && method->variants[i]; i++)
        qb_strbuf_addf(&expected, "%s%s", i ? ", " : "", method->variants[i]);
    return qb_fail(cx, QB_STATUS_USAGE,
                   "calibration method %s: expected %s after the colon, got '%s'", method->name,
                   expected.data ? expected.data : "nothing", word);
}

static int32_t find_variant(const qb_calib_method *method, const char *word) {
    for (int32_t i = 0; method->variants && method->variants[i]; i++)
        if (strcmp(method->variants[i], word) == 0) return i;
    return -1;
}

static bool parse_number(const qb_calib_method *method, const char *word, double *out) {
    if (!method->argument) return false;
    char *end;
    const double value = strtod(word, &end);
    if (end == word || *end != '\0' || !(value >= method->argument_min) ||
        !(value <= method->argument_max))
        return false;
    *out = value;
    return true;
}

/* What follows the name: ":99.9", ":one-sided" or both in this order. */
static qb_status parse_words(qb_ctx *cx, const char *text, qb_method_choice *choice) {
    bool number_allowed = true, variant_allowed = true;
    while (*text == ':') {
        char word[QB_METHOD_TEXT];
        const size_t length = strcspn(++text, ":");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        text += length;
        const int32_t variant = find_variant(choice->method, word);
        if (variant >= 0 && variant_allowed) {
            choice->variant = variant;
            variant_allowed = number_allowed = false;
        } else if (number_allowed && parse_number(choice->method, word, &choice->argument)) {
            number_allowed = false;
        } else {
            return bad_word(cx, choice->method, word);
        }
    }
    return QB_OK;
}

qb_status qb_method_parse(qb_ctx *cx, const char *text, qb_method_choice *out) {
    size_t length = strcspn(text, ":");
    for (int i = 0; i < N_METHODS; i++) {
        if (strlen(known[i]->name) != length || strncmp(known[i]->name, text, length) != 0)
            continue;
        qb_method_choice choice = {known[i], known[i]->argument_default, 0};
        QB_TRY(parse_words(cx, text + length, &choice));
        *out = choice;
        return QB_OK;
    }
    return unknown_method(cx, text);
}

char *qb_method_text(const qb_method_choice *choice, char *text, size_t n) {
    const qb_calib_method *method = choice->method;
    char number[32] = "";
    if (method->argument) snprintf(number, sizeof number, ":%.12g", choice->argument);
    snprintf(text, n, "%s%s%s%s", method->name, number, choice->variant > 0 ? ":" : "",
             choice->variant > 0 ? method->variants[choice->variant] : "");
    return text;
}

qb_status qb_method_check_samples(qb_ctx *cx, const qb_method_choice *choice, int64_t recorded,
                                  int64_t samples) {
    char text[QB_METHOD_TEXT];
    if (!choice->method->needs_samples || (recorded > 0 && recorded <= QB_TABLE_SAMPLES))
        return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                   "%s needs the extremes of each sample, which are recorded for up to %d samples; "
                   "this calibration has %lld",
                   qb_method_text(choice, text, sizeof text), QB_TABLE_SAMPLES, (long long)samples);
}

qb_range qb_range_within(const qb_stats *stats, double lo, double hi) {
    lo = fmin(fmax(lo, stats->min), stats->max);
    hi = fmax(fmin(hi, stats->max), lo);
    return (qb_range){(float)lo, (float)hi};
}

qb_range qb_range_of_bins(const qb_stats *stats, double lo, double hi) {
    const double width = qb_stats_edge(stats, QB_STATS_BINS / 2 + 1);
    return qb_range_within(stats, lo * width, hi * width);
}
