/* Made by make_pillow_reference.py with Pillow 13.0.0 (libjpeg-turbo 3.2.0). */
#ifndef QB_TEST_PILLOW_COLOR_H
#define QB_TEST_PILLOW_COLOR_H

#include <stdint.h>

#include "datasets/loader.h"

/* clang-format off */
/* convert('L') of the pattern of 16 x 4 pixels. */
static const uint8_t luma_16x4[] = {
    43, 93, 143, 164, 214, 114, 87, 137, 187, 208, 108, 81, 131, 181, 202, 102,
    173, 207, 43, 54, 65, 203, 116, 50, 184, 97, 83, 94, 105, 195, 108, 119,
    47, 71, 170, 96, 143, 167, 191, 88, 143, 167, 135, 182, 108, 55, 79, 155,
    177, 185, 47, 207, 192, 79, 147, 128, 188, 75, 87, 132, 117, 154, 91, 101,
};
/* clang-format on */
#endif
