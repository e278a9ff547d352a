/* What reports say about an engine and about the program. */
#include "engine/engine_internal.h"

#ifdef QB_HAVE_DNNL
#include "engine/dnnl/version_internal.h"
#endif

size_t qb_engine_bytes(const qb_engine *engine) {
    return sizeof *engine + qb_engine_weights(engine) + qb_arena_bytes(engine->arena) +
           (size_t)engine->n_steps * sizeof *engine->steps +
           (size_t)engine->n_layouts * sizeof *engine->layouts +
           (size_t)engine->n_buffers * sizeof *engine->buffers;
}

char *qb_engine_libraries(qb_ctx *cx) {
#ifdef QB_HAVE_DNNL
    int version[3];
    qb_dnnl_version(version);
    return qb_format(cx, "oneDNN %d.%d.%d", version[0], version[1], version[2]);
#else
    return qb_strdup(cx, "own kernels only");
#endif
}
