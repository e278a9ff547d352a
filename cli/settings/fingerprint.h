/* Has anything changed since? Cheap digests of files and settings, for `qbench run`. */
#ifndef QB_CLI_SETTINGS_FINGERPRINT_H
#define QB_CLI_SETTINGS_FINGERPRINT_H

#include "base/config.h"
#include "base/hash.h"
#include "graph/plugin.h"

/* Adds a path to the digest by name, size and time of change, as make would look at it: a file; all
 * files below a folder, in any order; a list file (.txt) with the files that its lines begin with.
 * What is not there counts as well: it may appear. NULL adds nothing. */
qb_status qb_fingerprint_path(qb_ctx *cx, qb_hasher *hasher, const char *path);
/* Adds the content of a file. */
qb_status qb_fingerprint_content(qb_ctx *cx, qb_hasher *hasher, const char *path);
/* Adds a plugin: its name, its version and, where the library was given as a file, its content. */
qb_status qb_fingerprint_plugin(qb_ctx *cx, qb_hasher *hasher, const qb_plugin *plugin);
/* Adds keys and values of one section of the settings; nothing when it is not there. */
void qb_fingerprint_section(qb_hasher *hasher, const qb_config *config, const char *section);

#endif
