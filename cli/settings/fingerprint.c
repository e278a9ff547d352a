#include "cli/settings/fingerprint.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "datasets/shards.h"

#define DEPTH_MAX 16               /* folders in folders; links in circles end here */
#define LIST_MAX ((size_t)1 << 30) /* bytes of a list file */

static void add_stat(qb_hasher *hasher, const char *name, const struct stat *info) {
    const int64_t facts[3] = {info->st_size, info->st_mtim.tv_sec, info->st_mtim.tv_nsec};
    qb_hasher_string(hasher, name);
    qb_hasher_update(hasher, facts, sizeof facts);
}

/* The sum of two hashes, so that the order of a folder's entries does not matter. */
static void add_to(qb_hash *sum, qb_hash term) {
    unsigned carry = 0;
    for (int i = 15; i >= 0; i--) {
        carry += (unsigned)sum->byte[i] + term.byte[i];
        sum->byte[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

static qb_status path_digest(qb_ctx *cx, const char *path, int depth, qb_hash *out);

static qb_status folder_sum(qb_ctx *cx, const char *path, int depth, qb_hash *sum) {
    QB_RELEASED(qb_dir_close) DIR *folder = opendir(path);
    if (!folder) return qb_fail_errno(cx, "%s", path);
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        qb_hash term;
        QB_FREED char *child = QB_NEW(cx, qb_path_join(cx, path, entry->d_name));
        QB_TRY(path_digest(cx, child, depth + 1, &term));
        add_to(sum, term);
    }
    return qb_check_cancel(cx);
}

/* The files of a list, each the first word of its line, relative to the list. */
static qb_status list_sum(qb_ctx *cx, const char *path, int depth, qb_hash *sum) {
    size_t size;
    char *rest = NULL;
    QB_FREED char *text = NULL, *folder = qb_path_dir(cx, path);
    if (!folder) return cx->code;
    QB_TRY(qb_file_read(cx, path, LIST_MAX, &text, &size));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        qb_hash term;
        line[strcspn(line, "\t\r")] = '\0';
        char *space = strrchr(line, ' '); /* PATH LABEL; a name with a space stays different */
        if (space && strspn(space + 1, "0123456789") == strlen(space + 1)) *space = '\0';
        QB_FREED char *child = QB_NEW(cx, qb_path_join(cx, folder, line));
        QB_TRY(path_digest(cx, child, depth + 1, &term));
        add_to(sum, term);
    }
    return QB_OK;
}

static qb_status path_digest(qb_ctx *cx, const char *path, int depth, qb_hash *out) {
    struct stat info = {0};
    qb_hash sum = {0};
    const bool there = stat(path, &info) == 0;
    const bool folder = there && S_ISDIR(info.st_mode);
    if (folder && depth < DEPTH_MAX)
        QB_TRY(folder_sum(cx, path, depth, &sum));
    else if (there && depth == 0 && qb_has_suffix(path, ".txt"))
        QB_TRY(list_sum(cx, path, depth, &sum));
    if (folder) info = (struct stat){0}; /* its own time says less than its files */
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_TRY(qb_hasher_create(cx, &hasher));
    add_stat(hasher, qb_path_base(path), &info);
    qb_hasher_update(hasher, sum.byte, sizeof sum.byte);
    *out = qb_hasher_digest(hasher);
    return QB_OK;
}

qb_status qb_fingerprint_path(qb_ctx *cx, qb_hasher *hasher, const char *path) {
    if (!path) return QB_OK;
    char **name;
    size_t n;
    QB_TRY(qb_shards_expand(cx, path, &name, &n));
    qb_status status = QB_OK;
    for (size_t i = 0; i < n && status == QB_OK; i++) {
        qb_hash digest;
        status = path_digest(cx, name[i], 0, &digest);
        if (status == QB_OK) qb_hasher_update(hasher, digest.byte, sizeof digest.byte);
    }
    qb_shards_free(name, n);
    return status;
}

qb_status qb_fingerprint_content(qb_ctx *cx, qb_hasher *hasher, const char *path) {
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_TRY(qb_map_open(cx, path, &map));
    qb_hash digest;
    QB_TRY(qb_hash_all(cx, map.data, map.size, &digest));
    qb_hasher_update(hasher, digest.byte, sizeof digest.byte);
    return QB_OK;
}

static void add_node(qb_hasher *hasher, const qb_config_node *node) {
    const char *text = qb_config_text(node);
    const int n = text ? 0 : qb_config_size(node);
    qb_hasher_string(hasher, text ? text : "(");
    for (int i = 0; i < n; i++) {
        const char *key = qb_config_key(node, i);
        qb_hasher_string(hasher, key ? key : "-");
        add_node(hasher, qb_config_at(node, i));
    }
    if (!text) qb_hasher_string(hasher, ")");
}

void qb_fingerprint_section(qb_hasher *hasher, const qb_config *config, const char *section) {
    const qb_config_node *node = config ? qb_config_find(config, section) : NULL;
    qb_hasher_string(hasher, section);
    if (node) add_node(hasher, node);
}

qb_status qb_fingerprint_plugin(qb_ctx *cx, qb_hasher *hasher, const qb_plugin *plugin) {
    qb_hasher_string(hasher, plugin->name);
    qb_hasher_string(hasher, plugin->version);
    return qb_path_exists(plugin->path) ? qb_fingerprint_content(cx, hasher, plugin->path) : QB_OK;
}
