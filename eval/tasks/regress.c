/* regress: values or images, compared with the first engine's and with targets. */
#include "eval/task.h"

const qb_task qb_task_regress = {
    .name = "regress",
    .text = "values or images",
    .words = "regression resolution denoising",
    .metric = "psnr",
};
