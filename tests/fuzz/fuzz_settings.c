/* qbench.yaml as the commands read it: a project and the gate's limits of any text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/settings/gate_policy.h"
#include "cli/settings/methods.h"
#include "cli/settings/project.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at_project(const qb_project *p) {
    if (!p->model || !p->stem || p->batch < 1 || p->duration_s < 0) abort();
    for (int32_t i = 0; i < p->labels.n; i++)
        for (const char *at = p->labels.name[i]; *at; at++)
            if ((unsigned char)*at < ' ') abort(); /* names are shown to people */
}

static void look_at_limits(const qb_gate_limits *l) {
#define X(field, option, unit, least, most, text)                                                  \
    if (l->field < (least) || l->field > (most)) abort();
    QB_GATE_LIMITS(X)
#undef X
    if (l->n_least > QB_GATE_LEAST_MAX) abort();
    for (int32_t i = 0; i < l->n_least; i++)
        if (!isfinite(l->least[i].value)) abort();
}

/* Nothing is given beside the file. */
static void read_settings(qb_ctx *cx, const char *path) {
    const qb_common common = {.config = path};
    const qb_project_flags flags = {.model = "model.onnx"};
    const qb_gate_flags none = {.limits = qb_gate_no_limits()};
    for (int of_calibration = 0; of_calibration < 2; of_calibration++) {
        qb_project project;
        if (qb_project_open(cx, &common, &flags, of_calibration, &project) == QB_OK) {
            look_at_project(&project);
            qb_project_close(&project);
        } else if (cx->code == QB_STATUS_INTERNAL || cx->message[0] == '\0') {
            abort();
        }
        qb_ctx_clear(cx);
    }
    qb_gate_policy policy = {.limits = none.limits};
    if (qb_gate_policy_load(cx, &common, &none, &policy) == QB_OK)
        look_at_limits(&policy.limits);
    else if (cx->code == QB_STATUS_INTERNAL || cx->message[0] == '\0')
        abort();
    qb_gate_policy_release(&policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    char path[64];
    qb_ctx_init(&cx);
    const int fd = memfd_create("qbench.yaml", 0);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) read_settings(&cx, path);
    close(fd);
    return 0;
}
