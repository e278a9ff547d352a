/* qbench demo: the whole flow on the model inside the program and on images that it draws. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "cli/out/json.h"
#include "cli/out/results.h"
#include "cli/pipeline.h"
#include "demo/draw.h"
#include "demo/model.h"

typedef struct options {
    qb_common common;
    int64_t calibration_images, test_images;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_INT(options, "calibration-images", calibration_images, "N", 1, 100000,
           "calibration images a class (default: 20)"),
    QB_INT(options, "test-images", test_images, "N", 1, 100000,
           "test images a class (default: 100)"),
    {0},
};

static void defaults(void *opts) {
    options *o = opts;
    o->calibration_images = 20;
    o->test_images = 100;
}

/* The files of a demo folder. */
typedef struct layout {
    char *folder, *model, *sidecar, *calib, *test;
} layout;

static qb_status layout_make(qb_ctx *cx, const options *o, layout *l) {
    QB_TRY_NEW(cx, l->folder = qb_strdup(cx, o->common.out ? o->common.out : "qbench-demo"));
    l->model = qb_path_join(cx, l->folder, "model.onnx");
    l->sidecar = qb_path_join(cx, l->folder, "model.json");
    l->calib = qb_path_join(cx, l->folder, "calib");
    l->test = qb_path_join(cx, l->folder, "test");
    return l->model && l->sidecar && l->calib && l->test ? QB_OK : cx->code;
}

static void layout_release(layout *l) {
    QB_FREE_ALL(l->folder, l->model, l->sidecar, l->calib, l->test);
}

/* The demo may be run again where it was; a folder of somebody else's is left alone. */
static qb_status check_folder(qb_ctx *cx, const layout *l) {
    bool empty = true, own = false;
    QB_RELEASED(qb_dir_close) DIR *dir = opendir(l->folder);
    if (!dir && errno == ENOENT) return QB_OK;
    if (!dir) return qb_fail_errno(cx, "read folder %s", l->folder);
    for (const struct dirent *entry; empty && (entry = readdir(dir));)
        empty = entry->d_name[0] == '.';
    if (empty) return QB_OK;
    if (!qb_path_is_absent(l->model)) {
        QB_RELEASED(qb_map_close) qb_map map = {0};
        QB_TRY(qb_map_open(cx, l->model, &map));
        own = map.size == qb_demo_model_onnx_size &&
              memcmp(map.data, qb_demo_model_onnx, map.size) == 0;
    }
    if (own) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID,
                   "%s holds files that are not the demo's: name a new folder (-o FOLDER)",
                   l->folder);
}

static qb_status write_inputs(qb_ctx *cx, const options *o, const layout *l) {
    QB_TRY(check_folder(cx, l));
    QB_TRY(qb_make_dirs(cx, l->folder));
    QB_TRY(qb_file_write(cx, l->model, qb_demo_model_onnx, qb_demo_model_onnx_size));
    QB_TRY(qb_file_write(cx, l->sidecar, qb_demo_model_json, qb_demo_model_json_size));
    QB_TRY(qb_demo_write(cx, l->calib, QB_DEMO_SEED_CALIB, o->calibration_images));
    return qb_demo_write(cx, l->test, QB_DEMO_SEED_TEST, o->test_images);
}

static qb_status calibrate(qb_ctx *cx, const qb_project *project) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_table_free_at) qb_table *calibration = NULL;
    QB_TRY(qb_stage_load(cx, project, NULL, &graph, NULL));
    QB_TRY(qb_stage_calibrate(cx, project, graph, &(qb_calibrate_settings){0}, &calibration, NULL));
    QB_FREED char *path = QB_NEW(cx, qb_project_artifact(cx, project, "calib.h5"));
    return qb_table_save(cx, calibration, path);
}

/* The last one is what comes out when nobody takes care: one scale a weight tensor, symmetric
 * activations over all that was ever seen. */
static const char *const precisions[] = {"fp32", "int8", "int8:percentile", "int8:minmax",
                                         "int8:minmax+s8-symmetric+per-tensor"};

static qb_status compare(qb_ctx *cx, const options *o, const qb_project *project, const layout *l) {
    const qb_compare_settings settings = {.precision = precisions,
                                          .n_precisions =
                                              (int32_t)(sizeof precisions / sizeof precisions[0]),
                                          .duration_s = 0.5,
                                          .layers = true,
                                          .thumbnail = 64};
    QB_RELEASED(qb_run_free_at) qb_run *result = NULL;
    QB_FREED char *path = QB_NEW(cx, qb_project_record(cx, project));
    QB_TRY(qb_stage_compare(cx, project, &settings, &result));
    QB_TRY(qb_results_describe(cx, &o->common, result));
    QB_TRY(qb_results_save(cx, path, result));
    QB_TRY(qb_results_show(cx, &o->common, result));
    if (!qb_json_on_stdout(&o->common))
        printf("\nEverything is in %s/: go on from there, for example\n"
               "  cd %s && qbench gate --max-drop 1.0 --precision int8\n",
               l->folder, l->folder);
    return qb_results_page(cx, &o->common, project->out_dir, result);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    (void)arguments;
    const options *o = opts;
    QB_RELEASED(layout_release) layout l = {0};
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_TRY(layout_make(cx, o, &l));
    QB_TRY(write_inputs(cx, o, &l));
    const qb_common common = {.config = "", .out = l.folder};
    const qb_project_flags flags = {.model = l.model, .data = l.test};
    QB_TRY(qb_project_open(cx, &common, &flags, false, &project));
    QB_TRY_NEW(cx, project.calibration_data = qb_strdup(cx, l.calib));
    QB_TRY(calibrate(cx, &project));
    return compare(cx, o, &project, &l);
}

const qb_command qb_command_demo = {
    .name = "demo",
    .usage = "[-o FOLDER] [options]",
    .summary = "the whole flow on a small model and images that qbench draws itself",
    .example = "qbench demo -o /tmp/qbench-demo",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 0,
    .defaults = defaults,
    .run = run,
};
