/* What lies beside a model: the bytes as a sidecar, and as a file of labels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "datasets/sidecar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Names are shown to people: no control characters are left in them. */
static void look_at_labels(const qb_labels *labels) {
    for (int32_t i = 0; i < labels->n; i++)
        for (const char *at = labels->name[i]; *at; at++)
            if ((unsigned char)*at < ' ' || *at == 0x7f) abort();
}

static void look_at_sidecar(const qb_sidecar *s) {
    if (s->shape.rank > QB_MAX_RANK) abort();
    look_at_labels(&s->labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    char path[64];
    qb_sidecar sidecar = {0};
    qb_labels labels = {0};
    qb_ctx_init(&cx);
    const int fd = memfd_create("fuzz.json", 0);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) {
        if (qb_sidecar_load(&cx, path, &sidecar) == QB_OK)
            look_at_sidecar(&sidecar);
        else if (sidecar.path || (cx.code != QB_STATUS_NOMEM && !strstr(cx.message, path)))
            abort(); /* a failure names the file and gives nothing */
        qb_ctx_clear(&cx);
        if (qb_labels_load(&cx, path, &labels) == QB_OK)
            look_at_labels(&labels);
        else if (labels.n > 0 || (cx.code != QB_STATUS_NOMEM && !strstr(cx.message, path)))
            abort();
    }
    qb_sidecar_release(&sidecar);
    qb_labels_release(&labels);
    close(fd);
    return 0;
}
