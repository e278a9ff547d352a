/* qb_transpose against its definition, with elements of each size, and what lies around the result.
 */
#include <string.h>

#include "base/rng.h"
#include "kernels/cpu/transpose.h"
#include "qb_test.h"

enum { MOST = 150, GAP = 3 };

static void every_size_and_shape(void **state) {
    (void)state;
    static unsigned char from[MOST * (MOST + GAP) * 8], to[sizeof from], expected[sizeof from];
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        const size_t size = (size_t)1 << round % 4;
        const uint64_t most = round % 3 == 0 ? MOST : 20;
        const int64_t rows = 1 + (int64_t)qb_rng_below(&rng, most);
        const int64_t columns = round % 5 == 0 ? 3 : 1 + (int64_t)qb_rng_below(&rng, most);
        const int64_t from_step = rows + (int64_t)qb_rng_below(&rng, GAP + 1);
        const int64_t to_step = columns + (int64_t)qb_rng_below(&rng, GAP + 1);
        for (size_t i = 0; i < sizeof from; i += 8) {
            const uint64_t bits = qb_rng_u64(&rng);
            memcpy(from + i, &bits, sizeof bits);
        }
        memset(to, 0x5a, sizeof to);
        memset(expected, 0x5a, sizeof expected);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < columns; k++)
                memcpy(expected + (size_t)(i * to_step + k) * size,
                       from + (size_t)(k * from_step + i) * size, size);
        qb_transpose(size, from, from_step, to, to_step, rows, columns);
        assert_memory_equal(to, expected, sizeof to);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_size_and_shape)};
QB_TEST_MAIN(tests)
