/* qbench calib merge: one calibration from several. */
#include <string.h>

#include "base/text.h"
#include "cli/out/json.h"
#include "cli/settings/methods.h"

typedef struct options {
    qb_common common;
    const char *method;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_TEXT(options, "method", method, "LIST",
            "methods to choose ranges by (default: those of the files)"),
    {0},
};

/* The methods of a table, as they are: nothing is added to them. */
static qb_status methods_of(qb_ctx *cx, const qb_table *t, qb_methods *out) {
    *out = (qb_methods){.n = t->n_methods};
    for (int32_t i = 0; i < t->n_methods; i++)
        QB_TRY(qb_method_parse(cx, t->method[i], &out->choice[i]));
    return QB_OK;
}

static qb_status same_methods(qb_ctx *cx, const qb_table *a, const qb_table *b,
                              const char *const *path) {
    bool same = a->n_methods == b->n_methods;
    for (int32_t i = 0; i < a->n_methods && same; i++)
        same = strcmp(a->method[i], b->method[i]) == 0;
    if (same) return QB_OK;
    return qb_fail(cx, QB_STATUS_MISMATCH,
                   "%s and %s were made with different methods (%s... and %s...): give --method",
                   path[0], path[1], a->method[0], b->method[0]);
}

/* Too many samples together for their extremes to be recorded: what reads them is left out, as in a
 * run over all of them. */
static void drop_unavailable(const qb_table *t, qb_methods *methods) {
    int32_t kept = 0;
    for (int32_t i = 0; i < methods->n; i++)
        if (t->n_recorded > 0 || !methods->choice[i].method->needs_samples)
            methods->choice[kept++] = methods->choice[i];
    methods->n = kept;
}

/* *all takes the next file in. */
static qb_status add_file(qb_ctx *cx, const options *o, const char *first, const char *path,
                          qb_methods *methods, qb_table **all) {
    QB_RELEASED(qb_table_free_at) qb_table *next = NULL, *both = NULL;
    QB_TRY(qb_table_load(cx, path, &next));
    QB_TRY(qb_table_merge(cx, *all, next, first, path, &both)); /* of one model? that first */
    if (!o->method) QB_TRY(same_methods(cx, *all, next, (const char *[]){first, path}));
    if (!o->method) drop_unavailable(both, methods);
    QB_TRY(qb_table_choose(cx, both, methods->choice, methods->n));
    qb_table_free(*all);
    *all = QB_MOVE(both);
    return QB_OK;
}

static qb_status merge(qb_ctx *cx, const options *o, const qb_opt_list *files, qb_table **out) {
    qb_methods methods;
    QB_RELEASED(qb_table_free_at) qb_table *all = NULL;
    QB_TRY(qb_table_load(cx, files->item[0], &all));
    QB_TRY(o->method ? qb_methods_parse(cx, o->method, 0, &methods)
                     : methods_of(cx, all, &methods));
    for (int i = 1; i < files->n; i++)
        QB_TRY(add_file(cx, o, files->item[0], files->item[i], &methods, &all));
    *out = QB_MOVE(all);
    return QB_OK;
}

static qb_status report(qb_ctx *cx, const options *o, const qb_table *t) {
    char shards[256], hash[33];
    qb_shards_text(&t->shards, shards, sizeof shards);
    qb_hash_hex(t->data_hash, hash);
    if (!qb_json_on_stdout(&o->common))
        printf("%s: %d tensors, %lld samples, %s%s%s\n", QB_SHOWN(o->common.out), t->n_entries,
               (long long)t->samples, t->method[0], shards[0] ? ", shards " : "", shards);
    if (!o->common.json) return QB_OK;
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o, s:I, s:I, s:s, s:s}", "schema", "qbench.calib-merge/1",
                                 "file", qb_json_text(o->common.out), "samples",
                                 (json_int_t)t->samples, "skipped", (json_int_t)t->skipped,
                                 "shards", shards, "data_hash", hash));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (arguments->n < 2 || !o->common.out)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "calib merge: expected two or more .calib.h5 files and -o FILE");
    QB_RELEASED(qb_table_free_at) qb_table *result = NULL;
    QB_TRY(merge(cx, o, arguments, &result));
    QB_TRY(qb_table_save(cx, result, o->common.out));
    return report(cx, o, result);
}

const qb_command qb_calib_command_merge = {
    .name = "calib merge",
    .usage = "A.calib.h5 B.calib.h5... -o OUT.calib.h5 [options]",
    .summary = "one calibration of the samples of several: exact, in any order",
    .notes = "For parts of a run (calibrate --shard) and for runs on different data. All must\n"
             "be of one model and one preprocessing; parts or samples that two of them hold\n"
             "are refused. All parts of a run together give the bytes of the whole run.",
    .example = "qbench calibrate --data imagenet/ --shard 1/2 -o one.calib.h5\n"
               "qbench calibrate --data imagenet/ --shard 2/2 -o two.calib.h5\n"
               "qbench calib merge one.calib.h5 two.calib.h5 -o resnet50.calib.h5",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = QB_TABLE_SHARDS,
    .run = run,
};
