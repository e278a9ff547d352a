#include "random_graph.h"

#include <string.h>

#define POOL 12

typedef struct grower {
    maker *m;
    int32_t live[POOL]; /* values of rank 4 to go on from */
    int n_live;
} grower;

static int pick(grower *g, int n) { return (int)qb_rng_below(&g->m->rng, (uint64_t)n); }

static bool chance(grower *g, int percent) { return pick(g, 100) < percent; }

static int32_t any(grower *g) { return g->live[pick(g, g->n_live)]; }

static int64_t dim(const grower *g, int32_t v, int i) { return value_of(g->m, v)->shape.dim[i]; }

static int channels(const grower *g, int32_t v) { return (int)dim(g, v, 1); }

static void keep(grower *g, int32_t v) {
    const qb_shape *shape = &value_of(g->m, v)->shape;
    if (shape->rank != 4) fail_msg("value '%s' has rank %d", value_of(g->m, v)->name, shape->rank);
    g->live[g->n_live < POOL ? g->n_live++ : pick(g, POOL)] = v;
}

static int32_t constant_for(grower *g, int32_t v, const char *name) {
    int c = channels(g, v), w = (int)dim(g, v, 3);
    switch (pick(g, 5)) {
    case 0: return make_uniform(g->m, name, (qb_shape){.rank = 0}, 0.5, 1.5);
    case 1: return make_uniform(g->m, name, DIMS(c, 1, 1), 0.5, 1.5);
    case 2: return make_uniform(g->m, name, DIMS(1, c, 1, 1), 0.5, 1.5);
    case 3: return make_uniform(g->m, name, DIMS(w), 0.5, 1.5);
    default: return make_floats(g->m, name, DIMS(1), (float[1]){pick(g, 2) ? 1.0f : 0.0f});
    }
}

static int32_t grow_activation(grower *g, int32_t v) {
    static const char *const ops[] = {"Relu",        "Sigmoid", "Tanh", "HardSwish", "LeakyRelu",
                                      "HardSigmoid", "Elu",     "Relu", "Gelu"};
    maker *m = g->m;
    if (chance(g, 15))
        return NODE(m, "Clip", "clip", v, make_scalar(m, "low", 0), make_scalar(m, "high", 6));
    if (chance(g, 20)) return NODE(m, "Mul", "silu", v, NODE(m, "Sigmoid", "gate", v));
    if (chance(g, 15)) {
        int32_t sum = NODE(m, "Add", "plus3", v, make_scalar(m, "three", 3));
        int32_t clip =
            NODE(m, "Clip", "ramp", sum, make_scalar(m, "zero", 0), make_scalar(m, "six", 6));
        return NODE(m, "Div", "hswish", NODE(m, "Mul", "prod", v, clip), make_scalar(m, "six", 6));
    }
    return NODE(m, ops[pick(g, 9)], "act", v);
}

static int32_t grow_pad(grower *g, int32_t v) {
    maker *m = g->m;
    int64_t pads[8] = {0, 0, pick(g, 2), pick(g, 2), 0, 0, pick(g, 2), pick(g, 2)};
    int32_t list = make_ints(m, "pads", 8, pads);
    if (chance(g, 20)) return NODE(m, "Pad", "pad", v, list, make_scalar(m, "fill", 1));
    return NODE(m, "Pad", "pad", v, list);
}

/* At least 4 x 4 stays, so that every window fits. */
static int32_t grow_conv(grower *g, int32_t v) {
    maker *m = g->m;
    if (chance(g, 25)) v = grow_pad(g, v);
    int c = channels(g, v), group = chance(g, 25) ? c : chance(g, 20) && c % 2 == 0 ? 2 : 1;
    int out = group * (1 + pick(g, group > 2 ? 1 : 4)), k = chance(g, 50) ? 3 : 1;
    if (chance(g, 15)) { /* doubles the size */
        if (dim(g, v, 2) > 8) return v;
        int32_t w = make_random(m, "wt", DIMS(c, out / group, 2, 2));
        int32_t y = NODE(m, "ConvTranspose", "up", v, w);
        set_int(m, "group", group);
        SET_INTS(m, "strides", 2, 2);
        return y;
    }
    int32_t w = make_random(m, "w", DIMS(out, c / group, k, k));
    int32_t b = chance(g, 50) ? make_random(m, "b", DIMS(out)) : -1;
    int32_t y = b < 0 ? NODE(m, "Conv", "conv", v, w) : NODE(m, "Conv", "conv", v, w, b);
    set_int(m, "group", group);
    bool stride = dim(g, v, 2) >= 8 && dim(g, v, 3) >= 8 && chance(g, 30);
    if (stride) SET_INTS(m, "strides", 2, 2);
    if (k == 3 && chance(g, 30))
        set_string(m, "auto_pad", chance(g, 50) ? "SAME_UPPER" : "SAME_LOWER");
    else if (k == 3)
        SET_INTS(m, "pads", 1, 1, 1, 1);
    return y;
}

