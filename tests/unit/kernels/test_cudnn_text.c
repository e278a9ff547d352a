/* What may be handed to cuDNN as the text of a plan, and what was compiled, kept by hash. */
#include <string.h>

#include "kernels/compiled.h"
#include "kernels/cudnn_text.h"
#include "qb_test.h"

#define TENSOR                                                                                     \
    "{\"name\":\"1\",\"dataType\":\"CUDNN_DATA_HALF\",\"dim\":[8,64],\"isVirtual\":false}"
#define NODE                                                                                       \
    "{\"operation\":\"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR\",\"X\":\"1\","       \
    "\"alpha\":1.0,\"prePad\":[[1,1],[1,1]]}"
#define KERNEL "{\"kernelName\":\"k\",\"kernelParams\":{\"rawData\":\"AA==\"},\"cubin\":\"f0VM\"}"
#define PLAN_OF(TENSORS, NODES, ENGINE)                                                            \
    "{\"cudnnVersion\":91900,\"operationGraph\":{\"finalizeMode\":\"A\",\"tensors\":" TENSORS      \
    ",\"nodes\":" NODES                                                                            \
    "},\"GPUProfile\":{\"pciDeviceId\":6,\"cudaDeviceId\":0},\"engine\":" ENGINE "}"
#define PLAN PLAN_OF("[" TENSOR "]", "[" NODE "]", "{\"payload\":{\"kernels\":[" KERNEL "]}}")

static bool is_plan(const char *text) { return qb_cudnn_text_is_plan(text, strlen(text)); }

static void plans_have_one_form(void **state) {
    (void)state;
    assert_true(is_plan(PLAN));
    assert_true(is_plan(PLAN_OF("[" TENSOR "]", "[" NODE "]", "{\"engineId\":51}")));
    for (size_t n = 0; n < strlen(PLAN); n++) assert_false(qb_cudnn_text_is_plan(PLAN, n));
    static const char *const no[] = {
        "",
        "[]",
        "{}",
        PLAN_OF("5", "[]", "{}"),
        PLAN_OF("{}", "[]", "{}"),
        PLAN_OF("[5]", "[]", "{}"),
        PLAN_OF("[{\"name\":\"x\"}]", "[]", "{}"),
        PLAN_OF("[{\"name\":\"1234567890\"}]", "[]", "{}"),
        PLAN_OF("[{\"name\":1}]", "[]", "{}"),
        PLAN_OF("[{\"name\":\"1\",\"dim\":[1,\"2\"]}]", "[]", "{}"),
        PLAN_OF("[{\"name\":\"1\",\"dim\":{}}]", "[]", "{}"),
        PLAN_OF("[{\"name\":\"1\",\"dim\":null}]", "[]", "{}"),
        PLAN_OF("[]", "\"nodes\"", "{}"),
        PLAN_OF("[]", "[{\"X\":\"x\"}]", "{}"),
        PLAN_OF("[]", "[{\"pad\":[[[[[[1]]]]]]}]", "{}"),
        PLAN_OF("[]", "[]", "[]"),
        PLAN_OF("[]", "[]", "{\"payload\":5}"),
        PLAN_OF("[]", "[]", "{\"payload\":{\"kernels\":[{\"cubin\":\"\"}]}}"),
    };
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (is_plan(no[i])) fail_msg("taken for a plan: %s", no[i]);
}

static void a_plan_belongs_to_a_place(void **state) {
    (void)state;
    qb_ctx cx;
    char *there, *back;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_cudnn_text_on(&cx, PLAN, strlen(PLAN), 12, 345, &there));
    assert_non_null(strstr(there, "{\"pciDeviceId\":345,\"cudaDeviceId\":12}"));
    assert_true(is_plan(there));
    assert_ok(&cx, qb_cudnn_text_on(&cx, there, strlen(there), 0, 6, &back));
    assert_string_equal(back, PLAN);
    qb_free(back);
    qb_free(there);
}

static void entries_are_found_by_hash(void **state) {
    (void)state;
    qb_ctx cx;
    qb_compiled *a, *b, *all;
    size_t bytes = 0;
    char text[] = "compiled";
    const qb_hash one = qb_hash_bytes("1", 1), two = qb_hash_bytes("2", 1);
    const qb_hash three = qb_hash_bytes("3", 1);
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_compiled_create(&cx, &a));
    assert_ok(&cx, qb_compiled_create(&cx, &b));
    assert_ok(&cx, qb_compiled_add(&cx, a, one, text, 8));
    assert_ok(&cx, qb_compiled_lend(&cx, a, two, text, 4));
    text[0] = 'C';
    assert_memory_equal(qb_compiled_find(a, one, &bytes), "compiled", 8);
    assert_int_equal(bytes, 8);
    assert_ptr_equal(qb_compiled_find(a, two, &bytes), text);
    assert_null(qb_compiled_find(a, three, &bytes));
    assert_ok(&cx, qb_compiled_add(&cx, a, one, "other", 5)); /* the first stays */
    assert_ok(&cx, qb_compiled_take(&cx, b, a, two));
    assert_ok(&cx, qb_compiled_take(&cx, b, a, one));
    assert_ok(&cx, qb_compiled_create(&cx, &all));
    assert_ok(&cx, qb_compiled_lend_all(&cx, all, a));
    assert_int_equal(qb_compiled_count(all), 2);
    assert_ptr_equal(qb_compiled_find(all, one, &bytes), qb_compiled_find(a, one, &bytes));
    qb_compiled_free(all);
    assert_ok(&cx, qb_compiled_take(&cx, b, a, three));
    qb_compiled_free(a);
    assert_int_equal(qb_compiled_count(b), 2);
    qb_hash key;
    assert_ptr_equal(qb_compiled_entry(b, 0, &key, &bytes), text);
    assert_true(qb_hash_equal(key, two));
    assert_memory_equal(qb_compiled_entry(b, 1, &key, &bytes), "compiled", 8);
    qb_compiled_free(b);
    qb_compiled_free(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(plans_have_one_form),
    cmocka_unit_test(a_plan_belongs_to_a_place),
    cmocka_unit_test(entries_are_found_by_hash),
};
QB_TEST_MAIN(tests)
