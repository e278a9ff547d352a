/* Plans as text and back: what cuDNN took a third of a second to compile, it reads in a
 * millisecond. The text kept is that of GPU 0 at place 0, so that it does not depend on where it
 * was made. */
#include <string.h>

#include "base/log.h"
#include "kernels/compiled.h"
#include "kernels/cuda/common/device.h"
#include "kernels/cuda/vendor/cudnn_internal.h"
#include "kernels/cuda/vendor/cudnn_text/cudnn_text.h"

/* cuDNN's plan of the text; false where it does not take it. */
static bool read_plan(qb_cudnn_graph *g, const char *text) {
    const qb_cudnn_api *api = g->api;
    int64_t n = 0;
    return api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &g->plan) ==
               CUDNN_STATUS_SUCCESS &&
           api->cudnnBackendSetAttribute(g->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                         CUDNN_TYPE_HANDLE, 1, &g->maker) == CUDNN_STATUS_SUCCESS &&
           api->cudnnBackendSetAttribute(g->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, (int64_t)strlen(text),
                                         text) == CUDNN_STATUS_SUCCESS &&
           api->cudnnBackendFinalize(g->plan) == CUDNN_STATUS_SUCCESS &&
           api->cudnnBackendGetAttribute(g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &n,
                                         &g->workspace) == CUDNN_STATUS_SUCCESS &&
           g->workspace <= QB_CUDNN_WORKSPACE_MAX;
}

static qb_status text_here(qb_ctx *cx, const char *text, size_t bytes, char **out) {
    qb_cuda_device device;
    QB_TRY(qb_cuda_current(cx, &device));
    return qb_cudnn_text_on(cx, text, bytes, device.ordinal, qb_cuda_place(device.ordinal), out);
}

bool qb_cudnn_restore(qb_ctx *cx, qb_cudnn_graph *g, const qb_compiled *from, qb_hash key) {
    size_t bytes;
    char *here = NULL;
    const char *text = qb_compiled_find(from, key, &bytes);
    if (!text) return false;
    bool good = text_here(cx, text, bytes, &here) == QB_OK &&
                qb_cudnn_text_is_plan(here, strlen(here)); /* what cuDNN is going to read */
    if (good) {
        qb_cudnn_lock();
        good = read_plan(g, here);
        qb_cudnn_unlock();
    }
    qb_free(here);
    if (good) {
        g->compiled = key;
        return true;
    }
    qb_debug(cx, "a plan of cuDNN is compiled anew: what was kept of it does not fit here");
    qb_ctx_clear(cx);
    if (g->plan) (void)g->api->cudnnBackendDestroyDescriptor(g->plan);
    g->plan = NULL;
    return false;
}

/* New memory, NULL: it has none. */
static char *text_of(qb_ctx *cx, const qb_cudnn_graph *g, size_t *bytes) {
    int64_t n = 0, got = 0;
    char *text = NULL;
    qb_cudnn_lock();
    const cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    if (g->api->cudnnBackendGetAttribute(g->plan, name, CUDNN_TYPE_CHAR, 0, &n, NULL) ==
            CUDNN_STATUS_SUCCESS &&
        n > 0 && (size_t)n <= QB_CUDNN_TEXT_MAX)
        text = qb_alloc(cx, (size_t)n, 1);
    if (text && g->api->cudnnBackendGetAttribute(g->plan, name, CUDNN_TYPE_CHAR, n, &got, text) !=
                    CUDNN_STATUS_SUCCESS) {
        qb_free(text);
        text = NULL;
    }
    qb_cudnn_unlock();
    *bytes = text ? strnlen(text, (size_t)got) : 0;
    return text;
}

qb_status qb_cudnn_keep(qb_ctx *cx, qb_cudnn_graph *g, qb_compiled *to, qb_hash key) {
    size_t bytes;
    char *neutral = NULL, *text = text_of(cx, g, &bytes);
    if (!text) return cx->code;
    qb_status status = QB_OK;
    if (!qb_cudnn_text_is_plan(text, bytes)) {
        qb_debug(cx, "a plan of cuDNN has a form that is not known, and is not kept");
        goto out;
    }
    QB_GO(qb_cudnn_text_on(cx, text, bytes, 0, 0, &neutral));
    QB_GO(qb_compiled_add(cx, to, key, neutral, strlen(neutral)));
    g->compiled = key;
out:
    QB_FREE_ALL(neutral, text);
    return status;
}
