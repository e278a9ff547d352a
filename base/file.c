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

/* ---- writers ---- */

/* Creates a file next to `path` under a name that nobody else uses, and gives it the rights of the
 * file that it is going to replace. */
static qb_status create_temp(qb_ctx *cx, const char *path, const struct stat *old, char **temp,
                             int *fd_out) {
    enum { ATTEMPTS = 1000, BASE_MAX = 180 };
    const char *base = qb_path_base(path);
    int folder = (int)(base - path);
    for (int i = 0; i < ATTEMPTS; i++) {
        char *name =
            qb_format(cx, "%.*s.%.*s.%ld-%d.tmp", folder, path, BASE_MAX, base, (long)getpid(), i);
        if (!name) return cx->code;
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            if (old) (void)fchmod(fd, old->st_mode & 0777); /* best effort, as with umask */
            *temp = name;
            *fd_out = fd;
            return QB_OK;
        }
        bool taken = errno == EEXIST;
        if (!taken) qb_fail_errno(cx, "write %s", path);
        qb_free(name);
        if (!taken) return cx->code;
    }
    return qb_fail(cx, QB_STATUS_IO, "write %s: no free temporary name after %d attempts", path,
                   ATTEMPTS);
}

/* A device or pipe (/dev/null, /dev/stdout) is written directly: renaming a file over it would
 * destroy it. */
static qb_status open_special(qb_ctx *cx, const char *path, bool stream, qb_writer *writer) {
    if (!stream) return qb_fail(cx, QB_STATUS_INVALID, "write %s: expected a regular file", path);
    writer->path = qb_strdup(cx, path);
    if (!writer->path) return cx->code;
    writer->stream = fopen(path, "we");
    return writer->stream ? QB_OK : qb_fail_errno(cx, "write %s", path);
}

static qb_status open_regular(qb_ctx *cx, const char *path, const struct stat *old, bool stream,
                              qb_writer *writer) {
    char *target = old ? realpath(path, NULL) : NULL; /* a link stays, its target is replaced */
    writer->path = qb_strdup(cx, target ? target : path);
    free(target);
    if (!writer->path) return cx->code;
    int fd = -1;
    QB_TRY(create_temp(cx, writer->path, old, &writer->temp, &fd));
    if (stream) {
        writer->stream = fdopen(fd, "w");
        if (writer->stream) return QB_OK;
        qb_fail_errno(cx, "write %s", path);
        close(fd);
        return cx->code;
    }
    close(fd);
    return QB_OK;
}

qb_status qb_writer_open(qb_ctx *cx, const char *path, bool stream, qb_writer *out) {
    qb_writer writer = {0};
    struct stat info;
    qb_status status;
    bool exists = stat(path, &info) == 0;
    if (*path == '\0') {
        status = qb_fail(cx, QB_STATUS_INVALID, "write: expected a file name, got \"\"");
    } else if (exists && S_ISDIR(info.st_mode)) {
        status = qb_fail(cx, QB_STATUS_IO, "write %s: expected a file, got a directory", path);
    } else if (exists && !S_ISREG(info.st_mode)) {
        status = open_special(cx, path, stream, &writer);
    } else {
        status = open_regular(cx, path, exists ? &info : NULL, stream, &writer);
    }
    if (status != QB_OK) {
        qb_writer_abort(&writer);
        return status;
    }
    *out = writer;
    return QB_OK;
}

/* Flushes down to the disk (scratch files: to the system) and closes the stream. */
static qb_status finish_stream(qb_ctx *cx, qb_writer *writer) {
    errno = 0;
    bool failed = fflush(writer->stream) != 0 || ferror(writer->stream);
    if (!failed && writer->temp && !writer->scratch) failed = fsync(fileno(writer->stream)) != 0;
    int error = errno;
    if (fclose(writer->stream) != 0 && !failed) {
        failed = true;
        error = errno;
    }
    writer->stream = NULL;
    errno = error ? error : EIO; /* an error of an earlier write has lost its errno */
    return failed ? qb_fail_errno(cx, "write %s", writer->path) : QB_OK;
}

static qb_status sync_path(qb_ctx *cx, const char *path, int flags) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) return qb_fail_errno(cx, "sync %s", path);
    /* Some file systems cannot sync a folder; there is nothing better to be done on them. */
    bool failed = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
    if (failed) qb_fail_errno(cx, "sync %s", path);
    close(fd);
    return failed ? cx->code : QB_OK;
}

qb_status qb_writer_commit(qb_ctx *cx, qb_writer *writer) {
    qb_status status = QB_OK;
    char *folder = NULL;
    if (writer->stream)
        QB_GO(finish_stream(cx, writer));
    else if (!writer->scratch)
        QB_GO(sync_path(cx, writer->temp, 0));
    if (writer->temp) {
        folder = qb_path_dir(cx, writer->path);
        if (!folder) QB_GO(cx->code);
        if (rename(writer->temp, writer->path) != 0)
            QB_GO(qb_fail_errno(cx, "rename %s to %s", writer->temp, writer->path));
        qb_free(writer->temp);
        writer->temp = NULL;
        if (!writer->scratch) QB_GO(sync_path(cx, folder, O_DIRECTORY));
    }
out:
    qb_free(folder);
    qb_writer_abort(writer); /* removes what was not renamed, releases the names */
    return status;
}

void qb_writer_abort(qb_writer *writer) {
    if (writer->stream) fclose(writer->stream);
    if (writer->temp) unlink(writer->temp);
    qb_free(writer->temp);
    qb_free(writer->path);
    *writer = (qb_writer){0};
}

qb_status qb_file_write(qb_ctx *cx, const char *path, const void *data, size_t size) {
    qb_writer writer;
    QB_TRY(qb_writer_open(cx, path, true, &writer));
    if (size && fwrite(data, 1, size, writer.stream) != size) {
        qb_fail_errno(cx, "write %s", path);
        qb_writer_abort(&writer);
        return cx->code;
    }
    return qb_writer_commit(cx, &writer);
}
