/* The GPU's engine on random graphs, see tests/unit/engine/random_graphs.h.
 * ctest-timeout: 300 */
#include "kernels/cuda/common/device.h"
#include "qb_test.h"
#include "random_graphs.h"

static void engines_agree(void **state) {
    (void)state;
    qb_ctx cx;
    qb_cuda_device device;
    qb_ctx_init(&cx);
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) qb_test_skip("%s", cx.message);
    random_graphs_agree("cuda", 300);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(engines_agree)};
QB_TEST_MAIN(tests)
