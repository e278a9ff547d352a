/* Activation functions of recurrent layers, by name. */
#include <math.h>
#include <strings.h>

#include "recurrent_internal.h"

static float affine(float x, float alpha, float beta) { return alpha * x + beta; }
static float relu(float x, float alpha, float beta) {
    (void)alpha, (void)beta;
    return x < 0 ? 0 : x;
}
static float leaky_relu(float x, float alpha, float beta) {
    (void)beta;
    return x < 0 ? alpha * x : x;
}
static float thresholded_relu(float x, float alpha, float beta) {
    (void)beta;
    return x > alpha ? x : 0;
}
static float tanh_of(float x, float alpha, float beta) {
    (void)alpha, (void)beta;
    return tanhf(x);
}
static float scaled_tanh(float x, float alpha, float beta) { return alpha * tanhf(beta * x); }
static float sigmoid(float x, float alpha, float beta) {
    (void)alpha, (void)beta;
    return 1 / (1 + expf(-x));
}
static float hard_sigmoid(float x, float alpha, float beta) {
    return fmaxf(0, fminf(1, alpha * x + beta));
}
static float elu(float x, float alpha, float beta) {
    (void)beta;
    return x < 0 ? alpha * expm1f(x) : x;
}
static float softsign(float x, float alpha, float beta) {
    (void)alpha, (void)beta;
    return x / (1 + fabsf(x));
}
static float softplus(float x, float alpha, float beta) {
    (void)alpha, (void)beta;
    return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

static const struct {
    const char *name;
    float (*apply)(float x, float alpha, float beta);
    bool has_alpha, has_beta;
    float alpha, beta; /* when not given */
    qb_act_kind kind;  /* the same for kernels; NONE: they have it not */
} functions[] = {
    {"Affine", affine, true, true, 1, 0, QB_ACT_NONE},
    {"Elu", elu, true, false, 1, 0, QB_ACT_ELU},
    {"HardSigmoid", hard_sigmoid, true, true, 0.2f, 0.5f, QB_ACT_HARD_SIGMOID},
    {"LeakyRelu", leaky_relu, true, false, 0.01f, 0, QB_ACT_LEAKY_RELU},
    {"Relu", relu, false, false, 0, 0, QB_ACT_RELU},
    {"ScaledTanh", scaled_tanh, true, true, 1, 1, QB_ACT_NONE},
    {"Sigmoid", sigmoid, false, false, 0, 0, QB_ACT_SIGMOID},
    {"Softplus", softplus, false, false, 0, 0, QB_ACT_NONE},
    {"Softsign", softsign, false, false, 0, 0, QB_ACT_NONE},
    {"Tanh", tanh_of, false, false, 0, 0, QB_ACT_TANH},
    {"ThresholdedRelu", thresholded_relu, true, false, 1, 0, QB_ACT_NONE},
};

static int32_t find(const char *name) {
    const int32_t n = (int32_t)(sizeof functions / sizeof *functions);
    int32_t i = 0;
    while (i < n && strcasecmp(functions[i].name, name) != 0) i++;
    return i < n ? i : -1;
}

qb_status qb_rec_acts(qb_ctx *cx, const qb_recurrent_attrs *attrs, const char *const *usual,
                      int32_t each, int32_t directions, qb_rec_act *acts) {
    const int32_t n = each * directions;
    int32_t alphas = 0, betas = 0;
    if (attrs->activations.n != 0 && attrs->activations.n != n)
        return qb_fail(cx, QB_STATUS_INVALID, "activations: expected %d, got %d", n,
                       attrs->activations.n);
    for (int32_t i = 0; i < n; i++) {
        const char *name = attrs->activations.n ? attrs->activations.v[i] : usual[i % each];
        const int32_t f = find(name);
        if (f < 0)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "activations: '%s' is not known", name);
        acts[i] = (qb_rec_act){functions[f].apply, functions[f].alpha, functions[f].beta,
                               functions[f].kind};
        if (functions[f].has_alpha && alphas < attrs->activation_alpha.n)
            acts[i].alpha = attrs->activation_alpha.v[alphas++];
        if (functions[f].has_beta && betas < attrs->activation_beta.n)
            acts[i].beta = attrs->activation_beta.v[betas++];
    }
    return QB_OK;
}
