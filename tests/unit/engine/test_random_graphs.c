/* The engine of the processor on random graphs. */
#include "qb_test.h"
#include "random_graphs.h"

static void engines_agree(void **state) {
    (void)state;
    random_graphs_agree(NULL, 300);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(engines_agree)};
QB_TEST_MAIN(tests)
