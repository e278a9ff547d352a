/* What is asked of an engine reaches it: every option of every command that builds engines stands
 * in the build spec of each of them, and every member of a spec changes the engine. On devices that
 * need no GPU. ctest-timeout: 300, ctest-cost: 40, ctest-labels: plain */
#include "qb_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "bench_models.h"
#include "cli/command.h"
#include "cli/settings/project.h"
#include "engine/profiles.h"
#include "engine/step_json.h"
#include "fake_device.h"
#include "kernels/sources.h"
#include "open_models.h"
#include "small_run.h"

/* ---- the specs of all builds; the linker puts this in front of qb_engine_build ---- */

enum { BUILDS = 512 };
static qb_build_spec built[BUILDS];
static int n_built;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* samples run on several threads */

qb_status __wrap_qb_engine_build(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                                 qb_engine **out);
qb_status __real_qb_engine_build(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                                 qb_engine **out);

qb_status __wrap_qb_engine_build(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                                 qb_engine **out) {
    pthread_mutex_lock(&lock);
    /* What the processor can do at most is measured on a graph of its own, whose input is "x". */
    if (n_built < BUILDS && qb_graph_find_value(graph, "x") < 0) built[n_built++] = *spec;
    pthread_mutex_unlock(&lock);
    return __real_qb_engine_build(cx, graph, spec, out);
}

/* ---- options ---- */

static char folder[QB_TEST_PATH], model[QB_TEST_PATH], images[QB_TEST_PATH], cache[QB_TEST_PATH];

static bool on_list(const qb_build_spec *s) {
    return s->backends && strcmp(s->backends, "cuda,ref") == 0;
}
static bool on_provider(const qb_build_spec *s) {
    return s->backends && strcmp(s->backends, "cuda") == 0;
}
static bool on_second(const qb_build_spec *s) { return s->device == 1; }
static bool with_cache(const qb_build_spec *s) {
    return s->timing_cache && strcmp(s->timing_cache, cache) == 0;
}
static bool unmixed(const qb_build_spec *s) { return s->no_mixed_precision; }
static bool without_cudnn(const qb_build_spec *s) { return s->excluded_sources == QB_SOURCE_CUDNN; }
static bool with_sizes(const qb_build_spec *s) { return s->max_sizes != NULL; }
static bool limited(const qb_build_spec *s) { return s->workspace_limit == (size_t)1 << 30; }
static bool timed(const qb_build_spec *s) { return s->time_tactics; }
static bool unchecked(const qb_build_spec *s) { return !s->check || s->observable; }
static bool in_f16(const qb_build_spec *s) { return s->float_type == QB_DTYPE_F16; }
static bool in_tf32(const qb_build_spec *s) { return s->tf32; }
static bool in_profiles(const qb_build_spec *s) { return s->n_profiles == 1; }
static bool in_one_thread(const qb_build_spec *s) { return s->threads == 1; }

static const char ON_GPU[] = "--providers=cuda";

typedef struct option {
    const char *name;  /* of its row */
    const char *given; /* "--NAME=..."; the cache's path is added where it ends with = */
    const char *also;  /* what it needs, given without it as well */
    bool (*asked)(const qb_build_spec *spec);
    int run;              /* options of one run are given together: none has another's member */
    const char *commands; /* "" : all that have the row; else these */
} option;

