#include "kernels/places.h"

int64_t qb_places_count(const qb_places *p) {
    int64_t n = 1;
    for (int32_t d = 0; d < p->rank; d++) n *= p->dim[d];
    return n;
}

qb_place qb_places_begin(const qb_places *p, int64_t i) {
    qb_place place = {0};
    for (int32_t d = p->rank - 1; d >= 0; d--) {
        place.at[d] = i % p->dim[d];
        place.base += place.at[d] * p->along[d];
        place.tuple += place.at[d] * p->named[d];
        i /= p->dim[d];
    }
    return place;
}

void qb_places_next(const qb_places *p, qb_place *place, int64_t n) {
    for (int32_t d = p->rank - 1; d >= 0; d--, n = 1) {
        place->at[d] += n;
        place->base += n * p->along[d];
        place->tuple += n * p->named[d];
        if (place->at[d] < p->dim[d]) return;
        place->at[d] = 0;
        place->base -= p->dim[d] * p->along[d];
        place->tuple -= p->dim[d] * p->named[d];
    }
}

void qb_places_simplify(qb_places *p) {
    int32_t n = 0;
    for (int32_t d = 0; d < p->rank; d++) {
        const int32_t last = n - 1;
        if (p->dim[d] == 1) continue;
        const bool joins = n > 0 && p->along[last] == p->dim[d] * p->along[d] &&
                           p->named[last] == p->dim[d] * p->named[d];
        const int32_t to = joins ? last : n++;
        p->dim[to] = joins ? p->dim[to] * p->dim[d] : p->dim[d];
        p->along[to] = p->along[d];
        p->named[to] = p->named[d];
    }
    if (n == 0) {
        p->dim[0] = 1;
        p->along[0] = p->named[0] = 0;
        n = 1;
    }
    p->rank = n;
}
