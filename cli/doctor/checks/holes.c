/* Libraries that read files of strangers, in versions with known holes. Distributions mend holes
 * without a new version, so this is a note: whether theirs are mended, their package says. */
#include <hdf5.h>
#include <png.h>
#include <stdio.h>
/* jpeglib.h needs stdio.h before it. */
#include <jpeglib.h>
#include <string.h>
#include <yaml.h>

#include "base/strbuf.h"
#include "cli/doctor/check.h"

/* 1.6.39 as 1006039. */
static int version_of(const char *text) {
    int part[3] = {0};
    sscanf(text, "%d.%d.%d", &part[0], &part[1], &part[2]);
    return part[0] * 1000000 + part[1] * 1000 + part[2];
}

typedef struct hole {
    const char *library;
    const char *mended; /* the first version without them */
    const char *names;
} hole;

static const hole holes[] = {
    {"HDF5", "1.14.4", "CVE-2025-2309, CVE-2025-6750, CVE-2026-26200"},
    {"libpng", "1.6.52", "CVE-2025-64720, CVE-2025-65018, CVE-2025-66293"},
    {"libjpeg-turbo", "2.0.6", "CVE-2020-35538"},
    {"libyaml", "0.1.7", "CVE-2014-2525, CVE-2014-9130"},
};

static const char *loaded(const char *library, const char *hdf5) {
    if (strcmp(library, "HDF5") == 0) return hdf5;
    if (strcmp(library, "libpng") == 0) return png_get_libpng_ver(NULL);
    if (strcmp(library, "libyaml") == 0) return yaml_get_version_string();
#ifdef LIBJPEG_TURBO_VERSION_NUMBER /* the library itself does not tell */
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", LIBJPEG_TURBO_VERSION_NUMBER / 1000000,
             LIBJPEG_TURBO_VERSION_NUMBER / 1000 % 1000, LIBJPEG_TURBO_VERSION_NUMBER % 1000);
    return text;
#else
    return "9"; /* another libjpeg */
#endif
}

static qb_status look(qb_ctx *cx, qb_finding *out) {
    unsigned part[3] = {0};
    char hdf5[64];
    QB_FREED char *text = NULL;
    qb_strbuf found = {0};
    H5get_libversion(&part[0], &part[1], &part[2]);
    snprintf(hdf5, sizeof hdf5, "%u.%u.%u", part[0], part[1], part[2]);
    for (size_t i = 0; i < sizeof holes / sizeof *holes; i++) {
        const char *version = loaded(holes[i].library, hdf5);
        if (version_of(version) < version_of(holes[i].mended))
            qb_strbuf_addf(&found, "%s%s %s (%s: mended in %s)", found.size ? "; " : "",
                           holes[i].library, version, holes[i].names, holes[i].mended);
    }
    const bool any = found.size > 0;
    QB_TRY(qb_strbuf_take(cx, &found, &text));
    return any ? qb_found(
                     cx, out, QB_FINDING_NOTE,
                     "distributions mend holes under the old number: take their updates before "
                     "you read images of strangers (HDF5 reads in a process with limits)",
                     "%s", text)
               : qb_found(cx, out, QB_FINDING_GOOD, NULL, "no version with known holes");
}

const qb_check qb_check_holes = {"holes", look};
