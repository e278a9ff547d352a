/* A device called "cuda" that needs no GPU: its memory is the host's, but cannot be read there; its
 * tactics are reference tactics of a few kinds. The linker puts it in place of the real one. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <stdbool.h>

/* Is there a device when it is opened? */
extern bool fake_device_is_there;
/* What it says that it is, all of them. */
extern const char *fake_device_hardware, *fake_device_software;
/* Counted: blocks of its memory that were ever made and those that are there, recordings of work
 * that were ever made, and constants that were packed. */
extern _Atomic int fake_device_allocations, fake_device_blocks, fake_device_recordings,
    fake_device_packs;

#endif
