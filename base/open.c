#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base_internal.h"

enum { READING = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static const char *kind_text(mode_t mode) {
    return S_ISDIR(mode)    ? "directory"
           : S_ISFIFO(mode) ? "FIFO"
           : S_ISSOCK(mode) ? "socket"
                            : "device";
}

void qb_opened_close(qb_opened *opened) {
    if (opened->fd >= 0) close(opened->fd);
    qb_free(opened->path);
    *opened = (qb_opened){.fd = -1};
}

/* Takes the descriptor over, and closes it on failure. */
static qb_status take(qb_ctx *cx, const char *path, int fd, struct stat *info, qb_opened *out) {
    QB_RELEASED(qb_opened_close) qb_opened opened = {.fd = fd, .path = qb_strdup(cx, path)};
    if (!opened.path) return cx->code;
    if (fstat(fd, info) != 0) return qb_fail_errno(cx, "stat %s", path);
    if (!S_ISREG(info->st_mode))
        return qb_fail(cx, QB_STATUS_IO, "open %s: expected a regular file, got a %s", path,
                       kind_text(info->st_mode));
    opened.size = (size_t)info->st_size;
    opened.stored = (size_t)info->st_blocks * 512;
    *out = opened;
    opened = (qb_opened){.fd = -1};
    return QB_OK;
}

qb_status qb_open_regular(qb_ctx *cx, const char *path, qb_opened *out) {
    struct stat info;
    const int fd = open(path, READING);
    return fd < 0 ? qb_fail_errno(cx, "open %s", path) : take(cx, path, fd, &info, out);
}

/* ---- where a named file may lie ---- */

/* What a folder and a name are once links are followed; NULL with errno. Free with free(). */
static char *canonical(const char *path) { return realpath(path, NULL); }

/* What follows `root` in `path`, both canonical; NULL: it does not lie below. */
static const char *below(const char *root, const char *path) {
    const size_t n = strlen(root);
    if (strncmp(root, path, n) != 0) return NULL;
    if (n > 0 && root[n - 1] == '/') return path + n; /* "/" */
    return path[n] == '/' ? path + n + 1 : NULL;
}

bool qb_named_is_inside(const qb_named *named) {
    const char *name = named->name;
    if (!*name || *name == '/') return false;
    for (const char *part = name; part;) {
        const char *slash = strchr(part, '/');
        if (strcspn(part, "/") == 2 && memcmp(part, "..", 2) == 0) return false;
        part = slash ? slash + 1 : NULL;
    }
    return true;
}

/* Cuts a canonical path to the folder that it lies in. */
static void to_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = '\0';
}

/* ".../NAME/snapshots/REVISION[/...]" becomes ".../NAME/blobs": where a Hugging Face cache keeps
 * the files that a snapshot links to. */
static bool to_blobs(char *folder) {
    static const char mark[] = "/snapshots/";
    char *at = strstr(folder, mark);
    for (char *next; at && (next = strstr(at + 1, mark));) at = next;
    if (!at) return false;
    memcpy(at, "/blobs", sizeof "/blobs");
    return true;
}

typedef enum root_kind { ROOT_FOLDER, ROOT_OWN, ROOT_BLOBS, ROOT_KINDS } root_kind;

/* One of the folders that belong to the naming file; NULL: there is none. Free with free(). */
static char *root_of(const char *by, const char *folder, root_kind kind) {
    if (kind == ROOT_OWN) {
        char *own = canonical(by);
        if (own && !qb_path_is_dir(own)) to_folder(own);
        return own;
    }
    char *root = canonical(folder);
    if (root && kind == ROOT_BLOBS && !to_blobs(root)) free(QB_MOVE(root));
    return root;
}

