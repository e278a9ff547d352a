#include "cli/out/sampling.h"

#include "calib/sampling.h"

qb_status qb_sampling_say_ranges(qb_ctx *cx, const qb_table *table, qb_diagnosis *out) {
    static const char remedy[] = "add samples, or choose a method that clips (entropy, percentile)";
    out->check = "ranges";
    if (table->n_recorded > 0 && table->n_recorded < QB_SAMPLING_SHARDS)
        return qb_diagnosis_say(cx, out, QB_FINDING_NOTE, remedy,
                                "%lld samples are too few to tell whether ranges hold",
                                (long long)table->n_recorded);
    qb_sampling sampling;
    qb_sampling_of(table, &sampling);
    if (sampling.tensors == 0) return QB_OK;
    const bool thin = qb_sampling_is_thin(&sampling);
    return qb_diagnosis_say(
        cx, out, thin ? QB_FINDING_NOTE : QB_FINDING_GOOD, thin ? remedy : NULL,
        "%lld samples, drawn again in %d shards: the range from minimum to maximum moves by more "
        "than %g %% in %d of %d tensors",
        (long long)table->n_recorded, QB_SAMPLING_SHARDS, 100 * QB_SAMPLING_MOVED, sampling.moving,
        sampling.tensors);
}

static qb_status say_samples(qb_ctx *cx, const qb_table *table, qb_diagnosis *out) {
    out->check = "samples";
    if (table->skipped == 0)
        return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL, "%lld samples, all readable",
                                (long long)table->samples);
    return qb_diagnosis_say(cx, out, QB_FINDING_NOTE, "replace them: they are left out",
                            "%lld of %lld samples could not be read", (long long)table->skipped,
                            (long long)(table->skipped + table->samples));
}

static qb_status say_copies(qb_ctx *cx, const qb_table *table, qb_diagnosis *out) {
    out->check = "duplicates";
    if (!table->sample) return QB_OK;
    qb_sampling sampling;
    qb_sampling_of(table, &sampling);
    if (sampling.copies == 0)
        return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL, "no sample is there twice");
    return qb_diagnosis_say(cx, out, QB_FINDING_NOTE, "keep one of each: copies count twice",
                            "%lld of %lld samples are copies of others ('qbench data doctor' names "
                            "them)",
                            (long long)sampling.copies, (long long)table->samples);
}

static qb_status say_blank(qb_ctx *cx, const qb_table *table, qb_diagnosis *out) {
    out->check = "blank";
    if (table->blank == 0) return QB_OK;
    return qb_diagnosis_say(cx, out, QB_FINDING_NOTE,
                            "take them out unless the model will see such images",
                            "%lld of %lld images are of one colour or near-black ('qbench data "
                            "doctor' names them)",
                            (long long)table->blank, (long long)table->samples);
}

qb_status qb_sampling_say(qb_ctx *cx, const qb_table *table, qb_diagnosis *out) {
    if (table->samples == 0) return QB_OK;
    QB_TRY(say_samples(cx, table, out));
    QB_TRY(say_copies(cx, table, out));
    QB_TRY(say_blank(cx, table, out));
    return qb_sampling_say_ranges(cx, table, out);
}
