/* Extremes of each channel of a tensor: how unequal the channels are that one range has to hold.
 *
 * Channels are axis 1 where a tensor has four axes or more (images), else its last one (tokens,
 * features). Like all statistics they depend on the multiset of values alone. */
#ifndef QB_CALIB_CHANNELS_H
#define QB_CALIB_CHANNELS_H

#include "base/ctx.h"
#include "kernels/tensor.h"

#define QB_CHANNELS_MOST 65536 /* a tensor with more has none */
#define QB_CHANNELS_MIXED (-1)

typedef struct qb_channels {
    int32_t n;        /* 0: nothing seen; QB_CHANNELS_MIXED: numbers that differ, or too many */
    float *min, *max; /* [n] of the finite values; +inf and -inf where there were none */
} qb_channels;

/* How many channels a tensor of this shape has: 0 for a scalar; below 0 where it is open. */
int64_t qb_channels_of(const qb_shape *shape);
/* Adds an f32 tensor in any layout, without its padding lanes. */
qb_status qb_channels_add(qb_ctx *cx, qb_channels *channels, const qb_tensor *tensor);
/* into += from; commutative and associative. */
qb_status qb_channels_merge(qb_ctx *cx, qb_channels *into, const qb_channels *from);
/* Room for n channels (at most QB_CHANNELS_MOST) that held nothing yet. */
qb_status qb_channels_alloc(qb_ctx *cx, int32_t n, qb_channels *out);
void qb_channels_release(qb_channels *channels); /* accepts zeroed */

/* What the extremes say of one range for all channels. */
typedef struct qb_channels_spread {
    float widest, median, narrowest; /* reach of a channel: its largest |value| */
    int32_t widest_at;
    int32_t few_levels; /* channels that reach less than a sixteenth of the widest: below 4 bits */
} qb_channels_spread;
/* Of channels with finite values; false where there are none. */
bool qb_channels_spread_of(qb_ctx *cx, const qb_channels *channels, qb_channels_spread *out);
#endif
