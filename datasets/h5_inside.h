/* What an HDF5 file holds itself. Links and datasets can name other files, which opening them would
 * open: this is looked at before. Callers hold qb_h5_lock. */
#ifndef QB_DATASETS_H5_INSIDE_H
#define QB_DATASETS_H5_INSIDE_H

#include <hdf5.h>
#include <stdbool.h>

typedef enum qb_h5_place {
    QB_H5_ABSENT, /* nothing has that name */
    QB_H5_LINKED, /* a link, to another file or another name, stands on the way */
    QB_H5_INSIDE  /* it is an object of the file itself */
} qb_h5_place;

/* Where the object of that path lies; nothing is opened on the way through a link. */
qb_h5_place qb_h5_place_of(hid_t file, const char *path);
/* Whether the bytes of a dataset lie in the file: no external storage, not put together from other
 * datasets. */
bool qb_h5_stores_inside(hid_t set);

/* For QB_RELEASED: closes a handle of any kind; a negative one is none. */
static inline void qb_h5_close(const hid_t *handle) {
    if (*handle >= 0) H5Idec_ref(*handle);
}
#endif
