/* Made by make_pillow_reference.py with Pillow 13.0.0 (libjpeg-turbo 3.2.0). */
#ifndef QB_TEST_PILLOW_RESIZE_H
#define QB_TEST_PILLOW_RESIZE_H

#include <stdint.h>

#include "datasets/loader.h"

/* clang-format off */
static const uint8_t small_0_bilinear[] = {
    78, 83, 106, 93, 104, 149,
};
static const uint8_t small_0_bicubic[] = {
    78, 82, 101, 91, 108, 153,
};
static const uint8_t small_0_lanczos[] = {
    74, 84, 99, 91, 110, 151,
};
static const uint8_t small_0_box[] = {
    94, 50, 96, 85, 80, 176,
};
static const uint8_t small_0_nearest[] = {
    130, 0, 22, 134, 4, 178,
};
static const uint8_t small_1_bilinear[] = {
    0, 18, 46, 75, 104, 132, 150, 52, 72, 103, 84, 63, 82, 94, 130, 153,
    189, 97, 1, 7, 11, 54, 69, 91, 94, 97, 126, 144, 4, 13, 26, 92,
    161, 205, 232,
};
static const uint8_t small_1_bicubic[] = {
    0, 2, 35, 73, 112, 147, 165, 49, 70, 106, 84, 60, 79, 94, 125, 156,
    196, 100, 0, 0, 12, 51, 65, 90, 94, 101, 133, 152, 0, 0, 10, 88,
    175, 230, 255,
};
static const uint8_t small_1_lanczos[] = {
    0, 0, 23, 71, 122, 161, 176, 49, 78, 113, 86, 53, 71, 87, 116, 164,
    197, 104, 0, 0, 19, 54, 71, 95, 94, 101, 133, 151, 0, 0, 0, 82,
    187, 247, 255,
};
static const uint8_t small_1_box[] = {
    0, 0, 50, 100, 100, 150, 150, 0, 0, 50, 100, 100, 150, 150, 130, 130,
    193, 0, 0, 11, 11, 4, 4, 28, 156, 156, 232, 232, 4, 4, 28, 156,
    156, 232, 232,
};
static const uint8_t small_1_nearest[] = {
    0, 0, 50, 50, 100, 150, 150, 0, 0, 50, 50, 100, 150, 150, 130, 130,
    193, 193, 0, 11, 11, 4, 4, 28, 28, 156, 232, 232, 4, 4, 28, 28,
    156, 232, 232,
};
static const uint8_t small_2_bilinear[] = {
    84, 132, 121, 126, 143, 95, 90, 131, 100, 129, 134, 107, 97, 109, 130, 94,
    138, 99,
};
static const uint8_t small_2_bicubic[] = {
    78, 130, 126, 129, 144, 91, 86, 132, 96, 136, 132, 107, 94, 107, 135, 90,
    137, 98,
};
static const uint8_t small_2_lanczos[] = {
    77, 129, 127, 132, 145, 91, 82, 131, 93, 133, 127, 107, 94, 109, 136, 92,
    138, 94,
};
static const uint8_t small_2_box[] = {
    79, 132, 142, 137, 148, 73, 83, 136, 104, 174, 142, 109, 87, 97, 150, 84,
    137, 105,
};
static const uint8_t small_2_nearest[] = {
    193, 246, 43, 22, 75, 128, 171, 224, 21, 178, 231, 28, 253, 50, 103, 182,
    235, 32,
};
static const uint8_t small_3_bilinear[] = {
    0, 53, 106, 20, 73, 126, 50, 103, 156, 80, 133, 186, 100, 153, 206, 33,
    86, 139, 54, 107, 134, 86, 139, 128, 79, 132, 160, 75, 128, 181, 98, 151,
    204, 121, 174, 151, 157, 210, 71, 78, 131, 107, 25, 78, 131, 130, 183, 236,
    155, 208, 159, 193, 246, 43, 77, 130, 81, 0, 53, 106,
};
static const uint8_t small_3_bicubic[] = {
    0, 38, 89, 2, 55, 117, 37, 90, 166, 86, 139, 201, 113, 168, 219, 26,
    76, 133, 45, 98, 130, 80, 133, 133, 82, 135, 167, 82, 132, 189, 99, 151,
    220, 131, 184, 156, 163, 216, 66, 74, 127, 99, 22, 63, 132, 136, 189, 255,
    174, 227, 169, 206, 255, 33, 70, 123, 65, 0, 27, 102,
};
static const uint8_t small_3_lanczos[] = {
    0, 28, 75, 0, 36, 108, 25, 78, 176, 92, 145, 218, 122, 179, 226, 27,
    77, 138, 48, 101, 128, 83, 136, 130, 85, 138, 165, 80, 127, 189, 90, 142,
    219, 134, 187, 155, 160, 213, 69, 74, 127, 95, 24, 60, 140, 138, 191, 255,
    199, 252, 175, 218, 255, 23, 67, 120, 42, 0, 8, 103,
};
static const uint8_t small_3_box[] = {
    0, 53, 106, 0, 53, 106, 50, 103, 156, 100, 153, 206, 100, 153, 206, 0,
    53, 106, 0, 53, 106, 50, 103, 156, 100, 153, 206, 100, 153, 206, 130, 183,
    236, 130, 183, 236, 193, 246, 43, 0, 53, 106, 0, 53, 106, 130, 183, 236,
    130, 183, 236, 193, 246, 43, 0, 53, 106, 0, 53, 106,
};
static const uint8_t small_3_nearest[] = {
    0, 53, 106, 0, 53, 106, 50, 103, 156, 100, 153, 206, 100, 153, 206, 0,
    53, 106, 0, 53, 106, 50, 103, 156, 100, 153, 206, 100, 153, 206, 130, 183,
    236, 130, 183, 236, 193, 246, 43, 0, 53, 106, 0, 53, 106, 130, 183, 236,
    130, 183, 236, 193, 246, 43, 0, 53, 106, 0, 53, 106,
};
static const uint8_t small_4_bilinear[] = {
    67, 79, 102, 113, 65, 76, 98, 109, 78, 98, 137, 156,
};
static const uint8_t small_4_bicubic[] = {
    56, 69, 95, 108, 69, 82, 106, 119, 64, 90, 139, 165,
};
static const uint8_t small_4_lanczos[] = {
    52, 69, 91, 108, 68, 84, 106, 122, 56, 91, 139, 174,
};
static const uint8_t small_4_box[] = {
    45, 45, 90, 90, 93, 93, 143, 143, 57, 57, 144, 144,
};
static const uint8_t small_4_nearest[] = {
    130, 130, 193, 193, 8, 8, 6, 6, 142, 142, 127, 127,
};

