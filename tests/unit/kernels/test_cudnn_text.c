/* What may be handed to cuDNN as the text of a plan, and what was compiled, kept by hash. */
#include <string.h>

#include "kernels/compiled.h"
#include "kernels/cuda/vendor/cudnn_text/cudnn_text.h"
#include "qb_test.h"

#define TENSOR_OF(DIM, STRIDE, MORE)                                                               \
    "{\"name\":\"1\",\"dataType\":\"CUDNN_DATA_HALF\",\"dim\":" DIM ",\"stride\":" STRIDE          \
    ",\"isVirtual\":false,\"vectDim\":-1" MORE "}"
#define TENSOR TENSOR_OF("[8,64]", "[64,1]", "")
#define NODE_OF(X, PADS)                                                                           \
    "{\"operation\":\"CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR\",\"X\":" X                  \
    ",\"alpha\":1.0,\"nbSpatialDims\":2," PADS "}"
#define NODE NODE_OF("\"1\"", "\"stride\":[2,2],\"prePad\":[[1,1],[1,1]]")
/* A header and one section, base64. */
#define CODE                                                                                       \
    "f0VMRgIBATMAAAAAAAAAAAIAvgABAAAAAAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAAAAAAEAAOAAAAEAAAQAA"         \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define KERNEL_OF(NAME, PLACES, CUBIN)                                                             \
    "{\"kernelName\":\"" NAME "\",\"kernelParams\":{\"offsets\":[" PLACES                          \
    "],\"rawData\":\"AAAAAAAAAAAAAAA=\"},\"cubin\":\"" CUBIN "\"}"
#define PLACE "{\"value\":3,\"uid\":1,\"update_as\":\"pointer\"}" /* of 11 bytes */
#define KERNEL KERNEL_OF("k", PLACE, CODE "AAA=")
#define PAYLOAD_OF(KERNELS) "{\"engineId\":5,\"payload\":{\"kernels\":[" KERNELS "]}}"
#define PROFILE                                                                                    \
    "{\"maxGridSize\":[1,2,3],\"pciDeviceId\":6,\"cudaDeviceId\":0,\"deviceName\":\"A\"}"
#define TEXT_OF(TENSORS, NODES, GPU, ENGINE)                                                       \
    "{\"cudnnVersion\":91900,\"operationGraph\":{\"finalizeMode\":\"A\",\"tensors\":" TENSORS      \
    ",\"nodes\":" NODES "},\"GPUProfile\":" GPU ",\"engine\":" ENGINE "}"
#define PLAN_OF(TENSORS, NODES, ENGINE) TEXT_OF(TENSORS, NODES, PROFILE, ENGINE)
#define PLAN PLAN_OF("[" TENSOR "]", "[" NODE "]", PAYLOAD_OF(KERNEL))

static bool is_plan(const char *text) { return qb_cudnn_text_is_plan(text, strlen(text)); }

