/* What the program does when it is asked to stop, or when a file that it reads is taken away. */
#ifndef QB_CLI_SIGNALS_H
#define QB_CLI_SIGNALS_H

#include "base/ctx.h"

/* Once, before anything else. SIGINT, SIGTERM and SIGHUP set the flag that cx->cancel points to
 * from then on; what does not look at it within QB_STOP_MS ends there, as if killed. A second one
 * kills. SIGBUS in a mapped file, which someone has cut short, is an error that names the file. So
 * is SIGABRT and exit() by a library that finds no memory; temporary files go. */
#define QB_STOP_MS 900
void qb_signals_init(qb_ctx *cx);
/* main's own end comes: exit() is no library's. */
void qb_signals_done(void);

#endif
