/* The path helpers of file.h. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

bool qb_path_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool qb_path_is_absent(const char *path) {
    struct stat info;
    return stat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

int64_t qb_file_bytes(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

bool qb_path_is_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool qb_path_is_dir(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static qb_status make_dir(qb_ctx *cx, const char *path) {
    if (mkdir(path, 0777) == 0) return QB_OK;
    int error = errno;
    if (qb_path_is_dir(path)) return QB_OK; /* whatever the reason: it is there */
    if (error == EEXIST)
        return qb_fail(cx, QB_STATUS_IO, "make folder %s: there is a file of that name", path);
    errno = error;
    return qb_fail_errno(cx, "make folder %s", path);
}

qb_status qb_make_dirs(qb_ctx *cx, const char *path) {
    QB_FREED char *copy = QB_NEW(cx, qb_strdup(cx, path));
    for (char *p = copy; *p; p++) {
        if (*p != '/' || p == copy || p[-1] == '/') continue;
        *p = '\0';
        QB_TRY(make_dir(cx, copy));
        *p = '/';
    }
    return *copy ? make_dir(cx, copy) : QB_OK;
}

/* Cuts the last name off; false: there is no other. */
static bool cut_last(char *path) {
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    while (n > 0 && path[n - 1] == '/') n--;
    path[n] = '\0';
    return n > 0;
}

int qb_missing_dirs(const char *path) {
    char copy[PATH_MAX];
    int n = 0;
    if (strlen(path) >= sizeof copy) return 0;
    strcpy(copy, path);
    if (!*copy) return 0;
    do {
        if (qb_path_exists(copy)) return n;
        n++;
    } while (cut_last(copy));
    return n;
}

void qb_remove_empty_dirs(const char *path, int n) {
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof copy) return;
    strcpy(copy, path);
    while (n-- > 0 && rmdir(copy) == 0 && cut_last(copy)) continue;
}

qb_status qb_make_own_dir(qb_ctx *cx, const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return qb_fail(cx, QB_STATUS_IO,
                       "make folder %s: there is a link of that name, through which nothing is "
                       "written: remove it",
                       path);
    return qb_make_dirs(cx, path);
}

char *qb_path_join(qb_ctx *cx, const char *folder, const char *name) {
    if (!folder || !*folder || *name == '/') return qb_strdup(cx, name);
    bool slash = folder[strlen(folder) - 1] == '/';
    return qb_format(cx, "%s%s%s", folder, slash ? "" : "/", name);
}

const char *qb_path_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *qb_path_dir(qb_ctx *cx, const char *path) {
    size_t n = (size_t)(qb_path_base(path) - path);
    if (n == 0) return qb_strdup(cx, ".");
    while (n > 1 && path[n - 1] == '/') n--;
    return qb_format(cx, "%.*s", (int)n, path);
}

char *qb_path_stem(qb_ctx *cx, const char *path) {
    const char *base = qb_path_base(path);
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    return qb_format(cx, "%.*s", (int)n, base);
}

bool qb_has_suffix(const char *text, const char *suffix) {
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}
