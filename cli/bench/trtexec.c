#include "cli/bench/trtexec.h"

#include <string.h>

#include "base/log.h"

const qb_trtexec_flag qb_trtexec_flags[] = {
#define TRTEXEC(VERDICT, NAME, TEXT) {QB_TRTEXEC_##VERDICT, #NAME, TEXT},
#include "cli/bench/trtexec.inc"
#undef TRTEXEC
    {0}};

static const qb_trtexec_flag *find(const char *name) {
    const qb_trtexec_flag *flag = qb_trtexec_flags;
    while (flag->name && strcmp(flag->name, name) != 0) flag++;
    return flag;
}

qb_status qb_trtexec_check(qb_ctx *cx, const qb_opt_list *given) {
    for (int i = 0; i < given->n; i += 2) { /* names and values */
        const qb_trtexec_flag *flag = find(given->item[i]);
        if (flag->verdict == QB_TRTEXEC_REFUSED)
            return qb_fail(cx, QB_STATUS_USAGE, "option --%s of trtexec: %s", flag->name,
                           flag->text);
        qb_debug(cx, "--%s: %s", flag->name, flag->text);
    }
    return QB_OK;
}
