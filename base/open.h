/* Opening files for reading: what a user names, and what a file names, which is trusted less.
 *
 * Either way only regular files are opened, and without waiting: a FIFO, a device or a socket in
 * the place of a file is an error at once. */
#ifndef QB_BASE_OPEN_H
#define QB_BASE_OPEN_H

#include "file.h"

/* A name that stands in a file. */
typedef struct qb_named {
    const char *name;  /* as the file says it */
    const char *by;    /* the path of that file; a folder where it ends in '/' */
    const char *whose; /* "the model's": for messages */
} qb_named;

/* Whether the name, as it is written, leads into that folder: relative, without "..". */
bool qb_named_is_inside(const qb_named *named);

/* What was opened; its user closes fd and frees path. */
typedef struct qb_opened {
    int fd;
    char *path;
    size_t size, stored; /* bytes it has, and bytes of them that the disk holds */
} qb_opened;

/* A file that the user names; links are followed. Errors: QB_STATUS_NOTFOUND, QB_STATUS_IO. */
qb_status qb_open_regular(qb_ctx *cx, const char *path, qb_opened *out);
void qb_opened_close(qb_opened *opened);

/* The same for a file that another one names. It must lie in that one's folder, in the folder where
 * that one lies once its own links are followed, or in the blobs/ that a snapshot of a Hugging Face
 * cache leads to. Links are followed as far as they stay there; "..", absolute names and files with
 * several names (hard links) are errors (QB_STATUS_FORMAT). Whatever lies in cx->outside may be
 * named in any way. What was checked is what is opened: nothing on the way is followed again
 * (openat2; a walk by O_NOFOLLOW where the kernel has none). */
qb_status qb_open_named(qb_ctx *cx, const qb_named *named, qb_opened *out);

/* qb_map_open and qb_file_read of such a file. */
qb_status qb_map_open_named(qb_ctx *cx, const qb_named *named, qb_map *out);
qb_status qb_file_read_named(qb_ctx *cx, const qb_named *named, size_t limit, char **data,
                             size_t *size);
#endif
