#include "engine/dnnl/version_internal.h"

#include <dnnl.h>

void qb_dnnl_version(int version[3]) {
    const dnnl_version_t *v = dnnl_version();
    version[0] = v->major;
    version[1] = v->minor;
    version[2] = v->patch;
}