static int32_t grow_arithmetic(grower *g, int32_t v) {
    static const char *const ops[] = {"Add", "Mul", "Sub", "Div", "Max", "Min"};
    maker *m = g->m;
    const char *op = ops[pick(g, 6)];
    int32_t c = constant_for(g, v, "c");
    /* Never divide by zero or by a value: the results would not be comparable. */
    if (strcmp(op, "Div") == 0) c = make_uniform(m, "d", (qb_shape){.rank = 0}, 0.5, 1.5);
    bool left = chance(g, 30) && strcmp(op, "Div") != 0;
    return left ? NODE(m, op, "arith", c, v) : NODE(m, op, "arith", v, c);
}

static int32_t grow_residual(grower *g, int32_t v) {
    for (int i = 0; i < g->n_live; i++) {
        int32_t o = g->live[(i + pick(g, g->n_live)) % g->n_live];
        if (!qb_shape_equal(&value_of(g->m, o)->shape, &value_of(g->m, v)->shape)) continue;
        return chance(g, 50) ? NODE(g->m, "Add", "res", v, o) : NODE(g->m, "Add", "res", o, v);
    }
    return v;
}

static int32_t grow_concat(grower *g, int32_t v) {
    for (int i = 0; i < g->n_live; i++) {
        int32_t o = g->live[i];
        if (dim(g, o, 2) != dim(g, v, 2) || dim(g, o, 3) != dim(g, v, 3)) continue;
        if (channels(g, o) + channels(g, v) > 16) continue;
        int32_t y = NODE(g->m, "Concat", "cat", v, o);
        set_int(g->m, "axis", 1);
        return y;
    }
    return v;
}

static int32_t grow_pool(grower *g, int32_t v) {
    maker *m = g->m;
    if (dim(g, v, 2) < 8 || dim(g, v, 3) < 8) return v;
    if (chance(g, 30)) v = grow_pad(g, v);
    bool max = chance(g, 50);
    int32_t y = NODE(m, max ? "MaxPool" : "AveragePool", "pool", v);
    SET_INTS(m, "kernel_shape", 3, 2);
    SET_INTS(m, "strides", 2, 1);
    if (chance(g, 50)) SET_INTS(m, "pads", 1, 0, 1, 1);
    if (chance(g, 30)) set_int(m, "ceil_mode", 1);
    if (!max && chance(g, 50)) set_int(m, "count_include_pad", 1);
    return y;
}

static int32_t grow_nothing(grower *g, int32_t v) {
    maker *m = g->m;
    switch (pick(g, 5)) {
    case 0: return NODE(m, "Identity", "same", v);
    case 1: return NODE(m, "Dropout", "drop", v);
    case 2:
        v = NODE(m, "Cast", "cast", v);
        set_int(m, "to", 1);
        return v;
    case 3: {
        int64_t target[4] = {0, channels(g, v), dim(g, v, 2), dim(g, v, 3)};
        return NODE(m, "Reshape", "reshape", v, make_ints(m, "target", 4, target));
    }
    default: {
        int32_t flat = NODE(m, "Flatten", "flat", v);
        int32_t wide = NODE(m, "Unsqueeze", "wide", flat, INTS(m, "axes", 1));
        int64_t target[4] = {-1, channels(g, v), dim(g, v, 2), dim(g, v, 3)};
        return NODE(m, "Reshape", "back", wide, make_ints(m, "target", 4, target));
    }
    }
}

