/* qbench doctor: what this machine has, what is missing and how to get it. */
#include "cli/doctor/check.h"

typedef struct options {
    qb_common common;
} options;

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

#define QB_CHECK(name) extern const qb_check qb_check_##name;
#include "cli/doctor/checks.def"

static const qb_check *const checks[] = {
#define QB_CHECK(name) &qb_check_##name,
#include "cli/doctor/checks.def"
};

static qb_status look_at_all(qb_ctx *cx, qb_diagnosis *diagnosis) {
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        QB_RELEASED(qb_finding_release) qb_finding finding = {0};
        QB_TRY(checks[i]->look(cx, &finding));
        diagnosis->check = checks[i]->name;
        QB_TRY(qb_diagnosis_add(cx, diagnosis, &finding));
    }
    return qb_diagnosis_end(cx, diagnosis, "qbench.doctor/1");
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    (void)arguments;
    const options *o = opts;
    QB_RELEASED(qb_diagnosis_release) qb_diagnosis diagnosis = {.common = &o->common};
    return look_at_all(cx, &diagnosis);
}

const qb_command qb_command_doctor = {
    .name = "doctor",
    .usage = "[options]",
    .summary = "look at processor, memory, libraries, GPU and tools",
    .notes = "'note' costs speed or leaves something out, 'bad' makes a command fail (exit\n"
             "code 3).",
    .example = "qbench doctor",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 0,
    .run = run,
};
