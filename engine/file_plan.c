/* The PLAN section of engine files. */
#include <string.h>

#include "engine/file_internal.h"
#include "engine/plans_internal.h"
#include "kernels/sources.h"

#define TACTICS_MAX 1000000
#define THREADS_MAX 4096
#define NAME_MAX_BYTES (1 << 16)
#define MEMORY_MAX (SIZE_MAX / 8)

/* ---- writing ---- */

static void put_text(qb_strbuf *out, const char *text) {
    const uint32_t n = (uint32_t)strlen(text);
    qb_strbuf_addn(out, (const char *)&n, sizeof n);
    qb_strbuf_add(out, text);
}

static void put_shapes(qb_strbuf *out, const qb_shape *shapes, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        qb_strbuf_addn(out, (const char *)&shapes[i].rank, sizeof shapes[i].rank);
        if (shapes[i].rank > 0)
            qb_strbuf_addn(out, (const char *)shapes[i].dim,
                           (size_t)shapes[i].rank * sizeof *shapes[i].dim);
    }
}

static void put_profiles(qb_strbuf *out, const qb_plans *plans) {
    for (int32_t p = 0; p < plans->n_profiles; p++) {
        put_shapes(out, plans->profiles[p].min, plans->n_inputs);
        put_shapes(out, plans->profiles[p].opt, plans->n_inputs);
        put_shapes(out, plans->profiles[p].max, plans->n_inputs);
    }
    for (int32_t p = 0; p < plans->n_profiles; p++) {
        const qb_hints *hints = &plans->hints[p];
        qb_strbuf_addn(out, (const char *)&hints->n, sizeof hints->n);
        for (int32_t i = 0; i < hints->n; i++) {
            put_text(out, hints->hint[i].value);
            put_text(out, hints->hint[i].tactic->name);
        }
    }
}

static void put_compiled(qb_strbuf *out, const qb_compiled *compiled) {
    const int32_t n = qb_compiled_count(compiled);
    qb_strbuf_addn(out, (const char *)&n, sizeof n);
    for (int32_t i = 0; i < n; i++) {
        qb_hash key;
        size_t bytes;
        const void *data = qb_compiled_entry(compiled, i, &key, &bytes);
        const uint32_t size = (uint32_t)bytes; /* see QB_FILE_COMPILED_MAX */
        qb_strbuf_addn(out, (const char *)&key, sizeof key);
        qb_strbuf_addn(out, (const char *)&size, sizeof size);
        qb_strbuf_addn(out, data, bytes);
    }
}

/* What the hints of the profiles have beside values and tactics. */
static void put_device_hints(qb_strbuf *out, const qb_plans *plans) {
    for (int32_t p = 0; p < plans->n_profiles; p++) {
        const qb_hints *hints = &plans->hints[p];
        for (int32_t i = 0; i < hints->n; i++)
            qb_strbuf_addn(out, (const char *)&hints->hint[i].variant,
                           sizeof hints->hint[i].variant);
        qb_strbuf_addn(out, (const char *)&hints->n_half, sizeof hints->n_half);
        for (int32_t i = 0; i < hints->n_half; i++) put_text(out, hints->half[i]);
    }
}

static void put_device(qb_strbuf *out, const qb_engine *e) {
    const qb_plans_need need = qb_engine_need(e);
    const qb_file_device device = {.float_type = (uint32_t)e->device_float,
                                   .mixed = e->mixed,
                                   .n_half = e->plans ? 0 : e->n_half, /* hints name them */
                                   .tf32 = e->tf32,
                                   .without = e->without,
                                   .arena = need.device_arena,
                                   .workspace = need.device_workspace};
    qb_strbuf_addn(out, (const char *)&device, sizeof device);
    for (int32_t i = 0; i < e->n_recorded; i++)
        qb_strbuf_addn(out, (const char *)&e->recorded[i].variant, sizeof e->recorded[i].variant);
    if (device.n_half > 0)
        qb_strbuf_addn(out, (const char *)e->half, (size_t)device.n_half * sizeof *e->half);
    put_compiled(out, e->compiled);
    if (e->plans) put_device_hints(out, e->plans);
}

