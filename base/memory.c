#include "memory.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginning of a small file of the system's, as text; false where there is none. */
static bool read_text(const char *path, char *text, size_t n) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t got = read(fd, text, n - 1);
    close(fd);
    if (got < 0) return false;
    text[got] = '\0';
    return true;
}

/* The limit that a file of a cgroup names; "max" is none. */
static size_t limit_in(const char *path) {
    char text[64];
    if (!read_text(path, text, sizeof text)) return SIZE_MAX;
    char *end;
    const unsigned long long limit = strtoull(text, &end, 10);
    return end == text || limit == 0 ? SIZE_MAX : (size_t)limit;
}

/* The least limit of the process's group and of those around it (version 2), or of the whole tree
 * that is seen (version 1). */
static size_t cgroup_limit(void) {
    static const char root[] = "/sys/fs/cgroup";
    char groups[4096], path[sizeof root + sizeof groups + 16];
    size_t least = limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    if (!read_text("/proc/self/cgroup", groups, sizeof groups)) return least;
    char *group = strstr(groups, "0::");
    if (!group || (group > groups && group[-1] != '\n')) return least;
    group += 3;
    group[strcspn(group, "\n")] = '\0';
    for (;;) {
        snprintf(path, sizeof path, "%s%s/memory.max", root, strcmp(group, "/") == 0 ? "" : group);
        const size_t limit = limit_in(path);
        if (limit < least) least = limit;
        char *last = strrchr(group, '/');
        if (!last) return least;
        *last = '\0';
    }
}

size_t qb_memory_total(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const size_t machine = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    const size_t limit = cgroup_limit();
    return limit < machine ? limit : machine;
}

size_t qb_memory_used(void) {
    char text[128];
    unsigned long long resident, shared;
    if (!read_text("/proc/self/statm", text, sizeof text) ||
        sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || resident < shared)
        return 0;
    return (size_t)(resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

bool qb_memory_parse(const char *text, size_t length, size_t *bytes) {
    char copy[32], *end;
    static const char letters[] = "BKMG";
    if (length == 0 || length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    const double value = strtod(copy, &end);
    int power = 2;
    if (end == copy) return false;
    if (*end) {
        const char *letter = strchr(letters, *end);
        if (!letter || end[1]) return false;
        power = (int)(letter - letters);
    }
    const double all = value * (double)(UINT64_C(1) << (10 * power));
    if (!(all >= 1) || all > 1e15) return false;
    *bytes = (size_t)all;
    return true;
}
