/* classify: one class a sample; everything is in the answers. */
#include "eval/task.h"

const qb_task qb_task_classify = {
    .name = "classify",
    .text = "one class a sample",
    .words = "classification classifier",
    .metric = "top1",
};