static void plans_have_one_form(void **state) {
    (void)state;
    assert_true(is_plan(PLAN));
    assert_true(is_plan(PLAN_OF("[" TENSOR "]", "[" NODE "]", "{\"engineId\":51}")));
    assert_true(
        is_plan(PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL "," KERNEL_OF("l", PLACE, CODE "AAA=")))));
    for (size_t n = 0; n < strlen(PLAN); n++) assert_false(qb_cudnn_text_is_plan(PLAN, n));
    static const char *const no[] = {
        "",
        "[]",
        "{}",
        PLAN_OF("5", "[]", "{}"),
        PLAN_OF("{}", "[]", "{}"),
        PLAN_OF("[5]", "[]", "{}"),
        PLAN_OF("[{\"name\":\"1\"}]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[1,\"2\"]", "[1,1]", "") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("{}", "[1]", "") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[]", "[]", "") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[8,64]", "[64]", "") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[8,0]", "[64,1]", "") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[8,-1]", "[64,1]", "") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[8]", "[1]", ",\"more\":null") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[8]", "[1]", ",\"more\":[1]") "]", "[]", "{}"),
        PLAN_OF("[" TENSOR_OF("[8]", "[1]", ",\"more\":\"x\"") "]", "[]", "{}"),
        PLAN_OF("[]", "\"nodes\"", "{}"),
        PLAN_OF("[]", "[{\"X\":\"1\"}]", "{}"),
        PLAN_OF("[" TENSOR "]", "[" NODE_OF("\"2\"", "\"a\":[1,1]") "]", "{}"),
        PLAN_OF("[" TENSOR "]", "[" NODE_OF("\"CUDNN_DATA_HALF\"", "\"a\":[1,1]") "]", "{}"),
        PLAN_OF("[" TENSOR "]", "[" NODE_OF("\"1\"", "\"mode\":\"1\",\"a\":[1,1]") "]", "{}"),
        PLAN_OF("[" TENSOR "]", "[" NODE_OF("\"1\"", "\"a\":[1,1,1]") "]", "{}"),
        PLAN_OF("[" TENSOR "]", "[" NODE_OF("\"1\"", "\"a\":[1,1],\"b\":[1]") "]", "{}"),
        PLAN_OF("[" TENSOR "]", "[" NODE_OF("\"1\"", "\"a\":[[1,0],[1,1]]") "]", "{}"),
        PLAN_OF("[" TENSOR "]", "[" NODE_OF("\"1\"", "\"a\":[[1,[1]],[1,1]]") "]", "{}"),
        TEXT_OF("[]", "[]", "[]", "{}"),
        TEXT_OF("[]", "[]", "{\"maxGridSize\":[1,2,3,4]}", "{}"),
        TEXT_OF("[]", "[]", "{\"warpSize\":\"32\"}", "{}"),
        PLAN_OF("[]", "[]", "[]"),
        PLAN_OF("[]", "[]", "{\"engineId\":\"5\"}"),
        PLAN_OF("[]", "[]", "{\"knobChoices\":{\"a\":[]}}"),
        PLAN_OF("[]", "[]", "{\"payload\":5}"),
        PLAN_OF("[]", "[]", PAYLOAD_OF("")),
        PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL "," KERNEL)),
        PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL_OF("k", PLACE, ""))),
        PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL_OF("k", PLACE, CODE))),
        PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL_OF("k", PLACE, CODE "A!A="))),
        PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL_OF("k", PLACE, CODE "AAA=" CODE "AAA="))),
        PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL_OF("k", "{\"value\":12}", CODE "AAA="))),
        PLAN_OF("[]", "[]", PAYLOAD_OF(KERNEL_OF("k", "{\"value\":-1}", CODE "AAA="))),
        PLAN_OF("[]", "[]",
                PAYLOAD_OF(KERNEL_OF("k", "{\"value\":4,\"update_as\":\"pointer\"}", CODE "AAA="))),
        PLAN_OF("[]", "[]",
                PAYLOAD_OF(KERNEL_OF("k", "{\"value\":0,\"update_as\":\"map\"}", CODE "AAA="))),
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
    assert_non_null(strstr(there, "\"pciDeviceId\":345,\"cudaDeviceId\":12,"));
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
    assert_ok(&cx, qb_compiled_borrow(&cx, a, two, text, 4));
    text[0] = 'C';
    assert_memory_equal(qb_compiled_find(a, one, &bytes), "compiled", 8);
    assert_int_equal(bytes, 8);
    assert_ptr_equal(qb_compiled_find(a, two, &bytes), text);
    assert_null(qb_compiled_find(a, three, &bytes));
    assert_ok(&cx, qb_compiled_add(&cx, a, one, "other", 5)); /* the first stays */
    assert_ok(&cx, qb_compiled_take(&cx, b, a, two));
    assert_ok(&cx, qb_compiled_take(&cx, b, a, one));
    assert_ok(&cx, qb_compiled_create(&cx, &all));
    assert_ok(&cx, qb_compiled_borrow_all(&cx, all, a));
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
