/* A device called "cuda" that needs no GPU: its memory is the host's, but cannot be read there; its
 * tactics are reference tactics of a few kinds. The linker puts it in place of the real one. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ctx.h"

/* Is there a device when it is opened? */
extern bool fake_device_is_there;
#define FAKE_DEVICES 3 /* of them, numbered from 0 */
/* What it says that it is, all of them, unless the last one is another. */
extern const char *fake_device_hardware, *fake_device_software;
extern const char *fake_device_last_hardware; /* NULL: as the others */
/* Counted: blocks of its memory that were ever made and those that are there, recordings of work
 * that were ever made, constants that were packed, kernels of convolutions that were compiled, and
 * how often the host waited for it. It remarks on convolutions of three channels: "C=3: no tile".
 */
extern _Atomic int fake_device_allocations, fake_device_blocks, fake_device_recordings,
    fake_device_packs, fake_device_compilations, fake_device_waits;

/* Called before each launch of a kernel on that device, for what a test wants to go wrong there;
 * NULL: nothing. */
extern qb_status (*fake_device_on_launch)(qb_ctx *cx, int32_t device);

/* Seconds of a launch by the device's clock; `alone`: on the same output as the launch before it.
 * For one thread at a time. NULL: all takes a time that is never the same twice. */
extern double (*fake_device_seconds)(const char *tactic, bool alone);
/* Is there another tactic for convolutions, "cuda.fake_conv_dependent"; for NHWC alone; and wrong,
 * as a planted tactic's results are? */
extern bool fake_device_has_dependent_launch, fake_device_dependent_is_nhwc,
    fake_device_dependent_is_wrong;

/* Scratch that its convolutions of odd width want, as a library's do at some sizes. */
extern size_t fake_device_odd_scratch;
/* What its clock says next follows from this; never the same twice in a row, as on a real one. */
extern _Atomic uint32_t fake_device_clock;
/* Is there a library's tactic for convolutions, "cuda.fake_conv.cudnn"? */
extern bool fake_device_has_library;
/* Has it a tactic for a convolution and a pool as one step? */
extern bool fake_device_fuses;
/* Has it a tactic for the attention of queries, keys and values side by side, in f16? */
extern bool fake_device_attends;
/* A tactic of the processor, "cpu.planted_conv", that goes before all others and is wrong: it
 * leaves the activation out, or it is one off (two quantized values, where they are integers) in
 * every seventh result. */
typedef enum planted_tactic { PLANTED_NONE, PLANTED_EPILOGUE, PLANTED_RESULTS } planted_tactic;
extern planted_tactic fake_planted_tactic;
/* How many fills of its memory still work; below 0: all. */
extern int fake_device_fills_left;

#endif
