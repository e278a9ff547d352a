/* Preloaded: a file that is mapped, and whose path ends in $CUT_FILE, is cut to a page right then,
 * as somebody else might do. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *mmap(void *at, size_t size, int rights, int flags, int fd, off_t from) {
    void *data = (void *)syscall(SYS_mmap, at, size, rights, flags, fd, from);
    const char *wanted = getenv("CUT_FILE");
    char link[64], path[4096];
    if (fd < 0 || !wanted || data == MAP_FAILED) return data;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    const size_t tail = strlen(wanted);
    if (n < (ssize_t)tail || memcmp(path + n - tail, wanted, tail) != 0) return data;
    path[n] = '\0';
    if (truncate(path, 4096) != 0) abort();
    return data;
}