/* Channels last, something elementwise, and back. */
static int32_t grow_transposed(grower *g, int32_t v) {
    maker *m = g->m;
    int32_t t = NODE(m, "Transpose", "nhwc", v);
    SET_INTS(m, "perm", 0, 2, 3, 1);
    if (chance(g, 60)) t = grow_activation(g, t);
    if (chance(g, 50)) t = NODE(m, "Add", "bias", t, make_random(m, "row", DIMS(channels(g, v))));
    if (chance(g, 20)) make_output(m, t);
    if (chance(g, 30)) {
        t = NODE(m, "Concat", "both", t, t);
        set_int(m, "axis", chance(g, 50) ? 3 : -1);
    }
    if (chance(g, 20)) {
        t = NODE(m, "Softmax", "soft", t);
        set_int(m, "axis", pick(g, 3) + 1);
    }
    t = NODE(m, "Transpose", "nchw", t);
    SET_INTS(m, "perm", 0, 3, 1, 2);
    return t;
}

static int32_t grow_once(grower *g, int32_t v) {
    switch (pick(g, 10)) {
    case 0:
    case 1: return grow_conv(g, v);
    case 2: return make_batch_norm(g->m, "bn", v, channels(g, v));
    case 3: return grow_activation(g, v);
    case 4: return grow_arithmetic(g, v);
    case 5: return grow_residual(g, v);
    case 6: return grow_concat(g, v);
    case 7: return grow_pool(g, v);
    case 8: return grow_nothing(g, v);
    default: return grow_transposed(g, v);
    }
}

/* Pooling and one or two fully connected layers, written in several ways. */
static int32_t grow_head(grower *g, int32_t v) {
    maker *m = g->m;
    int n = channels(g, v), out = 5;
    if (chance(g, 50)) {
        v = NODE(m, "ReduceMean", "mean", v, INTS(m, "axes", 2, 3));
        set_int(m, "keepdims", 0);
    } else {
        v = NODE(m, "Flatten", "flatten", NODE(m, "GlobalAveragePool", "gap", v));
    }
    if (chance(g, 50)) {
        v = NODE(m, "MatMul", "mm", v, make_random(m, "w", DIMS(n, out)));
        v = NODE(m, "Add", "fc", v, make_random(m, "b", chance(g, 50) ? DIMS(out) : DIMS(1, out)));
    } else {
        int32_t c = chance(g, 30)   ? make_scalar(m, "b", 0.5f)
                    : chance(g, 50) ? make_random(m, "b", DIMS(out))
                                    : make_random(m, "b", DIMS(1, out));
        v = NODE(m, "Gemm", "fc", v, make_random(m, "w", DIMS(out, n)), c);
        set_int(m, "transB", 1);
        set_float(m, "alpha", chance(g, 50) ? 1 : 0.5f);
        set_float(m, "beta", chance(g, 50) ? 1 : 2);
    }
    if (chance(g, 40)) v = make_batch_norm(m, "fcbn", v, out);
    if (chance(g, 40)) v = NODE(m, "Mul", "fcscale", v, make_uniform(m, "s", DIMS(out), 0.5, 1.5));
    if (chance(g, 50)) v = NODE(m, "Relu", "fcrelu", v);
    if (chance(g, 30)) v = NODE(m, "Softmax", "prob", v);
    return v;
}

void make_random_graph(maker *m, int size) {
    grower g = {.m = m};
    keep(&g, make_input(m, "x", DIMS(-1, 4, 8, 8)));
    int32_t v = g.live[0];
    for (int i = 0; i < size; i++) {
        if (chance(&g, 20)) v = any(&g);
        /* Now and then the same thing twice, for common subexpressions. */
        qb_rng before = m->rng;
        int32_t from = v;
        v = grow_once(&g, from);
        if (chance(&g, 10)) {
            qb_rng after = m->rng;
            m->rng = before;
            v = NODE(m, "Add", "twice", v, grow_once(&g, from));
            m->rng = after;
        }
        keep(&g, v);
        if (chance(&g, 8)) make_output(m, v);
    }
    make_output(m, chance(&g, 70) ? grow_head(&g, v) : v);
}
