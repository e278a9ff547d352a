/* Images, files and folders that the tests of datasets/ make for themselves. */
#ifndef QB_TEST_DATASETS_FIXTURE_H
#define QB_TEST_DATASETS_FIXTURE_H

#include "datasets/dataset.h"
#include "qb_test.h"

/* The same as pattern() in make_pillow_reference.py: every value occurs, edges everywhere. */
qb_image fixture_pattern(int32_t width, int32_t height, int32_t channels);
uint64_t fixture_digest(const qb_image *image); /* FNV-1a of the pixels */

typedef struct fixture_bytes {
    uint8_t *data; /* free() */
    size_t size;
} fixture_bytes;

typedef enum fixture_ink {
    FIXTURE_PLAIN,      /* grey or RGB (as YCbCr) */
    FIXTURE_CMYK,       /* 4 channels without Adobe's marker: 0 is no ink */
    FIXTURE_CMYK_ADOBE, /* with the marker: 255 is no ink */
    FIXTURE_YCCK_ADOBE
} fixture_ink;
fixture_bytes fixture_jpeg(const uint8_t *pixel, int width, int height, int channels, int quality,
                           fixture_ink ink);

typedef struct fixture_png_options {
    int depth, color_type; /* as PNG numbers them */
    bool interlaced;
    const uint8_t *palette; /* 3 bytes a color */
    int n_palette;
    const uint8_t *alpha; /* of the first palette entries */
    int n_alpha;
    int transparent_grey; /* -1: none */
} fixture_png_options;
/* `rows`: packed as in the file (16 bits big-endian, less than 8 bits packed), stride bytes each.
 */
fixture_bytes fixture_png(const uint8_t *rows, size_t stride, int width, int height,
                          const fixture_png_options *options);

void fixture_write(const char *folder, const char *name, const void *data, size_t size);
void fixture_text(const char *folder, const char *name, const char *text);
void fixture_folder(const char *folder, const char *name);
/* A JPEG whose pixels depend on `seed`, as folder/name. */
void fixture_photo(const char *folder, const char *name, int width, int height, int seed);

#endif
