/* The version of oneDNN that the program runs with. */
#ifndef QB_ENGINE_DNNL_VERSION_H
#define QB_ENGINE_DNNL_VERSION_H

/* Major, minor, patch. */
void qb_dnnl_version(int version[3]);

#endif
