/* Heads before and behind a copy that moves them: each element is where the strides say. */
#include "kernels/heads.h"

#include <stdlib.h>

#include "qb_test.h"
#include "strided_elements.h"

#define CASES 4000

static int64_t at(const qb_heads *h, int64_t n, int64_t head, int64_t token) {
    return h->offset + n / h->inner * h->stride[0] + n % h->inner * h->stride[1] +
           head * h->stride[2] + token * h->stride[3];
}

/* [N, heads, T, size], or [N, T, heads size]. */
static qb_heads plain(const int64_t dim[4], bool joined) {
    const int64_t whole = dim[1] * dim[2] * dim[3];
    return (qb_heads){
        .inner = 1,
        .stride = {whole, 0, joined ? dim[3] : dim[2] * dim[3], joined ? dim[1] * dim[3] : dim[3]}};
}

/* Copies of all of `n` elements, or of parts of more: loops in any order, of any sizes. */
static void make(qb_rng *rng, const int64_t dim[4], bool joined, bool all, qb_strided *s) {
    int64_t loops[5] = {dim[0], dim[joined ? 2 : 1], dim[joined ? 1 : 2], dim[3]}, step = 1;
    int32_t n = 4, order[5] = {0, 1, 2, 3, 4};
    if (dim[0] % 2 == 0 && between(rng, 0, 1)) { /* items of two loops */
        for (int32_t d = n++; d > 0; d--) loops[d] = loops[d - 1];
        loops[0] = dim[0] / 2;
        loops[1] = 2;
    }
    const int32_t fixed = between(rng, 0, 3) ? 1 : 0; /* mostly, elements stay together */
    for (int32_t d = n - 1 - fixed; d > 0; d--) {
        const int32_t other = (int32_t)between(rng, 0, d), swapped = order[d];
        order[d] = order[other];
        order[other] = swapped;
    }
    *s = (qb_strided){.rank = n};
    for (int32_t d = n - 1; d >= 0; d--) {
        s->dim[order[d]] = loops[order[d]];
        s->stride[order[d]] = step;
        step *= loops[order[d]] + (all ? 0 : between(rng, 0, 2));
    }
    s->offset = all ? 0 : between(rng, 0, 5);
}

static void heads_are_where_the_copy_finds_them(void **state) {
    (void)state;
    qb_rng rng;
    int done = 0;
    qb_rng_seed(&rng, 20261128);
    for (int i = 0; i < CASES; i++) {
        const int64_t dim[4] = {between(&rng, 1, 6), between(&rng, 1, 4), between(&rng, 1, 5),
                                between(&rng, 1, 4)};
        const bool joined = between(&rng, 0, 1);
        const qb_heads there = plain(dim, joined);
        qb_strided moved;
        qb_heads here;
        make(&rng, dim, joined, between(&rng, 0, 1), &moved);
        if (!qb_heads_before(&moved, &there, dim, &here)) continue;
        done++;
        for (int64_t n = 0; n < dim[0]; n++)
            for (int64_t h = 0; h < dim[1]; h++)
                for (int64_t t = 0; t < dim[2]; t++)
                    for (int64_t e = 0; e < dim[3]; e++)
                        assert_true(element(&moved, at(&there, n, h, t) + e) ==
                                    at(&here, n, h, t) + e);
    }
    print_message("%d of %d\n", done, CASES);
    assert_true(done > CASES * 3 / 4);
}

static void heads_are_where_the_copy_brings_them(void **state) {
    (void)state;
    qb_rng rng;
    int done = 0;
    qb_rng_seed(&rng, 20261129);
    for (int i = 0; i < CASES; i++) {
        const int64_t of[4] = {between(&rng, 1, 6), between(&rng, 1, 4), between(&rng, 1, 5),
                               between(&rng, 1, 4)};
        const bool joined = between(&rng, 0, 1), all = between(&rng, 0, 7);
        const qb_heads here = plain(of, joined);
        qb_strided moved;
        qb_heads there;
        /* a copy in the order of whatever it makes, of heads as they are here */
        make(&rng, of, joined, true, &moved);
        qb_strided back = {.rank = 0};
        for (int64_t step = count_of(&moved); step > 1;) { /* its loops by their strides */
            int32_t next = 0;
            for (int32_t d = 1; d < moved.rank; d++)
                if (moved.dim[next] == 1 || moved.stride[next] >= step ||
                    (moved.dim[d] > 1 && moved.stride[d] < step &&
                     moved.stride[d] > moved.stride[next]))
                    next = d;
            step = moved.stride[next];
            int64_t row = 1;
            for (int32_t d = next + 1; d < moved.rank; d++) row *= moved.dim[d];
            back.dim[back.rank] = moved.dim[next];
            back.stride[back.rank++] = row;
        }
        if (!all && back.rank > 0) back.stride[0] = 0; /* some elements twice, others not at all */
        const bool found = back.rank > 0 && qb_heads_behind(&back, &here, of, &there);
        if (!all && back.rank > 0 && back.dim[0] > 1) assert_false(found);
        if (!found) continue;
        done++;
        int64_t *to = calloc((size_t)count_of(&moved), sizeof *to);
        assert_non_null(to);
        for (int64_t k = 0; k < count_of(&back); k++) to[element(&back, k)] = k;
        for (int64_t n = 0; n < of[0]; n++)
            for (int64_t h = 0; h < of[1]; h++)
                for (int64_t t = 0; t < of[2]; t++)
                    for (int64_t e = 0; e < of[3]; e++)
                        assert_true(to[at(&here, n, h, t) + e] == at(&there, n, h, t) + e);
        free(to);
    }
    print_message("%d of %d\n", done, CASES);
    assert_true(done > CASES / 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(heads_are_where_the_copy_finds_them),
    cmocka_unit_test(heads_are_where_the_copy_brings_them),
};
QB_TEST_MAIN(tests)
