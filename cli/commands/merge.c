/* qbench merge: parts of a comparison -> the record of one machine. */
#include "cli/out/results.h"
#include "cli/pipeline.h"
#include "eval/part.h"

typedef struct options {
    qb_common common;
    bool no_figures;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_FLAG(options, "no-figures", no_figures, "draw no charts"),
    {0},
};

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (arguments->n < 1)
        return qb_fail(cx, QB_STATUS_USAGE, "merge: expected the parts of a comparison");
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_run_free_at) qb_run *result = NULL;
    QB_FREED char *path = NULL;
    qb_status status = QB_OK;
    qb_part *part = QB_NEW(cx, qb_alloc(cx, (size_t)arguments->n, sizeof *part));
    for (int i = 0; i < arguments->n; i++) QB_GO(qb_part_load(cx, arguments->item[i], &part[i]));
    QB_GO(qb_project_place(cx, o->common.out, &project));
    QB_GO_NEW(cx, path = qb_project_record(cx, &project));
    QB_GO(qb_results_can_save(cx, path));
    QB_GO(qb_stage_merge(cx, part, arguments->n, &result));
    QB_GO(qb_results_describe(cx, &o->common, result));
    QB_GO(qb_results_save(cx, path, result));
    QB_GO(qb_results_show(cx, &o->common, result));
    if (!o->no_figures) QB_GO(qb_results_page(cx, &o->common, project.out_dir, result));
out:
    for (int i = 0; i < arguments->n; i++) qb_part_release(&part[i]);
    qb_free(part);
    return status;
}

const qb_command qb_command_merge = {
    .name = "merge",
    .usage = "PART.json... [options]",
    .summary = "the record of a comparison from its parts (compare --shard)",
    .notes = "All parts of one comparison, in any order. The record is that of one machine,\n"
             "byte for byte, on processors of one kind; latency is that of part 1, which\n"
             "alone measures it. Parts of other data, of another model, of other options or\n"
             "of another version are refused. 'mpirun qbench compare' does both at once.",
    .example = "qbench compare fp32 int8 --data val/ --shard 1/2 -o part_1.json\n"
               "qbench compare fp32 int8 --data val/ --shard 2/2 -o part_2.json\n"
               "qbench merge part_*.json",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = QB_PARTS_MAX,
    .run = run,
};
