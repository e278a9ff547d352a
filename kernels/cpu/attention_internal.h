/* Attention of floats: the plan, shared by the files for each instruction set. */
#ifndef QB_CPU_ATTENTION_INTERNAL_H
#define QB_CPU_ATTENTION_INTERNAL_H

#include "chain_internal.h"
#include "cpu_internal.h"

#define QB_ATTENTION_ROWS 6   /* queries of a tile */
#define QB_ATTENTION_BLOCK 24 /* those that are shared among threads at a time */

typedef struct qb_attention_plan qb_attention_plan;
/* Keys and values of a head, as qb_attention_arch.pack leaves them, and room for scores. */
typedef struct qb_attention_scratch {
    float *keys;   /* [size][key_columns]: transposed, columns behind the last key are zero */
    float *values; /* [keys][value_columns] */
    float *scores; /* [QB_ATTENTION_ROWS][key_columns] */
    float *result; /* [QB_ATTENTION_ROWS][value_columns] */
} qb_attention_scratch;

struct qb_attention_plan {
    qb_attention a;
    int64_t heads, blocks, parts;
    int64_t key_columns, value_columns; /* whole vectors */
    int64_t mask_step[4];               /* item, head, query, key; 0: broadcast */
    bool masked;
    float scale;
    qb_chain_quantized quantized; /* of the result; no type: floats */
    const struct qb_attention_arch *arch;
};

/* What an instruction set has of its own. */
typedef struct qb_attention_arch {
    int64_t lanes;
    /* Of the head whose first key and value are given. */
    void (*pack)(const qb_attention_plan *p, const float *keys, const float *values,
                 const qb_attention_scratch *s);
    /* n queries of it, up to QB_ATTENTION_BLOCK; `mask` (NULL: none) is that of the first one and
     * `out` the element of the result where it begins. */
    void (*run)(const qb_attention_plan *p, const float *queries, int64_t n, const float *mask,
                const qb_attention_scratch *s, char *out);
} qb_attention_arch;

bool qb_attention_supports(const qb_problem *p);
qb_status qb_attention_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                              const qb_attention_arch *arch, qb_kernel **out);
#endif