/* The root below which `path` lies and, in *rest, how it goes on from there; NULL: below none. */
static char *find_root(const qb_ctx *cx, const char *by, const char *folder, bool plain,
                       const char *path, const char **rest, bool *trusted) {
    char *root = NULL;
    *trusted = false;
    for (int kind = 0; plain && kind < ROOT_KINDS; kind++) {
        root = root_of(by, folder, (root_kind)kind);
        if (root && (*rest = below(root, path))) return root;
        free(root);
    }
    *trusted = true;
    for (int i = 0; i < cx->n_outside; i++) {
        root = canonical(cx->outside[i]);
        if (root && strcmp(root, path) == 0) to_folder(root); /* the file itself was allowed */
        if (root && (*rest = below(root, path))) return root;
        free(root);
    }
    return NULL;
}

/* ---- opening it ---- */

int qb_open_walk(int root, const char *path) {
    int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
    char part[NAME_MAX + 1];
    while (at >= 0) {
        const size_t n = strcspn(path, "/");
        const bool last = path[n] == '\0';
        int next = -1;
        if (n > NAME_MAX || n == 0) {
            errno = n ? ENAMETOOLONG : EINVAL;
        } else {
            memcpy(part, path, n);
            part[n] = '\0';
            next = openat(at, part, O_NOFOLLOW | READING | (last ? 0 : O_DIRECTORY));
        }
        const int error = errno;
        close(at);
        errno = error;
        if (last || next < 0) return next;
        at = next;
        path += n + 1;
    }
    return -1;
}

/* `path` has neither links nor ".." any more; what was changed meanwhile fails. */
static int open_below(const char *root, const char *path) {
    const struct open_how how = {
        .flags = READING, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    const int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -1;
    long fd = syscall(SYS_openat2, folder, path, &how, sizeof how);
    /* EPERM: a sandbox that knows no openat2. */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) fd = qb_open_walk(folder, path);
    const int error = errno;
    close(folder);
    errno = error;
    return (int)fd;
}

static qb_status refuse(qb_ctx *cx, const qb_named *named, bool plain, const char *at) {
    if (!plain)
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "'%s': expected a relative path inside %s folder (--allow-outside PATH lets "
                       "files in that folder be named)",
                       named->name, named->whose);
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "'%s' is a link to %s, which is not inside %s folder: copy it there, or give "
                   "--allow-outside %s",
                   named->name, at, named->whose, at);
}

/* `real`: where the name leads. */
static qb_status open_at(qb_ctx *cx, const qb_named *named, const char *path, const char *real,
                         const char *folder, qb_opened *out) {
    const bool plain = qb_named_is_inside(named);
    const char *rest;
    bool trusted;
    struct stat info;
    char *root = find_root(cx, named->by, folder, plain, real, &rest, &trusted);
    if (!root) return refuse(cx, named, plain, real);
    const int fd = open_below(root, rest);
    free(root);
    if (fd < 0) return qb_fail_errno(cx, "open %s", path);
    QB_TRY(take(cx, path, fd, &info, out));
    if (info.st_nlink <= 1 || trusted) return QB_OK;
    qb_opened_close(out);
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "%s has %llu names (hard links), and the others may be outside %s folder: copy "
                   "it, or give --allow-outside %s",
                   path, (unsigned long long)info.st_nlink, named->whose, path);
}

qb_status qb_open_named(qb_ctx *cx, const qb_named *named, qb_opened *out) {
    char *folder = NULL, *path = NULL, *real = NULL;
    qb_status status = QB_OK;
    if (!*named->name || (!qb_named_is_inside(named) && cx->n_outside == 0))
        return refuse(cx, named, false, NULL); /* not even whether it is there */
    folder = qb_path_dir(cx, named->by);
    QB_GO_NEW(cx, path = folder ? qb_path_join(cx, folder, named->name) : NULL);
    real = canonical(path);
    if (!real) QB_GO(qb_fail_errno(cx, "open %s", path));
    if (qb_path_is_dir(real)) /* perhaps the folder itself, as "." */
        QB_GO(qb_fail(cx, QB_STATUS_IO, "open %s: expected a regular file, got a directory", path));
    QB_GO(open_at(cx, named, path, real, folder, out));
out:
    free(real);
    QB_FREE_ALL(path, folder);
    return status;
}
