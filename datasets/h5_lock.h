/* The HDF5 library is used by one thread at a time in the whole process: whoever calls it holds
 * this lock. */
#ifndef QB_DATASETS_H5_LOCK_H
#define QB_DATASETS_H5_LOCK_H

#ifdef __cplusplus
extern "C" {
#endif

void qb_h5_lock(void);
void qb_h5_unlock(void);

#ifdef __cplusplus
}
#endif
#endif
