/* qbench version: the program and the libraries it runs on. */
#include "cli/out/json.h"
#include "engine/engine.h"

typedef struct options {
    qb_common common;
} options;

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    (void)arguments;
    const options *o = opts;
    QB_FREED char *libraries = QB_NEW(cx, qb_engine_libraries(cx));
    if (!qb_json_on_stdout(&o->common)) printf("qbench %s (%s)\n", QB_VERSION, libraries);
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:s, s:s}", "schema", "qbench.version/1", "version",
                                 QB_VERSION, "libraries", libraries));
}

const qb_command qb_command_version = {
    .name = "version",
    .usage = "[options]",
    .summary = "print the version and the compute libraries",
    .example = "qbench version --json -",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 0,
    .run = run,
};
