/* A device called "cuda" that needs no GPU: its memory is the host's, but cannot be read there; its
 * tactics are reference tactics of a few kinds. The linker puts it in place of the real one. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <stdbool.h>

/* Is there a device when it is opened? */
extern bool fake_device_is_there;

#endif
