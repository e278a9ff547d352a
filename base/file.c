#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 16 << 20 }; /* read between two looks whether the user asked to stop */

static qb_status read_chunks(qb_ctx *cx, const char *path, int fd, char *to, size_t size) {
    for (size_t at = 0; at < size;) {
        QB_TRY(qb_check_cancel(cx));
        const ssize_t got = read(fd, to + at, size - at < CHUNK ? size - at : CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return qb_fail_errno(cx, "read %s", path);
        if (got == 0)
            return qb_fail(cx, QB_STATUS_IO, "read %s: cut short to %zu of %zu bytes meanwhile",
                           path, at, size);
        at += (size_t)got;
    }
    return QB_OK;
}

static qb_status map_copy(qb_ctx *cx, const char *path, int fd, size_t size, void *copy) {
    QB_TRY(read_chunks(cx, path, fd, copy, size));
    return mprotect(copy, size, PROT_READ) == 0 ? QB_OK : qb_fail_errno(cx, "map %s", path);
}

static qb_status map_opened(qb_ctx *cx, const qb_opened *from, qb_map *out) {
    const size_t size = from->size;
    const bool copies = size <= QB_MAP_COPIED;
    qb_map map = {.size = size, .stored = from->stored};
    if (size > 0) {
        void *data =
            copies ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                   : mmap(NULL, size, PROT_READ, MAP_PRIVATE, from->fd, 0);
        if (data == MAP_FAILED) return qb_fail_errno(cx, "map %s (%zu bytes)", from->path, size);
        if (copies)
            (void)madvise(data, size, MADV_HUGEPAGE); /* a copy takes less than half the time */
        map.data = data;
        if (copies && map_copy(cx, from->path, from->fd, size, data) != QB_OK) {
            qb_map_close(&map);
            return cx->code;
        }
    }
    *out = map;
    return QB_OK;
}

static qb_status map_and_close(qb_ctx *cx, qb_opened *from, qb_map *out) {
    const qb_status status = map_opened(cx, from, out);
    qb_opened_close(from);
    return status;
}

qb_status qb_map_open(qb_ctx *cx, const char *path, qb_map *out) {
    qb_opened from;
    QB_TRY(qb_open_regular(cx, path, &from));
    return map_and_close(cx, &from, out);
}

qb_status qb_map_open_named(qb_ctx *cx, const qb_named *named, qb_map *out) {
    qb_opened from;
    QB_TRY(qb_open_named(cx, named, &from));
    return map_and_close(cx, &from, out);
}

void qb_map_close(qb_map *map) {
    /* The cast is for munmap, which takes a pointer to writable memory and does not write. */
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (qb_map){0};
}

/* Files of /proc say that they are empty: what comes counts, not what was said. */
static qb_status read_all(qb_ctx *cx, const qb_opened *from, size_t limit, char **data,
                          size_t *size) {
    const char *path = from->path;
    QB_FREED char *buffer = NULL;
    size_t capacity = 0, used = 0, expected = from->size;
    if (expected > limit)
        return qb_fail(cx, QB_STATUS_FORMAT, "read %s: %zu bytes, at most %zu are accepted", path,
                       expected, limit);
    expected = expected ? expected + 2 : 4096; /* one to see the end, one for the zero */
    for (;;) {
        size_t need = used + 2 > expected ? used + 2 : expected;
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(qb_grow(cx, &buffer, &capacity, need, 1));
        const size_t left = capacity - used - 1;
        ssize_t got = read(from->fd, buffer + used, left < CHUNK ? left : CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return qb_fail_errno(cx, "read %s", path);
        if (got == 0) break;
        used += (size_t)got;
        if (used > limit)
            return qb_fail(cx, QB_STATUS_FORMAT, "read %s: more than the accepted %zu bytes", path,
                           limit);
    }
    buffer[used] = '\0';
    *data = QB_MOVE(buffer);
    if (size) *size = used;
    return QB_OK;
}

static qb_status read_and_close(qb_ctx *cx, qb_opened *from, size_t limit, char **data,
                                size_t *size) {
    const qb_status status = read_all(cx, from, limit, data, size);
    qb_opened_close(from);
    return status;
}

static bool is_null_device(const char *path) {
    struct stat info, null;
    return stat(path, &info) == 0 && S_ISCHR(info.st_mode) && stat("/dev/null", &null) == 0 &&
           null.st_rdev == info.st_rdev;
}

qb_status qb_file_read(qb_ctx *cx, const char *path, size_t limit, char **data, size_t *size) {
    qb_opened from;
    if (is_null_device(path)) {
        if (size) *size = 0;
        *data = qb_strdup(cx, "");
        return *data ? QB_OK : cx->code;
    }
    QB_TRY(qb_open_regular(cx, path, &from));
    return read_and_close(cx, &from, limit, data, size);
}

qb_status qb_file_read_text(qb_ctx *cx, const char *path, size_t limit, char **text) {
    QB_FREED char *read = NULL;
    size_t size;
    QB_TRY(qb_file_read(cx, path, limit, &read, &size));
    if (memchr(read, '\0', size))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: not a text file: it has zero bytes", path);
    *text = QB_MOVE(read);
    return QB_OK;
}

qb_status qb_file_read_named(qb_ctx *cx, const qb_named *named, size_t limit, char **data,
                             size_t *size) {
    qb_opened from;
    QB_TRY(qb_open_named(cx, named, &from));
    return read_and_close(cx, &from, limit, data, size);
}
