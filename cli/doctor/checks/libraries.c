/* Versions as the libraries that are loaded tell them, not as the headers said. */
#include <archive.h>
#include <hdf5.h>
#include <jansson.h>
#include <lmdb.h>
#include <png.h>
#include <protobuf-c/protobuf-c.h>
#include <yaml.h>

#include "cli/doctor/check.h"
#include "engine/engine.h"

static qb_status look(qb_ctx *cx, qb_finding *out) {
    unsigned hdf5[3] = {0};
    int lmdb[3];
    mdb_version(&lmdb[0], &lmdb[1], &lmdb[2]);
    H5get_libversion(&hdf5[0], &hdf5[1], &hdf5[2]);
    QB_FREED char *compute = QB_NEW(cx, qb_engine_libraries(cx));
    return qb_found(cx, out, QB_FINDING_GOOD, NULL,
                    "%s, HDF5 %u.%u.%u, %s, LMDB %d.%d.%d, libpng %s, protobuf-c %s, libyaml %s, "
                    "jansson %s",
                    compute, hdf5[0], hdf5[1], hdf5[2], archive_version_string(), lmdb[0], lmdb[1],
                    lmdb[2], png_get_libpng_ver(NULL), protobuf_c_version(),
                    yaml_get_version_string(), JANSSON_VERSION);
}

const qb_check qb_check_libraries = {"libraries", look};
