/* The device's part of engine files, read without a device: what was compiled for its kernels. */
#include <string.h>

#include "engine/file_internal.h"
#include "engine/plans_internal.h"
#include "qb_test.h"

typedef struct fixture {
    qb_ctx cx;
    qb_arena *arena;
    qb_strbuf bytes;
    size_t at_count; /* of what was compiled */
} fixture;

static void put(fixture *f, const void *data, size_t n) { qb_strbuf_addn(&f->bytes, data, n); }

/* Two steps on a device, with what was compiled for each. */
static void set_up(fixture *f) {
    const qb_file_plan head = {
        .parts = 1, .batch = 1, .threads = 1, .n_tactics = 2, .n_steps = 2, .backends = "cuda,ref"};
    const qb_file_device device = {.float_type = QB_DTYPE_F16};
    const uint32_t no_name = 0, size = 3;
    const int32_t variant = 1, n = 2;
    *f = (fixture){0};
    qb_ctx_init(&f->cx);
    assert_ok(&f->cx, qb_arena_create(&f->cx, &f->arena));
    put(f, &head, sizeof head);
    for (int i = 0; i < 2; i++) put(f, &no_name, sizeof no_name);
    put(f, &device, sizeof device);
    for (int i = 0; i < 2; i++) put(f, &variant, sizeof variant);
    f->at_count = f->bytes.size;
    put(f, &n, sizeof n);
    for (int i = 0; i < 2; i++) {
        const qb_hash key = qb_hash_bytes(&i, sizeof i);
        put(f, &key, sizeof key);
        put(f, &size, sizeof size);
        put(f, i == 0 ? "abc" : "def", size);
    }
}

static qb_status get(fixture *f, size_t size, qb_file_plan_read *plan) {
    return qb_file_plan_get(&f->cx, f->arena, "x.qbe", f->bytes.data, size, plan);
}

static void tear_down(fixture *f) {
    qb_strbuf_release(&f->bytes);
    qb_arena_free(f->arena);
}

static void compiled_kernels_are_lent_from_the_file(void **state) {
    (void)state;
    fixture f;
    qb_file_plan_read plan;
    size_t bytes = 0;
    qb_hash key;
    set_up(&f);
    assert_ok(&f.cx, get(&f, f.bytes.size, &plan));
    assert_int_equal(qb_compiled_count(plan.compiled), 2);
    const char *second = qb_compiled_entry(plan.compiled, 1, &key, &bytes);
    assert_ptr_equal(second, f.bytes.data + f.bytes.size - 3);
    assert_int_equal(bytes, 3);
    assert_memory_equal(second, "def", 3);
    qb_compiled_free(plan.compiled);
    tear_down(&f);
}

static void refuse(fixture *f, size_t size, const char *why) {
    qb_file_plan_read plan;
    assert_fails(&f->cx, get(f, size, &plan), QB_STATUS_FORMAT);
    assert_message(&f->cx, why);
    qb_compiled_free(plan.compiled);
    qb_ctx_clear(&f->cx);
}

static void wrong_counts_and_sizes_are_refused(void **state) {
    (void)state;
    fixture f;
    const int32_t counts[] = {-1, 3, INT32_MAX};
    const uint32_t sizes[] = {UINT32_MAX, QB_FILE_COMPILED_MAX + 1, 4096};
    const qb_hash none = {{0}};
    set_up(&f);
    for (size_t n = f.at_count; n < f.bytes.size; n++) refuse(&f, n, "damaged engine file");
    for (size_t i = 0; i < 3; i++) {
        memcpy(f.bytes.data + f.at_count, &counts[i], sizeof counts[i]);
        refuse(&f, f.bytes.size, "the number of compiled kernels");
    }
    tear_down(&f);
    set_up(&f);
    for (size_t i = 0; i < 3; i++) {
        memcpy(f.bytes.data + f.at_count + 4 + sizeof none, &sizes[i], sizeof sizes[i]);
        refuse(&f, f.bytes.size, "a compiled kernel");
    }
    tear_down(&f);
    set_up(&f);
    memcpy(f.bytes.data + f.at_count + 4, &none, sizeof none);
    refuse(&f, f.bytes.size, "a compiled kernel");
    tear_down(&f);
}

static void put_text(fixture *f, const char *text) {
    const uint32_t n = (uint32_t)strlen(text);
    put(f, &n, sizeof n);
    put(f, text, n);
}

enum { HINTS = 2, COMPILED = 1 + 3 }; /* the engine's own, and at three shapes of the profile */

/* One step, one profile without inputs. */
static void set_up_profile(fixture *f, int32_t n_compiled) {
    const qb_file_plan head = {.parts = 1,
                               .batch = 1,
                               .threads = 1,
                               .n_tactics = 1,
                               .n_steps = 1,
                               .n_profiles = 1,
                               .backends = "cuda,ref"};
    const qb_file_device device = {.float_type = QB_DTYPE_F16, .mixed = 1};
    const int32_t variant = 1, n_hints = HINTS, n_half = 1;
    const uint32_t size = 1;
    *f = (fixture){0};
    qb_ctx_init(&f->cx);
    assert_ok(&f->cx, qb_arena_create(&f->cx, &f->arena));
    put(f, &head, sizeof head);
    put_text(f, "");
    put(f, &n_hints, sizeof n_hints);
    for (int i = 0; i < HINTS; i++) {
        put_text(f, i == 0 ? "x" : "y");
        put_text(f, "ref.conv");
    }
    put(f, &device, sizeof device);
    put(f, &variant, sizeof variant);
    f->at_count = f->bytes.size;
    put(f, &n_compiled, sizeof n_compiled);
    for (int32_t i = 0; i < n_compiled; i++) {
        const qb_hash key = qb_hash_bytes(&i, sizeof i);
        put(f, &key, sizeof key);
        put(f, &size, sizeof size);
        put(f, "k", size);
    }
    for (int32_t i = 0; i < HINTS; i++) put(f, &i, sizeof i);
    put(f, &n_half, sizeof n_half);
    put_text(f, "y");
}

static void profiles_keep_what_was_chosen_for_each(void **state) {
    (void)state;
    fixture f;
    qb_file_plan_read plan;
    set_up_profile(&f, COMPILED);
    assert_ok(&f.cx, get(&f, f.bytes.size, &plan));
    const qb_hints *hints = &plan.hints[0];
    assert_int_equal(qb_compiled_count(plan.compiled), COMPILED);
    assert_int_equal(hints->n, HINTS);
    assert_string_equal(hints->hint[1].value, "y");
    assert_string_equal(hints->hint[1].tactic->name, "ref.conv");
    assert_int_equal(hints->hint[1].variant, 1);
    assert_int_equal(hints->n_half, 1);
    assert_string_equal(hints->half[0], "y");
    qb_compiled_free(plan.compiled);
    for (size_t n = f.at_count; n < f.bytes.size; n++) refuse(&f, n, "damaged engine file");
    tear_down(&f);
    set_up_profile(&f, COMPILED + 1);
    refuse(&f, f.bytes.size, "the number of compiled kernels");
    tear_down(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(compiled_kernels_are_lent_from_the_file),
    cmocka_unit_test(wrong_counts_and_sizes_are_refused),
    cmocka_unit_test(profiles_keep_what_was_chosen_for_each),
};
QB_TEST_MAIN(tests)
