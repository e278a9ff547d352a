#include "cli/check.h"

#ifdef QB_HAVE_CUDA
#include "kernels/cuda/device.h"

static qb_status look(qb_ctx *cx, qb_finding *out) {
    qb_cuda_device device;
    if (qb_cuda_count() == 0 || qb_cuda_open(cx, 0, &device) != QB_OK) {
        qb_ctx_clear(cx);
        return qb_found(cx, out, QB_FINDING_NOTE,
                        "engines run on the CPU; a GPU needs NVIDIA's driver",
                        "none that CUDA can use");
    }
    return qb_found(cx, out, QB_FINDING_GOOD, NULL,
                    "%s, compute capability %d.%d, %.0f GiB, driver for CUDA %d.%d", device.name,
                    device.major, device.minor, (double)device.memory_bytes / (1 << 30),
                    device.driver / 1000, device.driver % 1000 / 10);
}
#else
static qb_status look(qb_ctx *cx, qb_finding *out) {
    return qb_found(cx, out, QB_FINDING_NOTE,
                    "for a GPU, build where the CUDA Toolkit and cuDNN are installed",
                    "this program was built without CUDA");
}
#endif

const qb_check qb_check_gpu = {"gpu", look};
