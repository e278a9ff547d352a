#include "cli/doctor/check.h"

#ifdef QB_HAVE_CUDA
#include <stdio.h>

#include "kernels/cuda/common/code.h"

/* Why there is none to run on, as the opening says. */
static qb_status none(qb_ctx *cx, qb_finding *out) {
    char reason[QB_MESSAGE_MAX];
    snprintf(reason, sizeof reason, "%s", cx->message);
    qb_ctx_clear(cx);
    return qb_found(cx, out, QB_FINDING_NOTE,
                    "engines run on the CPU; a GPU needs NVIDIA's driver, and code for it in this "
                    "program (QB_CUDA_ARCHITECTURES)",
                    "%s", reason);
}

static qb_status look(qb_ctx *cx, qb_finding *out) {
    qb_cuda_device device;
    int32_t from;
    if (qb_cuda_open(cx, 0, &device) != QB_OK) return none(cx, out);
    const qb_cuda_code code =
        qb_cuda_code_for(qb_cuda_architectures(), device.major, device.minor, &from);
    return qb_found(
        cx, out, QB_FINDING_GOOD, NULL,
        "%s, compute capability %d.%d, %.0f GiB, driver for CUDA %d.%d, %s %d", device.name,
        device.major, device.minor, (double)device.memory_bytes / (1 << 30), device.driver / 1000,
        device.driver % 1000 / 10,
        code == QB_CUDA_CODE_PTX ? "code compiled by it from that for" : "machine code for", from);
}
#else
static qb_status look(qb_ctx *cx, qb_finding *out) {
    return qb_found(cx, out, QB_FINDING_NOTE,
                    "for a GPU, build where the CUDA Toolkit and cuDNN are installed",
                    "this program was built without CUDA");
}
#endif

const qb_check qb_check_gpu = {"gpu", look};
