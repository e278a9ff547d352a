#include "cli/calib/ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

#define MODULE "qbench_mpi.so"

/* What the launchers of Open MPI, MPICH (Hydra) and Slurm's PMI tell the processes they start. */
static int32_t processes(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text) return (int32_t)strtol(text, NULL, 10);
    }
    return 1;
}

/* Beside the program (where it was built), else in ../lib/qbench (where it was installed). */
static char *module_path(qb_ctx *cx) {
    char program[4096];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) {
        qb_fail_errno(cx, "/proc/self/exe");
        return NULL;
    }
    program[n] = '\0';
    QB_FREED char *folder = qb_path_dir(cx, program);
    char *path = folder ? qb_path_join(cx, folder, MODULE) : NULL;
    if (path && !qb_path_exists(path)) {
        qb_free(path);
        path = qb_path_join(cx, folder, "../lib/qbench/" MODULE);
    }
    return path;
}

static qb_status load(qb_ctx *cx, const char *path, qb_ranks *out) {
    if (!qb_path_exists(path))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "started by mpirun, but this build has no MPI (%s): install libopenmpi-dev "
                       "and build again, or use --shard and 'qbench calib merge'",
                       path);
    /* Open MPI's own plug-ins look for its symbols among the global ones. It stays loaded. */
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!module) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s", dlerror());
    qb_ranks_start_fn start;
    *(void **)&start = dlsym(module, QB_RANKS_START);
    if (!start) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s", dlerror());
    if (start(out) != 0) return qb_fail(cx, QB_STATUS_IO, "MPI could not be started");
    return QB_OK;
}

qb_status qb_ranks_join(qb_ctx *cx, qb_ranks *out) {
    *out = (qb_ranks){.size = 1};
    if (processes() < 2) return QB_OK;
    char *path = QB_NEW(cx, module_path(cx));
    qb_status status = load(cx, path, out);
    qb_free(path);
    if (out->rank > 0 && cx->log) cx->log->quiet = true;
    if (out->rank > 0 && cx->log && cx->log->level > QB_LEVEL_WARN) cx->log->level = QB_LEVEL_WARN;
    return status;
}

qb_status qb_shard_parse(qb_ctx *cx, const char *text, int32_t most, int32_t *shard,
                         int32_t *shards) {
    int n = 0;
    if (!text) return QB_OK;
    if (sscanf(text, "%6d/%6d%n", shard, shards, &n) == 2 && text[n] == '\0' && *shard >= 1 &&
        *shard <= *shards && *shards <= most)
        return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE, "--shard %s: expected I/N with 1 <= I <= N <= %d", text,
                   (int)most);
}

void qb_ranks_leave(const qb_ranks *ranks) {
    if (ranks->finish) ranks->finish();
}
