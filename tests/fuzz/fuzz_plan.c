/* The reader of plans: what it takes it writes again, and reads again the same. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/plan_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Inputs have names of their own here: the plan keeps none. */
static bool write_plan(qb_ctx *cx, const qb_plan *plan, qb_strbuf *text) {
    const char **names = calloc((size_t)plan->n_inputs + 1, sizeof *names);
    for (int32_t i = 0; names && i < plan->n_inputs; i++) names[i] = "x";
    const bool written = names && qb_plan_write(cx, plan, names, text) == QB_OK;
    free(names);
    return written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_plan *plan = NULL, *again = NULL;
    qb_strbuf first = {0}, second = {0};
    qb_ctx_init(&cx);
    if (qb_plan_read(&cx, "fuzz", (const char *)data, size, &plan) == QB_OK) {
        if (!write_plan(&cx, plan, &first) ||
            qb_plan_read(&cx, "again", first.data, first.size, &again) != QB_OK ||
            !write_plan(&cx, again, &second) || strcmp(first.data, second.data) != 0)
            abort();
    } else if (plan || cx.code == QB_OK || cx.message[0] == '\0') {
        abort();
    }
    qb_plan_free(plan);
    qb_plan_free(again);
    qb_strbuf_release(&first);
    qb_strbuf_release(&second);
    return 0;
}
