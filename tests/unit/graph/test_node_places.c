/* Nodes that read and write at computed places, as problems: the places that kernels find are those
 * of the operators' definitions. */
#include <string.h>

#include "build_graph.h"
#include "graph/fusion.h"
#include "kernels/place_of.h"
#include "kernels/places.h"

#define CASES 300

static int64_t between(maker *m, int64_t low, int64_t high) {
    return low + (int64_t)qb_rng_below(&m->rng, (uint64_t)(high - low + 1));
}

static int32_t indices(maker *m, const qb_shape *shape, int64_t least, int64_t size) {
    const int64_t n = qb_shape_count(shape);
    int64_t data[20000];
    assert_true(n <= 20000);
    for (int64_t i = 0; i < n; i++) data[i] = between(m, -least, size - 1);
    const int32_t id = make_ints(m, "index", (int32_t)n, data);
    m->graph->values[id].shape = *shape;
    return id;
}

/* All elements by the functions that kernels of a device use. */
static void run(const qb_problem *p, const float *x, const int64_t *index, const float *updates,
                float *y) {
    const qb_shape *shape = &p->in[0].shape;
    const int32_t axis = qb_place_axis(&p->places, shape->dim, shape->rank);
    const int64_t n = qb_places_count(&p->places) * p->places.run;
    if (p->kind == QB_KIND_GATHER) {
        for (int64_t i = 0; i < n; i++) y[i] = x[qb_place_of(&p->places, index, true, (uint32_t)i)];
        return;
    }
    memcpy(y, x, (size_t)qb_shape_count(shape) * sizeof *y);
    for (int64_t i = 0; i < n && axis < 0; i++) {
        float *to = &y[qb_place_of(&p->places, index, true, (uint32_t)i)];
        *to = qb_place_reduced(p->reduce, *to, updates[i]);
    }
    for (int64_t at = 0; at < qb_shape_count(shape) && axis >= 0; at++) {
        const qb_place_line l = qb_place_line_of(&p->places, shape->dim, axis, (uint32_t)at);
        for (int64_t i = 0; i < l.n; i++)
            if (qb_index_at(index, true, l.index + i * l.index_step, p->places.size[0]) == l.own)
                y[at] = qb_place_reduced(p->reduce, y[at], updates[l.update + i * l.update_step]);
    }
}

static void check(maker *m, int32_t y) {
    const qb_node *node = node_writing(m, m->graph->values[y].name);
    qb_desc in[QB_MAX_INPUTS];
    qb_tensor tensor[3], out;
    qb_problem p;
    assert_true(qb_node_problem(m->graph, node, in, &p));
    for (int32_t i = 0; i < node->n_in; i++) {
        const qb_value *v = value_of(m, node->in[i]);
        tensor[i] = qb_tensor_of(v->dtype, v->shape, (void *)(uintptr_t)v->data);
    }
    const qb_shape *shape = &value_of(m, y)->shape;
    const size_t bytes = (size_t)qb_shape_count(shape) * sizeof(float);
    float *expected = qb_alloc(&m->cx, bytes + 1, 1), *got = qb_alloc(&m->cx, bytes + 1, 1);
    out = qb_tensor_of(QB_DTYPE_F32, *shape, expected);
    assert_ok(&m->cx, node->op->eval(&m->cx, node, tensor, &out));
    run(&p, tensor[0].data, tensor[1].data, node->n_in > 2 ? tensor[2].data : NULL, got);
    assert_memory_equal(got, expected, bytes);
    qb_free(expected);
    qb_free(got);
}

static const char *const reductions[] = {"none", "add", "mul", "max", "min"};

static void elements_are_where_the_operator_says(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        maker m;
        maker_init(&m, (uint64_t)i + 1);
        const int32_t rank = (int32_t)between(&m, 1, 4), axis = (int32_t)between(&m, 0, rank - 1);
        qb_shape x = {.rank = rank}, index = {.rank = rank};
        for (int32_t d = 0; d < rank; d++) {
            x.dim[d] = between(&m, 1, 6);
            index.dim[d] = d == axis ? between(&m, 1, 9) : between(&m, 1, x.dim[d]);
        }
        const int32_t data = make_random(&m, "x", x);
        const int32_t at = indices(&m, &index, x.dim[axis], x.dim[axis]);
        const bool puts = i % 2;
        const int32_t y =
            puts ? NODE(&m, "ScatterElements", "y", data, at, make_random(&m, "u", index))
                 : NODE(&m, "GatherElements", "y", data, at);
        set_int(&m, "axis", i % 3 ? axis : axis - rank);
        if (puts) set_string(&m, "reduction", reductions[i / 2 % 5]);
        check(&m, y);
        maker_release(&m);
    }
}

