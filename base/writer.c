/* The writers of file.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "file.h"

/* ---- temporary files ----
 *
 * They lie beside the target as ".TARGET.qbench-N.tmp". Their writer holds a lock on them (flock)
 * until they have their final name, so one that can be locked is left over from a writer that was
 * killed, and the next writer of the same target removes it. Where the file system knows no locks,
 * they stay and the next number is taken. */

static char *temp_name(qb_ctx *cx, const char *path, int number) {
    enum { BASE_MAX = 180 }; /* the whole must not be longer than a name may be */
    const char *base = qb_path_base(path);
    return qb_format(cx, "%.*s.%.*s.qbench-%d.tmp", (int)(base - path), path, BASE_MAX, base,
                     number);
}

static bool lock_file(int fd, int how) {
    int result;
    do result = flock(fd, how);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* Whether `name` is the file behind `fd` (still). */
static bool is_same(const char *name, int fd) {
    struct stat named, opened;
    return lstat(name, &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* Whether another writer took the file behind `fd` away; what cannot be looked at is still there.
 */
static bool is_taken(const char *name, int fd) {
    struct stat named, opened;
    if (lstat(name, &named) != 0) return errno == ENOENT;
    return fstat(fd, &opened) == 0 &&
           (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino);
}

/* True: there was one and it is gone. */
static bool remove_left_over(const char *name) {
    enum { FLAGS = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    int fd = open(name, O_RDWR | FLAGS); /* NFS locks only what may be written */
    if (fd < 0) fd = open(name, O_RDONLY | FLAGS);
    if (fd < 0) return false;
    const bool removed = lock_file(fd, LOCK_EX | LOCK_NB) && is_same(name, fd) && unlink(name) == 0;
    close(fd);
    return removed;
}

/* A new file of this name, locked; EEXIST when somebody else has one. What replaces an old file is
 * nobody else's to read before it has the rights of that one. */
static int create_locked(const char *name, bool replaces) {
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
    if (fd < 0) return -1;
    /* Before it was locked, another writer may have taken it for left over. */
    if (!lock_file(fd, LOCK_EX) || !is_taken(name, fd)) return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

/* Several writers that were killed at once left several. */
static qb_status remove_from(qb_ctx *cx, const char *path, int number) {
    for (bool more = true; more; number++) {
        char *name = QB_NEW(cx, temp_name(cx, path, number));
        more = remove_left_over(name);
        qb_free(name);
    }
    return QB_OK;
}

static qb_status create_temp(qb_ctx *cx, const char *path, bool replaces, qb_writer *writer) {
    enum { ATTEMPTS = 1000 };
    for (int number = 0; number < ATTEMPTS; number++) {
        char *name = QB_NEW(cx, temp_name(cx, path, number));
        remove_left_over(name);
        const int fd = create_locked(name, replaces);
        if (fd >= 0) {
            writer->temp = name;
            writer->lock = fd;
            return remove_from(cx, path, number + 1);
        }
        const bool taken = errno == EEXIST;
        if (!taken) qb_fail_errno(cx, "write %s", path);
        qb_free(name);
        if (!taken) return cx->code;
    }
    return qb_fail(cx, QB_STATUS_IO, "write %s: no free temporary name after %d attempts", path,
                   ATTEMPTS);
}

/* ---- open ---- */

/* The one of the process's own outputs that a file is (/dev/stdout, wherever that leads); -1: none.
 */
static int own_output(const struct stat *info) {
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &own) == 0 && own.st_dev == info->st_dev && own.st_ino == info->st_ino)
            return fd;
    return -1;
}

/* A device or pipe, or an own output, is written directly: renaming a file over it would destroy
 * it. */
static bool is_special(const char *path, const struct stat *info) {
    struct stat link;
    if (S_ISDIR(info->st_mode)) return false;
    /* A link in a folder of data does not choose a device. */
    const bool system = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    if (!system && lstat(path, &link) == 0 && S_ISLNK(link.st_mode)) return false;
    return !S_ISREG(info->st_mode) || own_output(info) >= 0;
}

/* Waits a little for the reader of a pipe, not for ever. */
static int open_device(const char *path) {
    enum { ATTEMPTS = 100, PAUSE_NS = 10000000 };
    int fd = -1;
    for (int i = 0; fd < 0 && i < ATTEMPTS; i++) {
        const struct timespec pause = {0, i > 0 ? PAUSE_NS : 0};
        nanosleep(&pause, NULL);
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 && errno != ENXIO) return -1; /* ENXIO: nobody reads yet */
    }
    const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags >= 0) (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return fd;
}

static qb_status open_special(qb_ctx *cx, const char *path, const struct stat *info,
                              qb_writer *writer) {
    const int own = own_output(info);
    QB_TRY_NEW(cx, writer->path = qb_strdup(cx, path));
    if (own >= 0) fflush(own == STDOUT_FILENO ? stdout : stderr);
    const int to = own < 0 ? open_device(path) : fcntl(own, F_DUPFD_CLOEXEC, 0);
    writer->stream = to < 0 ? NULL : fdopen(to, "w");
    if (writer->stream) return QB_OK;
    qb_fail_errno(cx, "write %s", path);
    if (to >= 0) close(to);
    return cx->code;
}

/* `old`: the file that is replaced; NULL: none. */
static qb_status open_regular(qb_ctx *cx, const char *path, const struct stat *old,
                              qb_writer *writer) {
    QB_TRY_NEW(cx, writer->path = qb_strdup(cx, path));
    if (old) writer->rights = old->st_mode & 0777;
    QB_TRY(create_temp(cx, writer->path, old, writer));
    /* Closing the stream must not end the lock. */
    const int own = fcntl(writer->lock, F_DUPFD_CLOEXEC, 0);
    writer->stream = own >= 0 ? fdopen(own, "w") : NULL;
    if (writer->stream) return QB_OK;
    qb_fail_errno(cx, "write %s", path);
    if (own >= 0) close(own);
    return cx->code;
}

qb_status qb_writer_open(qb_ctx *cx, const char *path, qb_writer *out) {
    qb_writer writer = {0};
    struct stat info;
    qb_status status;
    const bool exists = stat(path, &info) == 0;
    if (*path == '\0') {
        status = qb_fail(cx, QB_STATUS_INVALID, "write: expected a file name, got \"\"");
    } else if (!exists && errno == ENAMETOOLONG) { /* the temporary name may be shorter */
        status = qb_fail_errno(cx, "write %s", path);
    } else if (exists && S_ISDIR(info.st_mode)) {
        status = qb_fail(cx, QB_STATUS_IO, "write %s: expected a file, got a directory", path);
    } else if (exists && is_special(path, &info)) {
        status = open_special(cx, path, &info, &writer);
    } else {
        const bool replaces = lstat(path, &info) == 0 && S_ISREG(info.st_mode);
        status = open_regular(cx, path, replaces ? &info : NULL, &writer);
    }
    if (status != QB_OK) {
        qb_writer_abort(&writer);
        return status;
    }
    *out = writer;
    return QB_OK;
}

/* ---- close ---- */

int qb_stream_error(FILE *stream) {
    errno = 0;
    if (fflush(stream) == 0 && !ferror(stream)) return 0;
    if (errno == 0) (void)!write(fileno(stream), "", 1);
    return errno ? errno : EIO;
}

/* Flushes down to the disk (scratch files: to the system) and closes the stream. */
static qb_status finish_stream(qb_ctx *cx, qb_writer *writer) {
    int error = qb_stream_error(writer->stream);
    if (!error && writer->temp && !writer->scratch && fsync(fileno(writer->stream)) != 0)
        error = errno;
    if (fclose(writer->stream) != 0 && !error) error = errno;
    writer->stream = NULL;
    errno = error;
    return error ? qb_fail_errno(cx, "write %s", writer->path) : QB_OK;
}

/* A new name in a folder reaches the disk. */
static qb_status sync_folder(qb_ctx *cx, const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0) return qb_fail_errno(cx, "sync %s", path);
    /* Some file systems cannot sync a folder; there is nothing better to be done on them. */
    const bool failed = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
    if (failed) qb_fail_errno(cx, "sync %s", path);
    close(fd);
    return failed ? cx->code : QB_OK;
}

/* Puts the finished file in the place of the old one, with the rights of that one. Locks may be
 * known to one host alone: what another one took for left over, and replaced, is not ours. */
static qb_status place(qb_ctx *cx, qb_writer *writer) {
    struct stat old;
    if (lstat(writer->path, &old) == 0 && S_ISREG(old.st_mode)) writer->rights = old.st_mode & 0777;
    if (writer->rights) (void)fchmod(writer->lock, writer->rights); /* best effort, as with umask */
    if (qb_path_exists(writer->temp) && !is_same(writer->temp, writer->lock))
        return qb_fail(cx, QB_STATUS_IO, "write %s: another program took %s away", writer->path,
                       writer->temp);
    if (rename(writer->temp, writer->path) != 0)
        return qb_fail_errno(cx, "rename %s to %s", writer->temp, writer->path);
    close(writer->lock);
    qb_free(QB_MOVE(writer->temp));
    return QB_OK;
}

qb_status qb_writer_commit(qb_ctx *cx, qb_writer *writer) {
    qb_status status = QB_OK;
    char *folder = qb_path_dir(cx, writer->path);
    if (!folder) QB_GO(cx->code);
    QB_GO(finish_stream(cx, writer));
    if (writer->temp) {
        QB_GO(place(cx, writer));
        if (!writer->scratch) QB_GO(sync_folder(cx, folder));
    }
out:
    qb_free(folder);
    qb_writer_abort(writer); /* removes what was not placed, releases the names */
    return status;
}

void qb_writer_abort(qb_writer *writer) {
    if (writer->stream) fclose(writer->stream);
    if (writer->temp) {
        if (is_same(writer->temp, writer->lock)) unlink(writer->temp);
        close(writer->lock);
    }
    QB_FREE_ALL(writer->temp, writer->path);
    *writer = (qb_writer){0};
}

qb_status qb_file_write(qb_ctx *cx, const char *path, const void *data, size_t size) {
    qb_writer writer;
    QB_TRY(qb_writer_open(cx, path, &writer));
    if (size) fwrite(data, 1, size, writer.stream);
    return qb_writer_commit(cx, &writer); /* looks whether all could be written */
}

qb_status qb_file_can_write(qb_ctx *cx, const char *path) {
    struct stat info;
    QB_RELEASED(qb_writer_abort) qb_writer writer = {0};
    /* Opening a pipe would already be noticed at its other end. */
    if (stat(path, &info) == 0 && is_special(path, &info)) return QB_OK;
    QB_TRY(qb_writer_open(cx, path, &writer));
    return QB_OK;
}
