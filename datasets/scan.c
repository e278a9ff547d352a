/* Folder listings. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sort.h"
#include "datasets_internal.h"

static bool ends_in(const char *name, const char *const *suffixes) {
    const size_t n = strlen(name);
    for (; *suffixes; suffixes++) {
        const size_t k = strlen(*suffixes);
        if (n > k && strcasecmp(name + n - k, *suffixes) == 0) return true;
    }
    return false;
}

bool qb_name_is_image(const char *name) {
    static const char *const suffixes[] = {".jpg", ".jpeg", ".jfif", ".png", NULL};
    return ends_in(name, suffixes);
}

static bool is_other_image(const char *name) {
    static const char *const suffixes[] = {".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif",
                                           ".heic", ".jp2", ".jxl", ".ppm", ".tga",  NULL};
    return name[0] != '.' && ends_in(name, suffixes);
}

/* Hidden entries are never samples. Links count as what they point to; one that leads nowhere, a
 * FIFO or a device has a file's name: whoever opens it says what is wrong, here it would be left
 * out in silence. */
static bool is_wanted(DIR *dir, const struct dirent *entry, qb_scan_kind kind) {
    if (entry->d_name[0] == '.') return false;
    if (kind == QB_SCAN_IMAGES && !qb_name_is_image(entry->d_name)) return false;
    if (kind == QB_SCAN_TENSORS && !qb_name_is_tensor(entry->d_name)) return false;
    if (kind == QB_SCAN_TEXTS && !qb_has_suffix(entry->d_name, ".txt")) return false;
    if (entry->d_type == DT_DIR) return kind == QB_SCAN_FOLDERS;
    if (entry->d_type == DT_REG) return kind != QB_SCAN_FOLDERS;
    struct stat info;
    const bool is_dir = fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
    return kind == QB_SCAN_FOLDERS ? is_dir : !is_dir;
}

static qb_status add_name(qb_ctx *cx, qb_arena *arena, const char *text, qb_names *names) {
    if (names->n >= QB_SAMPLES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %zu entries", QB_SAMPLES_MAX);
    QB_TRY(qb_grow(cx, &names->name, &names->capacity, names->n + 1, sizeof *names->name));
    const char *copy = QB_NEW(cx, qb_arena_strdup(cx, arena, text));
    names->name[names->n++] = copy;
    return QB_OK;
}

static qb_status add_entry(qb_ctx *cx, const char *folder, DIR *dir, const struct dirent *entry,
                           qb_scan_kind kind, qb_arena *arena, qb_names *names) {
    if (is_wanted(dir, entry, kind)) return add_name(cx, arena, entry->d_name, names);
    if ((kind == QB_SCAN_IMAGES || kind == QB_SCAN_TENSORS) &&
        is_wanted(dir, entry, QB_SCAN_FOLDERS)) {
        if (names->n_inner++ > 0) return QB_OK;
        names->inner = qb_arena_format(cx, arena, "%s/%s", qb_path_base(folder), entry->d_name);
        return names->inner ? QB_OK : cx->code;
    }
    if (kind != QB_SCAN_IMAGES || !is_other_image(entry->d_name)) return QB_OK;
    if (names->n_other++ > 0) return QB_OK;
    names->other = qb_arena_strdup(cx, arena, entry->d_name);
    return names->other ? QB_OK : cx->code;
}

void qb_scan_tell_others(qb_ctx *cx, const qb_dataset *dataset, const qb_names *names) {
    if (names->n_other > 0)
        qb_warn(cx,
                "data %s: %zu file%s left out, as images other than JPEG and PNG are not read (%s)",
                dataset->path, names->n_other, names->n_other == 1 ? " is" : "s are", names->other);
}

qb_status qb_scan_folder(qb_ctx *cx, const char *folder, qb_scan_kind kind, qb_arena *arena,
                         qb_names *names) {
    names->n = 0;
    QB_RELEASED(qb_dir_close) DIR *dir = opendir(folder);
    if (!dir) return qb_fail_errno(cx, "read folder %s", folder);
    const struct dirent *entry;
    while (errno = 0, (entry = readdir(dir)))
        QB_TRY(add_entry(cx, folder, dir, entry, kind, arena, names));
    if (errno != 0) return qb_fail_errno(cx, "read folder %s", folder);
    if (names->n > 1) qsort(names->name, names->n, sizeof *names->name, qb_by_text);
    return QB_OK;
}

/* Closes `dir`, which may be NULL. */
static bool any_in(DIR *dir, qb_scan_kind kind) {
    QB_RELEASED(qb_dir_close) DIR *own = dir;
    for (const struct dirent *entry; own && (entry = readdir(own));)
        if (is_wanted(own, entry, kind)) return true;
    return false;
}

bool qb_scan_any(const char *folder, qb_scan_kind kind) { return any_in(opendir(folder), kind); }

bool qb_scan_any_nested(const char *folder, qb_scan_kind kind) {
    QB_RELEASED(qb_dir_close) DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_wanted(dir, entry, QB_SCAN_FOLDERS)) continue;
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *inner = fd < 0 ? NULL : fdopendir(fd);
        if (fd >= 0 && !inner) close(fd);
        if (any_in(inner, kind)) return true;
    }
    return false;
}
