#include "status.h"

const char *qb_status_text(qb_status status) {
    static const char *const texts[QB_STATUS_COUNT] = {
#define X(name, text) [QB_STATUS_##name] = text,
        QB_STATUS_LIST(X)
#undef X
    };
    if ((int)status < 0 || (int)status >= QB_STATUS_COUNT) return "unknown status";
    return texts[status];
}
