/* erf(x) = x P(x^2) / Q(x^2) up to QB_ERF_BOUND, where it is 1 in floats. Coefficients fitted by
 * least squares whose weights grow where the error is largest: 5e-8 off, 4e-7 with the roundings of
 * floats. Without an exponential it takes a third of the time of Abramowitz and Stegun 7.1.26. The
 * highest power comes first. */
#ifndef QB_CPU_ERF_INTERNAL_H
#define QB_CPU_ERF_INTERNAL_H

#define QB_ERF_BOUND 3.9f
#define QB_ERF_P                                                                                   \
    {                                                                                              \
        2.01070876e-08f, -1.98390808e-06f, 0.000145079539f, 0.00380739546f, 0.0508834124f,         \
            0.202204168f, 1.12837899f                                                              \
    }
#define QB_ERF_Q                                                                                   \
    { 0.000984057551f, 0.0145567758f, 0.11595013f, 0.512529254f, 1.0f }

#endif
