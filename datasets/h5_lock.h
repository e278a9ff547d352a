/* The HDF5 library is used by one thread at a time in the whole process: whoever calls it holds
 * this lock. */
#ifndef QB_DATASETS_H5_LOCK_H
#define QB_DATASETS_H5_LOCK_H

void qb_h5_lock(void);
void qb_h5_unlock(void);
#endif
