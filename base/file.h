/* Files: read-only maps, whole-file reads, and writes that never leave half a file behind. */
#ifndef QB_BASE_FILE_H
#define QB_BASE_FILE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "ctx.h"

typedef struct qb_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
    size_t stored; /* bytes that the disk holds: less in a file with holes */
} qb_map;

/* A regular file's bytes, page-aligned and read-only. Up to QB_MAP_COPIED bytes they are a copy,
 * which nobody can change any more; a larger file is mapped, and reading what someone else has cut
 * off raises SIGBUS (the program turns that into an error). Errors name the path and the reason. */
#define QB_MAP_COPIED ((size_t)8 << 20)
qb_status qb_map_open(qb_ctx *cx, const char *path, qb_map *out);
void qb_map_close(qb_map *map); /* accepts a zeroed map */

/* Reads a whole regular file (or /dev/null, an empty one) of at most `limit` bytes into new memory
 * with a terminating zero. */
qb_status qb_file_read(qb_ctx *cx, const char *path, size_t limit, char **data, size_t *size);
/* The same of a text without zero bytes, behind which readers of lines would see nothing. */
qb_status qb_file_read_text(qb_ctx *cx, const char *path, size_t limit, char **text);

/* A file under construction: written to a temporary name in the target's folder; commit does fsync
 * and rename, abort unlinks. A killed run leaves the old file or the new one, and perhaps a file
 * .NAME.qbench-N.tmp, which the next writer of NAME removes. The rights of the old file stay. A
 * link of that name is replaced like a file: nothing is written through it. What is not a regular
 * file
 * (/dev/null, a pipe with a reader) is written directly, unless a link outside /dev and /proc leads
 * there: `temp` is NULL then. */
typedef struct qb_writer {
    FILE *stream;  /* write here; commit looks whether all could be written */
    char *temp;    /* the temporary file's path */
    char *path;    /* the final path */
    int lock;      /* with `temp`: a descriptor that holds the temporary file's lock */
    mode_t rights; /* of the file that is replaced; 0: a new one */
    bool scratch;  /* set by the caller after opening: the file can be made again at any time, so
                      commit does not wait for the disk (fsync); it still appears as a whole */
} qb_writer;

qb_status qb_writer_open(qb_ctx *cx, const char *path, qb_writer *out);
qb_status qb_writer_commit(qb_ctx *cx, qb_writer *writer);
void qb_writer_abort(qb_writer *writer); /* accepts a zeroed or committed writer */
/* Flushes; 0, or the errno that says why not all could be written. A write that failed earlier has
 * lost its reason, which one more byte then fails for, too. */
int qb_stream_error(FILE *stream);
/* Fails where writing would, for want of a folder or of rights, before work is done for nothing. */
qb_status qb_file_can_write(qb_ctx *cx, const char *path);
/* open, write all, commit. */
qb_status qb_file_write(qb_ctx *cx, const char *path, const void *data, size_t size);

bool qb_path_exists(const char *path);
/* Surely nothing there: what cannot be asked about (rights, a failing disk) is told by who opens
 * it. */
bool qb_path_is_absent(const char *path);
int64_t qb_file_bytes(const char *path); /* 0: there is no such file */
bool qb_path_is_dir(const char *path);
/* For QB_RELEASED; NULL is none. */
static inline void qb_dir_close(DIR *const *dir) {
    if (*dir) closedir(*dir);
}
/* Whether both are there and lead to one file, by whatever names. */
bool qb_path_is_same(const char *a, const char *b);
/* mkdir -p. */
qb_status qb_make_dirs(qb_ctx *cx, const char *path);
/* How many of the path's folders, from its end, are not there: that many the call above makes. */
int qb_missing_dirs(const char *path);
/* Removes up to n of the path's folders, from its end, as long as they are empty. */
void qb_remove_empty_dirs(const char *path, int n);
/* The same for a folder whose name is our own choice: a link that stands there is an error. */
qb_status qb_make_own_dir(qb_ctx *cx, const char *path);
/* New string folder/name; `name` alone when it is absolute or folder is NULL or empty. */
char *qb_path_join(qb_ctx *cx, const char *folder, const char *name);
/* New string: the folder part ("." when none). */
char *qb_path_dir(qb_ctx *cx, const char *path);
/* Pointer into `path`: what follows the last slash. */
const char *qb_path_base(const char *path);
/* New string: base name without its last extension. */
char *qb_path_stem(qb_ctx *cx, const char *path);
bool qb_has_suffix(const char *text, const char *suffix);
#endif
