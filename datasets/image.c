#include <string.h>

#include "datasets_internal.h"

void qb_image_release(qb_image *image) {
    if (!image) return;
    qb_free(image->pixel);
    memset(image, 0, sizeof *image);
}

/* A picture is told by its first few pixels, a blank image is looked through. */
bool qb_image_is_blank(const qb_image *image) {
    enum { SPREAD = 2, NEAR_BLACK = 8 }; /* of 255 */
    uint8_t low[4] = {255, 255, 255, 255}, high[4] = {0};
    const size_t n = (size_t)image->width * (size_t)image->height;
    const int32_t channels = image->channels;
    bool constant = true, black = true;
    for (size_t i = 0; i < n && (constant || black); i++)
        for (int32_t c = 0; c < channels; c++) {
            const uint8_t value = image->pixel[i * (size_t)channels + (size_t)c];
            if (value < low[c]) low[c] = value;
            if (value > high[c]) high[c] = value;
            constant = constant && high[c] - low[c] <= SPREAD;
            black = black && high[c] <= NEAR_BLACK;
        }
    return constant || black;
}

static int32_t big_endian(const uint8_t *at, int bytes) {
    int64_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | at[i];
    return v > INT32_MAX ? 0 : (int32_t)v;
}

/* A JPEG's frame header is the first segment that begins one; C4, C8 and CC are others. */
static bool jpeg_size(const uint8_t *data, size_t size, int32_t *width, int32_t *height) {
    for (size_t at = 2; at + 9 < size && data[at] == 0xff;) {
        const uint8_t marker = data[at + 1];
        const bool alone =
            marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7); /* without length */
        if (marker == 0xff || alone) {                            /* filled up */
            at += 1 + alone;
            continue;
        }
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
            marker != 0xcc) {
            *height = big_endian(data + at + 5, 2);
            *width = big_endian(data + at + 7, 2);
            return true;
        }
        at += 2 + (size_t)big_endian(data + at + 2, 2);
    }
    return false;
}

bool qb_image_size(const uint8_t *data, size_t size, int32_t *width, int32_t *height) {
    *width = *height = 0;
    if (size > 2 && data[0] == 0xff && data[1] == 0xd8) {
        if (!jpeg_size(data, size, width, height)) return false;
    } else if (size >= 24 && memcmp(data + 1, "PNG", 3) == 0) {
        *width = big_endian(data + 16, 4);
        *height = big_endian(data + 20, 4);
    }
    return *width > 0 && *height > 0 && (int64_t)*width * *height <= QB_IMAGE_PIXELS_MAX;
}

qb_status qb_image_check_size(qb_ctx *cx, const char *name, int64_t width, int64_t height) {
    if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: image of %lldx%lld pixels", name,
                       (long long)width, (long long)height);
    if (width * height > QB_IMAGE_PIXELS_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: image of %lldx%lld pixels, the limit is %lld in all", name,
                       (long long)width, (long long)height, (long long)QB_IMAGE_PIXELS_MAX);
    return QB_OK;
}

qb_status qb_image_create(qb_ctx *cx, const char *name, int64_t width, int64_t height, int channels,
                          qb_image *out) {
    QB_TRY(qb_image_check_size(cx, name, width, height));
    uint8_t *pixel = QB_NEW(cx, qb_alloc(cx, (size_t)(width * height), (size_t)channels));
    *out = (qb_image){(int32_t)width, (int32_t)height, channels, pixel};
    return QB_OK;
}

qb_status qb_image_decode(qb_ctx *cx, const char *name, const uint8_t *data, size_t size,
                          qb_image *out) {
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff};
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (size >= sizeof jpeg && memcmp(data, jpeg, sizeof jpeg) == 0)
        return qb_jpeg_decode(cx, name, data, size, out);
    if (size >= sizeof png && memcmp(data, png, sizeof png) == 0)
        return qb_png_decode(cx, name, data, size, false, out);
    if (size == 0) return qb_fail(cx, QB_STATUS_FORMAT, "%s: the file is empty", name);
    char begin[3 * 8 + 1] = "";
    for (size_t i = 0; i < size && i < 8; i++) snprintf(begin + 3 * i, 4, " %02x", data[i]);
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: neither JPEG nor PNG, begins with%s", name, begin);
}

qb_hash qb_image_hash(const qb_image *image) {
    const int64_t size[3] = {image->height, image->width, image->channels};
    const struct {
        qb_hash size, pixels;
    } both = {qb_hash_bytes(size, sizeof size),
              qb_hash_bytes(image->pixel, (size_t)(size[0] * size[1] * size[2]))};
    return qb_hash_bytes(&both, sizeof both);
}