static void tuples_are_where_the_operator_says(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        maker m;
        maker_init(&m, (uint64_t)i + 1);
        const bool puts = i % 2;
        const int32_t rank = (int32_t)between(&m, 1, 4);
        const int32_t shared = puts ? 0 : (int32_t)between(&m, 0, rank - 1);
        const int32_t depth = (int32_t)between(&m, 1, rank - shared);
        qb_shape x = {.rank = rank}, index = {0}, updates = {0};
        const int64_t size = between(&m, 1, 5); /* of all: each index is one of each dimension */
        for (int32_t d = 0; d < rank; d++) x.dim[d] = size;
        for (int32_t d = 0; d < shared; d++) index.dim[index.rank++] = size;
        for (int64_t more = between(&m, 0, 2); more > 0; more--)
            index.dim[index.rank++] = between(&m, 1, 6);
        for (int32_t d = 0; d < index.rank; d++) updates.dim[updates.rank++] = index.dim[d];
        index.dim[index.rank++] = depth;
        for (int32_t d = shared + depth; d < rank; d++) updates.dim[updates.rank++] = x.dim[d];
        const int32_t data = make_random(&m, "x", x), at = indices(&m, &index, size, size);
        const int32_t y = puts ? NODE(&m, "ScatterND", "y", data, at, make_random(&m, "u", updates))
                               : NODE(&m, "GatherND", "y", data, at);
        if (!puts) set_int(&m, "batch_dims", shared);
        if (puts) set_string(&m, "reduction", reductions[i / 2 % 5]);
        check(&m, y);
        maker_release(&m);
    }
}

/* A grid of equally spaced indices, or one with an index moved; the strided copy has what the
 * operator's definition gives. */
static void equally_spaced_indices_are_strides(void **state) {
    (void)state;
    int strided = 0;
    for (int i = 0; i < CASES; i++) {
        maker m;
        maker_init(&m, (uint64_t)i + 1);
        const int32_t rank = (int32_t)between(&m, 1, 3), axis = (int32_t)between(&m, 0, rank - 1);
        const int32_t places = (int32_t)between(&m, 0, 3);
        qb_shape x = {.rank = rank}, grid = {.rank = places};
        int64_t step[3], index[64], low = 0, high = 0;
        for (int32_t d = 0; d < places; d++) {
            grid.dim[d] = between(&m, 1, 4);
            step[d] = between(&m, -3, 3);
            *(step[d] < 0 ? &low : &high) += step[d] * (grid.dim[d] - 1);
        }
        for (int32_t d = 0; d < rank; d++) x.dim[d] = between(&m, 1, 5);
        x.dim[axis] = high - low + between(&m, 1, 3);
        const int64_t n = qb_shape_count(&grid);
        for (int64_t at = 0; at < n; at++) {
            int64_t rest = at;
            index[at] = -low;
            for (int32_t d = places - 1; d >= 0; rest /= grid.dim[d--])
                index[at] += rest % grid.dim[d] * step[d];
        }
        const bool moved = i % 4 == 0 && n > 3;
        if (moved) index[n - 1] = (index[n - 1] + 1) % x.dim[axis];
        for (int64_t at = 0; at < n; at++) /* the same from the end */
            if (between(&m, 0, 1)) index[at] -= x.dim[axis];
        const int32_t ids = make_ints(&m, "index", (int32_t)n, index);
        m.graph->values[ids].shape = grid;
        const int32_t data = make_random(&m, "x", x), y = NODE(&m, "Gather", "y", data, ids);
        set_int(&m, "axis", axis);
        const qb_node *node = node_writing(&m, "y");
        qb_strided s;
        const bool is_strided = qb_node_strided(m.graph, node, 0, &s);
        assert_true(is_strided || moved);
        strided += is_strided;
        if (is_strided) {
            static float got[20000], expected[20000];
            const qb_value *v = value_of(&m, data), *w = value_of(&m, ids);
            const qb_tensor in[] = {qb_tensor_of(v->dtype, v->shape, (void *)(uintptr_t)v->data),
                                    qb_tensor_of(w->dtype, w->shape, (void *)(uintptr_t)w->data)};
            qb_tensor out = qb_tensor_of(QB_DTYPE_F32, value_of(&m, y)->shape, expected);
            assert_ok(&m.cx, node->op->eval(&m.cx, node, in, &out));
            const int64_t count = qb_shape_count(&out.desc.shape);
            assert_true(count <= 20000 && s.rank == out.desc.shape.rank);
            for (int64_t at = 0; at < count; at++) {
                int64_t rest = at, from = s.offset;
                for (int32_t d = s.rank - 1; d >= 0; rest /= s.dim[d--])
                    from += rest % s.dim[d] * s.stride[d];
                got[at] = ((const float *)v->data)[from];
            }
            assert_memory_equal(got, expected, (size_t)count * sizeof *got);
        }
        maker_release(&m);
    }
    assert_true(strided > CASES / 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(elements_are_where_the_operator_says),
    cmocka_unit_test(tuples_are_where_the_operator_says),
    cmocka_unit_test(equally_spaced_indices_are_strides),
};

QB_TEST_MAIN(tests)