qb_status qb_file_plan_put(qb_ctx *cx, const qb_engine *e, size_t hole_bytes, uint32_t flags,
                           qb_strbuf *out) {
    const qb_plans_need need = qb_engine_need(e);
    const bool batched = e->n_inputs > 0 && e->inputs[0].desc.shape.rank > 0;
    qb_file_plan plan = {.parts = e->parts,
                         .batch = batched ? e->inputs[0].desc.shape.dim[0] : 1,
                         .hole_bytes = hole_bytes,
                         .arena = need.arena + need.device_arena,
                         .workspace = need.workspace + need.device_workspace,
                         .workspace_limit = e->workspace_limit,
                         .threads = e->threads,
                         .n_tactics = e->n_recorded,
                         .n_steps = e->n_steps,
                         .n_profiles = qb_engine_n_profiles(e),
                         .n_inputs = e->n_inputs,
                         .flags = flags | (e->bf16 ? QB_FILE_BF16 : 0)};
    if (strlen(e->backends) >= sizeof plan.backends)
        return qb_fail(cx, QB_STATUS_INTERNAL, "engine file: '%s' is too long", e->backends);
    memcpy(plan.backends, e->backends, strlen(e->backends));
    qb_strbuf_addn(out, (const char *)&plan, sizeof plan);
    for (int32_t i = 0; i < e->n_recorded; i++)
        put_text(out, e->recorded[i].tactic ? e->recorded[i].tactic->name : "");
    if (e->plans) put_profiles(out, e->plans);
    if (e->device) put_device(out, e);
    return out->failed ? qb_fail(cx, QB_STATUS_NOMEM, "out of memory") : QB_OK;
}

/* ---- reading ---- */

typedef struct reader {
    qb_ctx *cx;
    qb_arena *arena;
    const char *path;
    const char *at, *end;
    qb_file_plan_read *plan;
} reader;

static qb_status bad(const reader *r, const char *what) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: damaged engine file: %s", r->path, what);
}

static qb_status get(reader *r, void *to, size_t n) {
    if ((size_t)(r->end - r->at) < n) return bad(r, "the plan is cut short");
    if (n) memcpy(to, r->at, n);
    r->at += n;
    return QB_OK;
}

static qb_status get_text(reader *r, const char **out) {
    uint32_t n;
    QB_TRY(get(r, &n, sizeof n));
    if (n > NAME_MAX_BYTES || n > (size_t)(r->end - r->at) || memchr(r->at, '\0', n))
        return bad(r, "a name in the plan");
    *out = qb_arena_strndup(r->cx, r->arena, r->at, n);
    r->at += n;
    return *out ? QB_OK : r->cx->code;
}

/* Room for n entries of which each takes at least `least` bytes of the file. */
static qb_status room(reader *r, int32_t n, size_t least, size_t size, void *slot) {
    if (n < 0 || (size_t)n > (size_t)(r->end - r->at) / least)
        return bad(r, "a count in the plan is larger than the file");
    void *memory = qb_arena_alloc(r->cx, r->arena, (size_t)n, size);
    if (!memory) return r->cx->code;
    memcpy(slot, &memory, sizeof memory);
    return QB_OK;
}

static bool is_sane(const qb_file_plan *p) {
    return p->parts >= 1 && p->batch >= 0 && p->threads >= 1 && p->threads <= THREADS_MAX &&
           p->n_tactics >= 0 && p->n_tactics <= TACTICS_MAX && p->n_profiles >= 0 &&
           p->n_profiles <= QB_PROFILES_MAX && p->n_inputs >= 0 &&
           (p->parts == 1 || p->batch % p->parts == 0) && p->arena <= MEMORY_MAX &&
           p->workspace <= MEMORY_MAX && (p->flags & ~(QB_FILE_COMPATIBLE | QB_FILE_BF16)) == 0 &&
           memchr(p->backends, '\0', sizeof p->backends);
}

static qb_status get_tactics(reader *r) {
    const int32_t n = r->plan->head.n_tactics;
    QB_TRY(room(r, n, sizeof(uint32_t), sizeof *r->plan->names, &r->plan->names));
    QB_TRY(room(r, n, sizeof(uint32_t), sizeof *r->plan->tactics, &r->plan->tactics));
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(get_text(r, &r->plan->names[i]));
        r->plan->tactics[i] = qb_tactic_find(r->plan->names[i]);
    }
    return QB_OK;
}

static qb_status get_shapes(reader *r, const qb_shape **out) {
    const int32_t n = r->plan->head.n_inputs;
    qb_shape *shapes;
    QB_TRY(room(r, n, sizeof shapes->rank, sizeof *shapes, &shapes));
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(get(r, &shapes[i].rank, sizeof shapes[i].rank));
        if (shapes[i].rank < 0 || shapes[i].rank > QB_MAX_RANK)
            return bad(r, "a shape of a profile");
        QB_TRY(get(r, shapes[i].dim, (size_t)shapes[i].rank * sizeof *shapes[i].dim));
    }
    *out = shapes;
    return QB_OK;
}

static qb_status get_hints(reader *r, qb_hints *hints) {
    int32_t n;
    QB_TRY(get(r, &n, sizeof n));
    QB_TRY(room(r, n, 2 * sizeof(uint32_t), sizeof *hints->hint, &hints->hint));
    for (; hints->n < n; hints->n++) {
        const char *name;
        QB_TRY(get_text(r, &hints->hint[hints->n].value));
        QB_TRY(get_text(r, &name));
        hints->hint[hints->n].tactic = qb_tactic_find(name);
    }
    return QB_OK;
}

