/* Attention by its definition, sums and weights in double. A query whose keys are all masked with
 * minus infinity has the result 0. */
#include <math.h>

#include "kernels/heads.h"
#include "ref_internal.h"

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_MASK };

static double element(const qb_problem *p, const void *const *in, int32_t input, int64_t at) {
    float value;
    qb_ref_load(&p->in[input], in[input], at, 1, 1, &value);
    return (double)value;
}

typedef struct query {
    int64_t item, head, row;
} query;

static double score(const qb_problem *p, const qb_attention *a, const int64_t *mask,
                    const void *const *in, query q, int64_t key) {
    const int64_t x = qb_token_at(&a->in[IN_QUERY], q.item, q.head, q.row);
    const int64_t y = qb_token_at(&a->in[IN_KEY], q.item, q.head, key);
    double sum = 0;
    for (int64_t e = 0; e < a->size; e++)
        sum += element(p, in, IN_QUERY, x + e) * element(p, in, IN_KEY, y + e);
    sum *= (double)p->scale;
    return mask ? sum +
                      element(p, in, IN_MASK,
                              q.item * mask[0] + q.head * mask[1] + q.row * mask[2] + key * mask[3])
                : sum;
}

static void one_query(const qb_problem *p, const qb_attention *a, const int64_t *mask,
                      const void *const *in, query q, void *out) {
    double most = -INFINITY, sum = 0;
    for (int64_t key = 0; key < a->keys; key++) {
        const double s = score(p, a, mask, in, q, key);
        if (s > most || isnan(s)) most = s;
    }
    for (int64_t key = 0; key < a->keys && most != -INFINITY; key++)
        sum += exp(score(p, a, mask, in, q, key) - most);
    for (int64_t e = 0; e < a->value_size; e += QB_REF_CHUNK) {
        const int64_t left = a->value_size - e, n = left < QB_REF_CHUNK ? left : QB_REF_CHUNK;
        double y[QB_REF_CHUNK] = {0};
        float value[QB_REF_CHUNK];
        for (int64_t key = 0; key < a->keys && sum != 0; key++) {
            const double weight = exp(score(p, a, mask, in, q, key) - most) / sum;
            const int64_t v = qb_token_at(&a->in[IN_VALUE], q.item, q.head, key) + e;
            for (int64_t i = 0; i < n; i++) y[i] += weight * element(p, in, IN_VALUE, v + i);
        }
        for (int64_t i = 0; i < n; i++) value[i] = (float)y[i];
        qb_ref_store(&p->out, out, qb_token_at(&a->out, q.item, q.head, q.row) + e, n, value);
    }
}

void qb_ref_attention(const qb_problem *p, const void *const *in, void *out) {
    qb_attention a;
    int64_t mask[4];
    if (!qb_attention_of(p, &a)) return; /* qb_ref_check has looked */
    const bool masked = qb_problem_has(p, IN_MASK) && qb_attention_mask(p, &a, mask);
    for (int64_t item = 0; item < a.batch; item++)
        for (int64_t head = 0; head < p->group; head++)
            for (int64_t row = 0; row < a.rows; row++)
                one_query(p, &a, masked ? mask : NULL, in, (query){item, head, row}, out);
}