static const option options[] = {
    {"backends", "--backends=cuda,ref", NULL, on_list, 0, ""},
    {"backend", "--backend=cuda,ref", NULL, on_list, 1, ""},
    {"providers", "--providers=cuda", NULL, on_provider, 2, ""},
    {"devices", "--devices=1", ON_GPU, on_second, 3, ""},
    {"device", "--device=1", ON_GPU, on_second, 4, ""},
    {"timingCacheFile", "--timingCacheFile=", NULL, with_cache, 0, ""},
    {"no-mixing", "--no-mixing", NULL, unmixed,
     0, /* a search decides each group's precision itself */
     "calibrate compare build bench inspect run data doctor"},
    {"tacticSources", "--tacticSources=-CUDNN", NULL, without_cudnn, 0, ""},
    {"max-size", "--max-size=y=1", NULL, with_sizes,
     0, /* refused here, where all sizes are known: */
     "cli.late_sizes"},
    {"memPoolSize", "--memPoolSize=workspace:1G", NULL, limited, 0, ""},
    {"time-tactics", "--time-tactics", NULL, timed, 0, ""},
    {"no-check", "--no-check", NULL, unchecked, 0, "build bench compare run"},
    {"precision", "--precision=fp16", ON_GPU, in_f16, 3, "build bench inspect"},
    {"precision", "--precision=tf32", ON_GPU, in_tf32, 4, "build bench inspect"},
    {"fp16", "--fp16", ON_GPU, in_f16, 5, /* not beside the --precision that build has here */
     "calibrate compare bench inspect run search data doctor"},
    {"maxShapes", "--maxShapes=image:3x3x8x8", NULL, in_profiles, 1, ""},
    {"threads", "--threads=1", NULL, in_one_thread, 0, "build bench inspect"},
};
enum { OPTIONS = sizeof options / sizeof *options, RUNS = 6 };

/* ---- commands ---- */

enum { WORDS = 24 };
/* Those that build engines, and how they run here: on the fewest data. */
static const struct {
    const char *name, *word[WORDS];
} commands[] = {
    {"calibrate", {"--data", images, "--method", "minmax,entropy,auto"}},
    {"compare", {"fp32", "int8", "--layers", "--data", images, "--duration=0.001", "--no-figures"}},
    {"build", {"--precision=fp32"}},
    {"bench", {"--duration=0", "--iterations=1", "--warmUp=0"}},
    {"inspect", {NULL}},
    {"data doctor", {images}},
    {"run", {"fp32", "int8", "--force"}},
    {"search", {"--data", images, "--max-drop=100", "--time-budget=1", "--no-figures"}},
};
enum { COMMANDS = sizeof commands / sizeof *commands };
/* Those that open a project and build none. */
static const char *const build_none[] = {"init", "optimize",     "quantize",    "migrate",
                                         "gate", "calib import", "calib export"};

static const qb_command *found;
static const char *wanted;
static void visit(const qb_command *command, void *user) {
    (void)user;
    if (strcmp(command->name, wanted) == 0) found = command;
}

static const qb_command *command_of(const char *name) {
    found = NULL;
    wanted = name;
    qb_commands_each(visit, NULL);
    assert_non_null(found);
    return found;
}

static bool takes(const qb_command *command, const char *name) {
    for (const qb_opt *o = command->options; o->name; o++)
        if (strcmp(o->name, name) == 0) return true;
    return false;
}

/* Runs a command with more words; its builds, of at least one, are in `built`. */
static void start(int which, const char *const *given, int n_given) {
    const char *words[WORDS + OPTIONS + 8] = {
        commands[which].name, "--quiet", "--model", model, "-o", folder};
    int n = 6;
    qb_ctx cx;
    qb_log log = {.level = QB_LEVEL_ERROR};
    qb_ctx_init(&cx);
    cx.log = &log;
    for (int i = 0; i < WORDS && commands[which].word[i]; i++) words[n++] = commands[which].word[i];
    for (int i = 0; i < n_given; i++) words[n++] = given[i];
    n_built = 0;
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    const qb_command *command = command_of(commands[which].name);
    const qb_status status = qb_command_start(&cx, command, n, (char **)words);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(nowhere);
    close(kept);
    const bool may_find = strcmp(command->name, "data doctor") == 0; /* of random weights */
    if (status != QB_OK && !(may_find && status == QB_STATUS_CHECK))
        fail_msg("%s ... %s: %s", command->name, words[n - 1], cx.message);
    assert_in_range(n_built, 1, BUILDS - 1);
}

static bool applies(int which, const option *o) {
    return takes(command_of(commands[which].name), o->name) &&
           (!*o->commands || strstr(o->commands, commands[which].name));
}

