#include "cli/out/steps.h"

#include <stdio.h>
#include <string.h>

#include "cli/out/json.h"
#include "engine/providers.h"
#include "engine/step_json.h"

json_t *qb_steps_json(const qb_engine *engine) {
    json_t *steps = json_array();
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info s;
        qb_engine_step(engine, i, &s);
        json_t *step =
            json_pack("{s:o, s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "name", qb_json_text(s.name),
                      "op", s.op, "provider", qb_provider_of(&s), "tactic", s.tactic, "impl",
                      s.impl, "dtype", qb_dtype_text(s.dtype), "flops", s.flops, "bytes", s.bytes);
        qb_step_choice_json(&s, step);
        json_array_append_new(steps, step);
    }
    return steps;
}

static const char *text(const json_t *step, const char *key, const char *otherwise) {
    const char *value = json_string_value(json_object_get(step, key));
    return value ? value : otherwise;
}

static double number(const json_t *step, const char *key) {
    return json_number_value(json_object_get(step, key));
}

static void print_reason(const json_t *step, const char *key, const char *label) {
    const char *reason = json_string_value(json_object_get(step, key));
    if (reason) printf("     %s: %s\n", label, reason);
}

static void print_choice(const json_t *step) {
    const json_t *other;
    size_t i;
    const bool there = strcmp(text(step, "provider", "cpu"), "cuda") == 0;
    print_reason(step, "fallback", there ? "in f32" : "not on cuda");
    print_reason(step, "half", "in f16");
    print_reason(step, "in_place", "in place");
    print_reason(step, "joined", "one step");
    print_reason(step, "note", "plain kernel");
    if (number(step, "us") <= 0) return;
    printf("     %.1f us, %.2f TOPS, %.0f GB/s", number(step, "us"), number(step, "tops"),
           number(step, "gb_per_s"));
    json_array_foreach(json_object_get(step, "alternatives"), i, other) {
        const char *tactic = text(other, "tactic", "");
        if (strcmp(tactic, text(step, "tactic", "")) != 0)
            printf("; %s %.1f", tactic, number(other, "us"));
    }
    printf("\n");
}

/* The last n characters: names of one block of a model begin alike. */
static const char *end_of(const char *name, size_t n) {
    const size_t all = strlen(name);
    const char *at = name + (all > n ? all - n : 0);
    while (((unsigned char)*at & 0xc0) == 0x80) at++; /* a whole character */
    return at;
}

void qb_steps_print(const json_t *steps) {
    size_t i;
    const json_t *s;
    printf("\n%-4s %-32s %-13s %-4s %8s %8s %s\n     kernel\n", "step", "name", "op", "type",
           "MMACs", "KiB", "on");
    json_array_foreach(steps, i, s) {
        printf("%-4zu %-32s %-13.13s %-4s %8.3f %8.1f %s\n", i, end_of(text(s, "name", ""), 32),
               text(s, "op", ""), text(s, "dtype", ""), number(s, "flops") / 2e6,
               number(s, "bytes") / 1024, text(s, "provider", "cpu"));
        const char *impl = text(s, "impl", "");
        printf("     %s%s%s\n", text(s, "tactic", ""), impl[0] ? " " : "", impl);
        print_choice(s);
    }
}

void qb_steps_summary(const qb_engine *engine, char *out, size_t n) {
    const qb_layer_counts counts = qb_engine_layers(engine);
    const struct {
        int32_t n;
        const char *type;
    } rows[] = {
        {counts.int8, "INT8"}, {counts.fp16, "FP16"}, {counts.bf16, "BF16"}, {counts.fp32, "FP32"}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].n > 0 && at < n)
            at += (size_t)snprintf(out + at, n - at, "%s%d%s in %s", at > 0 ? ", " : "",
                                   (int)rows[i].n, at > 0 ? "" : " steps", rows[i].type);
    if (at == 0) snprintf(out, n, "nothing that computes");
}
