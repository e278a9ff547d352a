#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

qb_status qb_map_open(qb_ctx *cx, const char *path, qb_map *out) {
    qb_status status = QB_OK;
    struct stat info;
    /* Not blocking: a FIFO in the place of a file must be an error, not a hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return qb_fail_errno(cx, "open %s", path);
    if (fstat(fd, &info) != 0) QB_GO(qb_fail_errno(cx, "stat %s", path));
    if (!S_ISREG(info.st_mode))
        QB_GO(qb_fail(cx, QB_STATUS_IO, "open %s: expected a regular file, got a %s", path,
                      S_ISDIR(info.st_mode) ? "directory" : "special file"));
    qb_map map = {NULL, (size_t)info.st_size};
    if (map.size > 0) {
        void *data = mmap(NULL, map.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) QB_GO(qb_fail_errno(cx, "map %s (%zu bytes)", path, map.size));
        map.data = data;
    }
    *out = map;
out:
    close(fd);
    return status;
}

void qb_map_close(qb_map *map) {
    /* The cast is for munmap, which takes a pointer to writable memory and does not write. */
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (qb_map){0};
}

static qb_status read_all(qb_ctx *cx, const char *path, int fd, size_t limit, char **data,
                          size_t *size) {
    char *buffer = NULL;
    size_t capacity = 0, used = 0;
    struct stat info;
    size_t expected = 4096;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        if ((size_t)info.st_size > limit)
            return qb_fail(cx, QB_STATUS_FORMAT, "read %s: %lld bytes, at most %zu are accepted",
                           path, (long long)info.st_size, limit);
        expected = (size_t)info.st_size + 2; /* one to see the end, one for the zero */
    }
    qb_status status = QB_OK;
    for (;;) {
        size_t need = used + 2 > expected ? used + 2 : expected;
        QB_GO(qb_grow(cx, &buffer, &capacity, need, 1));
        ssize_t got = read(fd, buffer + used, capacity - used - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) QB_GO(qb_fail_errno(cx, "read %s", path));
        if (got == 0) break;
        used += (size_t)got;
        if (used > limit)
            QB_GO(qb_fail(cx, QB_STATUS_FORMAT, "read %s: more than the accepted %zu bytes", path,
                          limit));
    }
    buffer[used] = '\0';
    *data = buffer;
    if (size) *size = used;
    return QB_OK;
out:
    qb_free(buffer);
    return status;
}

qb_status qb_file_read(qb_ctx *cx, const char *path, size_t limit, char **data, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return qb_fail_errno(cx, "open %s", path);
    qb_status status = read_all(cx, path, fd, limit, data, size);
    close(fd);
    return status;
}