typedef struct resize_case {
    int32_t width, height, channels, new_width, new_height;
    qb_filter filter;
    uint64_t digest; /* FNV-1a of the pixels */
    const uint8_t *pixel; /* NULL: not stored */
} resize_case;

static const resize_case resize_cases[] = {
    {5, 4, 1, 3, 2, QB_FILTER_BILINEAR, UINT64_C(0x8bebc7db6be786f4), small_0_bilinear},
    {5, 4, 1, 3, 2, QB_FILTER_BICUBIC, UINT64_C(0x29d81b2f84b8af2e), small_0_bicubic},
    {5, 4, 1, 3, 2, QB_FILTER_LANCZOS, UINT64_C(0x5c5a88089ff9f326), small_0_lanczos},
    {5, 4, 1, 3, 2, QB_FILTER_BOX, UINT64_C(0x3b7f166ef0d37faa), small_0_box},
    {5, 4, 1, 3, 2, QB_FILTER_NEAREST, UINT64_C(0x82bb66221388baa1), small_0_nearest},
    {4, 3, 1, 7, 5, QB_FILTER_BILINEAR, UINT64_C(0x32f252bc88f5799c), small_1_bilinear},
    {4, 3, 1, 7, 5, QB_FILTER_BICUBIC, UINT64_C(0x8527a77b3a9b1e12), small_1_bicubic},
    {4, 3, 1, 7, 5, QB_FILTER_LANCZOS, UINT64_C(0xc71dd9bc504679d9), small_1_lanczos},
    {4, 3, 1, 7, 5, QB_FILTER_BOX, UINT64_C(0x5915262dbcb088fa), small_1_box},
    {4, 3, 1, 7, 5, QB_FILTER_NEAREST, UINT64_C(0x54868cd33c8f7dd3), small_1_nearest},
    {6, 6, 3, 2, 3, QB_FILTER_BILINEAR, UINT64_C(0x20180e4078154bfe), small_2_bilinear},
    {6, 6, 3, 2, 3, QB_FILTER_BICUBIC, UINT64_C(0x690e36f3f707c843), small_2_bicubic},
    {6, 6, 3, 2, 3, QB_FILTER_LANCZOS, UINT64_C(0x75338d83fba10342), small_2_lanczos},
    {6, 6, 3, 2, 3, QB_FILTER_BOX, UINT64_C(0x9baed913ab3d5aa4), small_2_box},
    {6, 6, 3, 2, 3, QB_FILTER_NEAREST, UINT64_C(0xc013aa39892886c2), small_2_nearest},
    {3, 2, 3, 5, 4, QB_FILTER_BILINEAR, UINT64_C(0x350ac2768e794010), small_3_bilinear},
    {3, 2, 3, 5, 4, QB_FILTER_BICUBIC, UINT64_C(0xe1cad83292e67da0), small_3_bicubic},
    {3, 2, 3, 5, 4, QB_FILTER_LANCZOS, UINT64_C(0x88993da643b832a6), small_3_lanczos},
    {3, 2, 3, 5, 4, QB_FILTER_BOX, UINT64_C(0x17776fe65ecb9d77), small_3_box},
    {3, 2, 3, 5, 4, QB_FILTER_NEAREST, UINT64_C(0x17776fe65ecb9d77), small_3_nearest},
    {2, 9, 1, 4, 3, QB_FILTER_BILINEAR, UINT64_C(0x969ed15c557ae337), small_4_bilinear},
    {2, 9, 1, 4, 3, QB_FILTER_BICUBIC, UINT64_C(0x16ac74369b2cf407), small_4_bicubic},
    {2, 9, 1, 4, 3, QB_FILTER_LANCZOS, UINT64_C(0x6d56381f29d122b9), small_4_lanczos},
    {2, 9, 1, 4, 3, QB_FILTER_BOX, UINT64_C(0xbea9678f1aeacdc9), small_4_box},
    {2, 9, 1, 4, 3, QB_FILTER_NEAREST, UINT64_C(0x16e165c415b39f8d), small_4_nearest},
    {97, 61, 3, 53, 47, QB_FILTER_BILINEAR, UINT64_C(0xcb08f49cb7a5cd79), NULL},
    {97, 61, 3, 53, 47, QB_FILTER_BICUBIC, UINT64_C(0x48a73a6250795c46), NULL},
    {97, 61, 3, 53, 47, QB_FILTER_LANCZOS, UINT64_C(0x9d92d0d79efb4ca1), NULL},
    {97, 61, 3, 53, 47, QB_FILTER_BOX, UINT64_C(0x02c2595ad5e0e4ea), NULL},
    {97, 61, 3, 53, 47, QB_FILTER_NEAREST, UINT64_C(0x25e86fbda3722106), NULL},
    {97, 61, 3, 211, 150, QB_FILTER_BILINEAR, UINT64_C(0x51ca099f86df8fd7), NULL},
    {97, 61, 3, 211, 150, QB_FILTER_BICUBIC, UINT64_C(0x6f3f085415183539), NULL},
    {97, 61, 3, 211, 150, QB_FILTER_LANCZOS, UINT64_C(0x56c8165c71f5f206), NULL},
    {97, 61, 3, 211, 150, QB_FILTER_BOX, UINT64_C(0x37e2f6fb5d7e3d63), NULL},
    {97, 61, 3, 211, 150, QB_FILTER_NEAREST, UINT64_C(0x37e2f6fb5d7e3d63), NULL},
    {61, 97, 3, 47, 31, QB_FILTER_BILINEAR, UINT64_C(0x60b3ba99585fd3b6), NULL},
    {61, 97, 3, 47, 31, QB_FILTER_BICUBIC, UINT64_C(0xd8fa7a520a0150d8), NULL},
    {61, 97, 3, 47, 31, QB_FILTER_LANCZOS, UINT64_C(0x98ff08008a14a05b), NULL},
    {61, 97, 3, 47, 31, QB_FILTER_BOX, UINT64_C(0x9a9ab33e2335befe), NULL},
    {61, 97, 3, 47, 31, QB_FILTER_NEAREST, UINT64_C(0xbb623a01ee9619c8), NULL},
    {64, 64, 1, 16, 80, QB_FILTER_BILINEAR, UINT64_C(0x6b6d629b4036b0cf), NULL},
    {64, 64, 1, 16, 80, QB_FILTER_BICUBIC, UINT64_C(0x2500036ec0bff3fe), NULL},
    {64, 64, 1, 16, 80, QB_FILTER_LANCZOS, UINT64_C(0xb593d5fb4ef70647), NULL},
    {64, 64, 1, 16, 80, QB_FILTER_BOX, UINT64_C(0x70f4491948261f65), NULL},
    {64, 64, 1, 16, 80, QB_FILTER_NEAREST, UINT64_C(0xce608224c16d1125), NULL},
    {64, 64, 3, 80, 16, QB_FILTER_BILINEAR, UINT64_C(0xc760ae2536606c8b), NULL},
    {64, 64, 3, 80, 16, QB_FILTER_BICUBIC, UINT64_C(0xcdfc3c9d21fa5c69), NULL},
    {64, 64, 3, 80, 16, QB_FILTER_LANCZOS, UINT64_C(0xe6bc5235930e410f), NULL},
    {64, 64, 3, 80, 16, QB_FILTER_BOX, UINT64_C(0x9ec506d21bbaa7c5), NULL},
    {64, 64, 3, 80, 16, QB_FILTER_NEAREST, UINT64_C(0xb22cee0f0ffa0a65), NULL},
    {33, 200, 3, 33, 17, QB_FILTER_BILINEAR, UINT64_C(0xf11e7cecdf7b19aa), NULL},
    {33, 200, 3, 33, 17, QB_FILTER_BICUBIC, UINT64_C(0x3831a8024939094c), NULL},
    {33, 200, 3, 33, 17, QB_FILTER_LANCZOS, UINT64_C(0x8320fb419449868f), NULL},
    {33, 200, 3, 33, 17, QB_FILTER_BOX, UINT64_C(0xdfb343a5952ec681), NULL},
    {33, 200, 3, 33, 17, QB_FILTER_NEAREST, UINT64_C(0x0378fbb0018a99bc), NULL},
    {200, 33, 1, 17, 33, QB_FILTER_BILINEAR, UINT64_C(0x07df3fc6e3a8d3a0), NULL},
    {200, 33, 1, 17, 33, QB_FILTER_BICUBIC, UINT64_C(0x7751fca280d80ad1), NULL},
    {200, 33, 1, 17, 33, QB_FILTER_LANCZOS, UINT64_C(0x05b39db4e8c90d75), NULL},
    {200, 33, 1, 17, 33, QB_FILTER_BOX, UINT64_C(0x0953001d79921b15), NULL},
    {200, 33, 1, 17, 33, QB_FILTER_NEAREST, UINT64_C(0x7b0cd39504560497), NULL},
    {130, 130, 3, 1, 1, QB_FILTER_BILINEAR, UINT64_C(0x2d34371adf582fad), NULL},
    {130, 130, 3, 1, 1, QB_FILTER_BICUBIC, UINT64_C(0x2d38371adf5c1884), NULL},
    {130, 130, 3, 1, 1, QB_FILTER_LANCZOS, UINT64_C(0x2d38371adf5c1884), NULL},
    {130, 130, 3, 1, 1, QB_FILTER_BOX, UINT64_C(0x2d38371adf5c1884), NULL},
    {130, 130, 3, 1, 1, QB_FILTER_NEAREST, UINT64_C(0xf9eb0219a038f97f), NULL},
    {1, 1, 3, 40, 30, QB_FILTER_BILINEAR, UINT64_C(0x45a73da123f997d5), NULL},
    {1, 1, 3, 40, 30, QB_FILTER_BICUBIC, UINT64_C(0x45a73da123f997d5), NULL},
    {1, 1, 3, 40, 30, QB_FILTER_LANCZOS, UINT64_C(0x45a73da123f997d5), NULL},
    {1, 1, 3, 40, 30, QB_FILTER_BOX, UINT64_C(0x45a73da123f997d5), NULL},
    {1, 1, 3, 40, 30, QB_FILTER_NEAREST, UINT64_C(0x45a73da123f997d5), NULL},
    {300, 7, 3, 64, 64, QB_FILTER_BILINEAR, UINT64_C(0xd38c2833c09cf77b), NULL},
    {300, 7, 3, 64, 64, QB_FILTER_BICUBIC, UINT64_C(0x75bf5aebfbf2eba6), NULL},
    {300, 7, 3, 64, 64, QB_FILTER_LANCZOS, UINT64_C(0x2982197b91ca39b4), NULL},
    {300, 7, 3, 64, 64, QB_FILTER_BOX, UINT64_C(0xf554877ea652570f), NULL},
    {300, 7, 3, 64, 64, QB_FILTER_NEAREST, UINT64_C(0x96a62dc2d4b7f595), NULL},
    {7, 300, 1, 64, 64, QB_FILTER_BILINEAR, UINT64_C(0x000f2f84b9a5cf83), NULL},
    {7, 300, 1, 64, 64, QB_FILTER_BICUBIC, UINT64_C(0x6f6de3f26ec29237), NULL},
    {7, 300, 1, 64, 64, QB_FILTER_LANCZOS, UINT64_C(0xfcb8f995e50b81c2), NULL},
    {7, 300, 1, 64, 64, QB_FILTER_BOX, UINT64_C(0xdae3c5bc6468ef67), NULL},
    {7, 300, 1, 64, 64, QB_FILTER_NEAREST, UINT64_C(0xd3b59fe536fa2aad), NULL},
    {40, 30, 3, 40, 30, QB_FILTER_BILINEAR, UINT64_C(0x1057c06c88d21585), NULL},
    {40, 30, 3, 40, 30, QB_FILTER_BICUBIC, UINT64_C(0x1057c06c88d21585), NULL},
    {40, 30, 3, 40, 30, QB_FILTER_LANCZOS, UINT64_C(0x1057c06c88d21585), NULL},
    {40, 30, 3, 40, 30, QB_FILTER_BOX, UINT64_C(0x1057c06c88d21585), NULL},
    {40, 30, 3, 40, 30, QB_FILTER_NEAREST, UINT64_C(0x1057c06c88d21585), NULL},
};
/* clang-format on */
#endif
