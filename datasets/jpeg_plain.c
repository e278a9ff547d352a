/* The markers of a JPEG file (ITU-T T.81, annex B), without decoding. */
#include <string.h>

#include "datasets/decoder.h"

enum {
    TEM = 0x01,
    SOF0 = 0xc0,
    DHT = 0xc4,
    JPG = 0xc8,
    DAC = 0xcc,
    SOF15 = 0xcf,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    DNL = 0xdc,
    DRI = 0xdd,
    DHP = 0xde,
    EXP = 0xdf,
    APP0 = 0xe0,
    APP14 = 0xee
};

typedef struct scan {
    const uint8_t *at, *end;
    int32_t width, height;
    int64_t units;    /* MCUs of the image */
    int64_t interval; /* of restart markers, in MCUs; 0: none */
    bool jfif, adobe, ycbcr_ids;
    int transform; /* Adobe's; 1: YCbCr */
    bool framed;
} scan;

static unsigned u16(const uint8_t *at) { return (unsigned)at[0] << 8 | at[1]; }

/* Luma at twice the resolution of chroma, or once, in either direction. */
static bool frame(scan *s, const uint8_t *body, size_t n) {
    if (s->framed || n != 15 || body[0] != 8 || body[5] != 3) return false;
    const unsigned across = body[7] >> 4, down = body[7] & 15;
    if (across < 1 || across > 2 || down < 1 || down > 2 || body[10] != 0x11 || body[13] != 0x11)
        return false;
    s->height = (int32_t)u16(body + 1);
    s->width = (int32_t)u16(body + 3);
    s->ycbcr_ids = body[6] == 1 && body[9] == 2 && body[12] == 3;
    s->units = ((int64_t)s->width + 8 * across - 1) / (8 * across) *
               (((int64_t)s->height + 8 * down - 1) / (8 * down));
    s->framed = true;
    return s->width > 0 && s->height > 0;
}

/* The segments that change how an image is decoded; the others are passed over. */
static bool segment(scan *s, int marker, const uint8_t *body, size_t n) {
    switch (marker) {
    case SOF0: return frame(s, body, n);
    case DHT: return true;
    case DRI:
        if (n != 2) return false;
        s->interval = u16(body);
        return true;
    case APP0: s->jfif = s->jfif || (n >= 14 && memcmp(body, "JFIF", 5) == 0); return true;
    case APP14:
        if (n < 12 || memcmp(body, "Adobe", 5) != 0) return true;
        s->adobe = true;
        s->transform = body[11];
        return true;
    case DNL:
    case DHP:
    case EXP:
    case TEM: return false;
    default: return marker > EOI; /* below are markers without a length, and other frames */
    }
}

/* All of the image's components in one scan. */
static bool header_of_scan(const scan *s, const uint8_t *body, size_t n) {
    const bool ycbcr = s->jfif || (s->adobe ? s->transform == 1 : s->ycbcr_ids);
    return s->framed && ycbcr && n == 10 && body[0] == 3 && body[7] == 0 && body[8] == 63 &&
           body[9] == 0;
}

/* Codes until the end marker, with restart markers where they belong. */
static bool codes(scan *s) {
    int64_t restarts = 0;
    for (;;) {
        const uint8_t *mark = memchr(s->at, 0xff, (size_t)(s->end - s->at));
        if (!mark) return false;
        while (mark < s->end && *mark == 0xff) mark++; /* fill bytes may stand before a marker */
        if (mark == s->end) return false;
        s->at = mark + 1;
        if (*mark == 0) continue; /* a byte 0xff of the codes */
        if (*mark == EOI) break;
        if (*mark != RST0 + restarts % 8) return false;
        restarts++;
    }
    const int64_t expected = s->interval > 0 ? (s->units - 1) / s->interval : 0;
    return restarts == expected;
}

bool qb_jpeg_plain(const uint8_t *data, size_t size, qb_jpeg_job *job) {
    if (size < 4 || data[0] != 0xff || data[1] != SOI) return false;
    scan s = {.at = data + 2, .end = data + size};
    for (;;) {
        if (s.end - s.at < 4 || s.at[0] != 0xff) return false;
        const int marker = s.at[1];
        const size_t n = u16(s.at + 2);
        const uint8_t *body = s.at + 4;
        if (n < 2 || (size_t)(s.end - s.at) - 2 < n) return false;
        s.at += 2 + n;
        if (marker == SOS) {
            if (!header_of_scan(&s, body, n - 2) || !codes(&s)) return false;
            *job = (qb_jpeg_job){.data = data, .size = size, .width = s.width, .height = s.height};
            return true;
        }
        if (!segment(&s, marker, body, n - 2)) return false;
    }
}
