/* Forks: a child has the memory of its parent, and of its threads the one that forked. Waiting for
 * the others, or giving them work, would never end. */
#ifndef QB_BASE_FORKS_H
#define QB_BASE_FORKS_H

/* A number that is another one in a child than in its parent: whoever starts threads keeps it, and
 * they are gone where it has changed. 0: this is no child. Counts from the first call on. */
int qb_forks(void);

#endif
