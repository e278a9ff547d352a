/* Products whose data are quantized on the way (DynamicQuantizeLinear, MatMulInteger) on the GPU:
 * all steps there, by cuBLASLt and by the plain kernel, to the CPU's bits; FP16 beside it. Skips
 * without a device.
 * ctest-timeout: 120 */
#include <string.h>

#include "dynamic_model.h"
#include "kernels/cuda/common/device.h"
#include "kernels/sources.h"
#include "qb_test.h"

/* Steps of the tactic; none is on the host. */
static int n_steps_of(const qb_engine *engine, const char *tactic) {
    int n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (info.fallback_reason) fail_msg("%s '%s': %s", info.op, info.name, info.fallback_reason);
        n += strcmp(info.tactic, tactic) == 0;
    }
    return n;
}

static void products_give_the_bits_of_the_cpu(void **state) {
    (void)state;
    static dynamic_results here, there;
    static qb_ctx cx;
    qb_ctx_init(&cx);
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
    qb_engine *host = dynamic_model_build(&cx, DYNAMIC_PLAIN, NULL, QB_DTYPE_F32, 0);
    dynamic_model_run(&cx, host, &here);
    qb_engine_free(host);
    for (int own = 0; own < 2; own++) {
        const uint32_t without = own ? QB_SOURCE_CUBLAS_LT | QB_SOURCE_CUDNN : QB_SOURCE_CUDNN;
        qb_engine *device = dynamic_model_build(&cx, DYNAMIC_PLAIN, "cuda", QB_DTYPE_F32, without);
        const int libraries = n_steps_of(device, "cuda.matmul_integer.cublaslt");
        const int plain = n_steps_of(device, "cuda.matmul_integer");
        print_message("cuBLASLt %d, plain %d\n", libraries, plain);
        assert_int_equal(libraries, own ? 0 : 1); /* 30 columns are not for it */
        assert_int_equal(libraries + plain, 2);
        dynamic_model_run(&cx, device, &there);
        assert_memory_equal(&here, &there, sizeof here);
        qb_engine_free(device);
    }
}

/* Sums of integers and their scales are f32 there, too, whatever way they take: f16 cannot hold
 * them. */
static void halves_keep_sums_and_scales(void **state) {
    (void)state;
    static dynamic_results here, half;
    static qb_ctx cx;
    qb_ctx_init(&cx);
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
    for (int form = 0; form < DYNAMIC_FORMS; form++) {
        const dynamic_form f = (dynamic_form)form;
        qb_engine *host = dynamic_model_build(&cx, f, NULL, QB_DTYPE_F32, 0);
        qb_engine *device = dynamic_model_build(&cx, f, "cuda", QB_DTYPE_F16, QB_SOURCE_CUDNN);
        assert_true(n_steps_of(device, "cuda.dynamic_quantize") >= 3);
        dynamic_model_run(&cx, host, &here);
        dynamic_model_run(&cx, device, &half);
        const double error = dynamic_model_error(&half, &here);
        print_message("form %d, FP16 beside FP32: %.3g\n", form, error);
        assert_true(error < 1e-2);
        qb_engine_free(host);
        qb_engine_free(device);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_give_the_bits_of_the_cpu),
    cmocka_unit_test(halves_keep_sums_and_scales),
};

QB_TEST_MAIN(tests)
