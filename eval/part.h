/* Parts of a comparison: what each of several machines measured of its share of the samples, as a
 * file (schema "qbench.part/1"), and the record that they make together. */
#ifndef QB_EVAL_PART_H
#define QB_EVAL_PART_H

#include "eval/accuracy.h"

enum { QB_PARTS_MAX = 4096, QB_PART_FACTS = 8 };

/* What must be the same in all parts: "model", "resnet50.onnx 1f0c...". */
typedef struct qb_part_fact {
    char *key, *value;
} qb_part_fact;

/* Part `shard` of 1 .. shards has every `shards`th sample from number shard - 1 on. */
typedef struct qb_part {
    char *name; /* of its file, for messages */
    int32_t shard, shards, n_facts;
    qb_part_fact fact[QB_PART_FACTS];
    /* What ranges were chosen on: that of the calibration, then that of each row's engine file
     * (zero: none). */
    qb_hash *calibrated;
    int32_t n_calibrated;
    /* Of the calibration's samples (qb_batch), ascending, for what is packed; not owned. */
    const uint64_t *sample;
    int64_t n_samples;
    void *results;         /* packed, see base/pack.h */
    size_t size;           /* bytes of them */
    struct json_t *record; /* of the part: environment, latency, pictures of its worst samples */
} qb_part;

void qb_part_release(qb_part *part); /* accepts zeroed */
/* Both texts are copied. */
qb_status qb_part_fact_add(qb_ctx *cx, qb_part *part, const char *key, const char *value);
/* How many of the n keys are among part->sample; both ascend. */
int64_t qb_part_shared(const qb_part *part, const uint64_t *key, int64_t n);

/* What qb_compare collected, into part->results. `task` with its state, or NULL. */
qb_status qb_part_pack(qb_ctx *cx, const qb_compare_options *options, const qb_answers *answers,
                       const qb_task *task, void *state, qb_part *part);
/* The file's text, new memory; `run` is what qb_compare gave, described. */
qb_status qb_part_json(qb_ctx *cx, const qb_part *part, const qb_run *run, char **out);
/* Reads one; errors name the file and the key. */
qb_status qb_part_parse(qb_ctx *cx, const char *name, const char *text, size_t size, qb_part *out);
qb_status qb_part_load(qb_ctx *cx, const char *path, qb_part *out);

/* The record of all parts (n of them in any order), which is that of one machine; latency is that
 * of the first part. *shared: samples of the calibration among those that were scored. Errors name
 * the part that is missing, there twice, or of something else (QB_STATUS_MISMATCH). */
qb_status qb_parts_merge(qb_ctx *cx, const qb_part *part, int32_t n, qb_run **out, int64_t *shared);
#endif
