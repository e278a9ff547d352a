#include <stdio.h>
#include <unistd.h>

#include "cli/doctor/check.h"

#define ENOUGH_BYTES 1e9 /* calibration of large models, with room */

/* "MemAvailable:  123 kB": what can be had without swapping, caches included; 0: not told. */
static double available_bytes(void) {
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    double kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1) break;
    if (file) fclose(file);
    return 1024 * kib;
}

/* The number in a file of a control group; a negative one where there is none, or "max". */
static double group_bytes(const char *path) {
    FILE *file = fopen(path, "r");
    double bytes = -1;
    if (file && fscanf(file, "%lf", &bytes) != 1) bytes = -1;
    if (file) fclose(file);
    return bytes;
}

/* What a container may still take of the machine's memory. */
static double within_group(double available) {
    static const char *const files[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const double most = group_bytes(files[i][0]), used = group_bytes(files[i][1]);
        if (most < 0 || used < 0) continue;
        const double left = most > used ? most - used : 0;
        return left < available ? left : available;
    }
    return available;
}

static qb_status look(qb_ctx *cx, qb_finding *out) {
    const double page = (double)sysconf(_SC_PAGESIZE);
    const double total = page * (double)sysconf(_SC_PHYS_PAGES);
    const double told = available_bytes();
    const double available =
        within_group(told > 0 ? told : page * (double)sysconf(_SC_AVPHYS_PAGES));
    const bool enough = available >= ENOUGH_BYTES;
    return qb_found(cx, out, enough ? QB_FINDING_GOOD : QB_FINDING_NOTE,
                    enough ? NULL : "use small batches, or end what else runs here",
                    "%.1f GiB, %.1f GiB available", total / (1 << 30), available / (1 << 30));
}

const qb_check qb_check_memory = {"memory", look};