static qb_status get_profiles(reader *r) {
    const int32_t n = r->plan->head.n_profiles;
    r->plan->profiles = qb_arena_alloc(r->cx, r->arena, (size_t)n, sizeof *r->plan->profiles);
    r->plan->hints = qb_arena_alloc(r->cx, r->arena, (size_t)n, sizeof *r->plan->hints);
    if (!r->plan->profiles || !r->plan->hints) return r->cx->code;
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(get_shapes(r, &r->plan->profiles[i].min));
        QB_TRY(get_shapes(r, &r->plan->profiles[i].opt));
        QB_TRY(get_shapes(r, &r->plan->profiles[i].max));
    }
    for (int32_t i = 0; i < n; i++) QB_TRY(get_hints(r, &r->plan->hints[i]));
    return QB_OK;
}

static qb_status get_numbers(reader *r, int32_t n, const int32_t **out) {
    int32_t *numbers;
    QB_TRY(room(r, n, sizeof *numbers, sizeof *numbers, &numbers));
    *out = numbers;
    return get(r, numbers, (size_t)n * sizeof *numbers);
}

/* Tactics of the host have no choice. */
static qb_status no_variants(reader *r) {
    const size_t n = (size_t)r->plan->head.n_tactics;
    r->plan->variants = qb_arena_alloc(r->cx, r->arena, n, sizeof *r->plan->variants);
    return r->plan->variants ? QB_OK : r->cx->code;
}

/* For each tactic, at its engine's shapes and at three of each profile. */
static int64_t compiled_max(const qb_file_plan *head) {
    return (int64_t)head->n_tactics * (1 + 3 * head->n_profiles);
}

static qb_status get_compiled(reader *r) {
    int32_t n;
    QB_TRY(get(r, &n, sizeof n));
    if (n < 0 || n > compiled_max(&r->plan->head)) return bad(r, "the number of compiled kernels");
    QB_TRY(qb_compiled_create(r->cx, &r->plan->compiled));
    for (int32_t i = 0; i < n; i++) {
        qb_hash key;
        uint32_t size;
        QB_TRY(get(r, &key, sizeof key));
        QB_TRY(get(r, &size, sizeof size));
        if (size > QB_FILE_COMPILED_MAX || size > (size_t)(r->end - r->at) || qb_hash_is_zero(key))
            return bad(r, "a compiled kernel");
        QB_TRY(qb_compiled_lend(r->cx, r->plan->compiled, key, r->at, size));
        r->at += size;
    }
    return QB_OK;
}

static qb_status get_device_hints(reader *r, qb_hints *hints) {
    int32_t n;
    for (int32_t i = 0; i < hints->n; i++)
        QB_TRY(get(r, &hints->hint[i].variant, sizeof hints->hint[i].variant));
    QB_TRY(get(r, &n, sizeof n));
    QB_TRY(room(r, n, sizeof(uint32_t), sizeof *hints->half, &hints->half));
    for (; hints->n_half < n; hints->n_half++) QB_TRY(get_text(r, &hints->half[hints->n_half]));
    return QB_OK;
}

static qb_status get_device(reader *r) {
    qb_file_device *d = &r->plan->device;
    QB_TRY(get(r, d, sizeof *d));
    if ((d->float_type != QB_DTYPE_F32 && d->float_type != QB_DTYPE_F16) ||
        (d->tf32 != 0 && d->tf32 != 1) || (d->without & ~(uint32_t)QB_SOURCES_ALL) || d->none ||
        (d->mixed != 0 && d->mixed != 1) || d->arena > r->plan->head.arena ||
        d->workspace > r->plan->head.workspace)
        return bad(r, "the device's part of the plan");
    QB_TRY(get_numbers(r, r->plan->head.n_tactics, &r->plan->variants));
    QB_TRY(get_numbers(r, d->n_half, &r->plan->half));
    QB_TRY(get_compiled(r));
    for (int32_t i = 0; i < r->plan->head.n_profiles; i++)
        QB_TRY(get_device_hints(r, &r->plan->hints[i]));
    return QB_OK;
}

qb_status qb_file_plan_get(qb_ctx *cx, qb_arena *arena, const char *path, const void *bytes,
                           size_t size, qb_file_plan_read *out) {
    reader r = {.cx = cx,
                .arena = arena,
                .path = path,
                .at = bytes,
                .end = (const char *)bytes + size,
                .plan = out};
    *out = (qb_file_plan_read){0};
    QB_TRY(get(&r, &out->head, sizeof out->head));
    if (!is_sane(&out->head)) return bad(&r, "the plan's numbers");
    QB_TRY(get_tactics(&r));
    QB_TRY(get_profiles(&r));
    if (r.at < r.end)
        QB_TRY(get_device(&r));
    else
        QB_TRY(no_variants(&r));
    return r.at == r.end ? QB_OK : bad(&r, "bytes behind the plan");
}