/* Without the option some engine is not as it asks, else this would prove nothing. */
static void check_before(int which, const char *also) {
    start(which, &also, also != NULL);
    for (const option *o = options; o < options + OPTIONS; o++) {
        if (o->also != also || !applies(which, o)) continue;
        int others = 0;
        for (int i = 0; i < n_built; i++) others += !o->asked(&built[i]);
        if (others == 0) fail_msg("%s without %s", commands[which].name, o->given);
    }
}

/* The options of one run that the command takes, all at once. */
static void check_after(int which, int run) {
    static char given[OPTIONS][2 * QB_TEST_PATH];
    const char *words[OPTIONS + 1];
    const option *asked[OPTIONS];
    int n = 0, n_words = 0;
    for (const option *o = options; o < options + OPTIONS; o++) {
        if (o->run != run || !applies(which, o)) continue;
        const bool path = o->given[strlen(o->given) - 1] == '=';
        snprintf(given[n], sizeof *given, "%s%s", o->given, path ? cache : "");
        if (n == 0 && o->also) words[n_words++] = o->also;
        words[n_words++] = given[n];
        asked[n++] = o;
    }
    if (n > 0) start(which, words, n_words);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n_built; i++)
            if (!asked[k]->asked(&built[i]))
                fail_msg("%s %s: engine %d of %d", commands[which].name, given[k], i, n_built);
}

static void every_option_reaches_every_engine(void **state) {
    (void)state;
    for (int c = 0; c < COMMANDS; c++) {
        check_before(c, NULL);
        check_before(c, ON_GPU);
        for (int run = 0; run < RUNS; run++) check_after(c, run);
    }
}

/* ---- nothing is left out above ---- */

typedef struct rows {
    qb_project_flags project;
} rows;
static const qb_opt asked_of_engines[] = {
    QB_BUILD_OPTIONS(rows), QB_DEVICES_OPTION(rows), QB_TUNE_OPTIONS(rows), {0}};

static void every_row_is_tested(void **state) {
    (void)state;
    for (const qb_opt *row = asked_of_engines; row->name; row++) {
        bool tested = false;
        for (int i = 0; i < OPTIONS; i++) tested |= strcmp(options[i].name, row->name) == 0;
        if (!tested) fail_msg("--%s stands in no row of this test", row->name);
    }
}

static void check_command(const qb_command *command, void *user) {
    (void)user;
    bool known = !takes(command, asked_of_engines->name) || strcmp(command->name, "verify") == 0;
    for (int c = 0; c < COMMANDS; c++) known |= strcmp(commands[c].name, command->name) == 0;
    for (size_t i = 0; i < sizeof build_none / sizeof *build_none; i++)
        known |= strcmp(build_none[i], command->name) == 0;
    if (!known) fail_msg("%s takes options of builds and is not tested", command->name);
}

static void every_command_is_tested(void **state) {
    (void)state;
    qb_commands_each(check_command, NULL);
}

/* A model, the calibration of it, and the settings of `run`. */
static int set_up(void **state) {
    (void)state;
    char text[3 * QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = run_graph(&cx, RUN_SIDE);
    qb_test_temp_dir(folder);
    qb_test_join(model, folder, "model.onnx");
    qb_test_join(cache, folder, "timing.cache");
    qb_test_join(path, folder, "qbench.yaml");
    run_images(images);
    assert_ok(&cx, qb_onnx_save(&cx, graph, model));
    qb_graph_free(graph);
    snprintf(text, sizeof text,
             "data:\n  calibration: %s\n  evaluation: %s\ncompare:\n  duration: 0.001\n", images,
             images);
    FILE *file = fopen(path, "w");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
    fake_device_is_there = true;
    if (chdir(folder) != 0) return 1;
    start(0, NULL, 0);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_tested),
        cmocka_unit_test(every_command_is_tested),
        cmocka_unit_test(every_option_reaches_every_engine),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, set_up, NULL),
                             sizeof tests / sizeof *tests);
}
