#!/usr/bin/env python3
"""Writes stats_reference.h: intervals and tests by SciPy, for test_stats.c. Needs scipy 1.7 or later.

Tango's interval has no function in SciPy: here it is found the long way, by maximizing the likelihood
under each hypothesis numerically and inverting the score test with a root finder.
"""
import pathlib
import sys

import numpy as np
from scipy import optimize, stats

Z = stats.norm.ppf(0.975)


def wilson(right, n):
    ci = stats.binomtest(right, n).proportion_ci(method="wilson")
    return 100 * ci.low, 100 * ci.high


def mcnemar(lost, gained):
    return stats.binomtest(min(lost, gained), lost + gained).pvalue if lost + gained else 1.0


def gained_probability(lost, gained, n, delta):
    """Most likely P(gained) when P(lost) - P(gained) = delta."""
    same = n - lost - gained

    def slope(q):
        rest = 1 - 2 * q - delta
        return lost / (q + delta) + gained / q - 2 * same / rest

    low, high = max(0.0, -delta) + 1e-13, (1 - delta) / 2 - 1e-13
    if slope(low) < 0:
        return low
    if slope(high) > 0:
        return high
    return optimize.brentq(slope, low, high, xtol=1e-15)


def tango(lost, gained, n):
    def score(delta):
        q = gained_probability(lost, gained, n, delta)
        variance = n * (2 * q + delta * (1 - delta))
        return (lost - gained - n * delta) / np.sqrt(variance)

    middle = (lost - gained) / n
    low = optimize.brentq(lambda d: score(d) - Z, -1 + 1e-9, middle - 1e-9)
    high = optimize.brentq(lambda d: score(d) + Z, middle + 1e-9, 1 - 1e-9)
    return 100 * low, 100 * high


def mean_interval(values):
    half = Z * stats.sem(values)
    return np.mean(values) - half, np.mean(values) + half


def main():
    out = ["/* Written by make_stats_reference.py. */"]
    out.append("static const struct { int right, n; double lo, hi; } wilson_reference[] = {")
    for right, n in [(308, 500), (958, 1000), (7548, 10000), (1, 3), (0, 12), (12, 12), (499, 500)]:
        out.append("    {%d, %d, %.12g, %.12g}," % (right, n, *wilson(right, n)))
    out.append("};\nstatic const struct { int lost, gained; double p; } mcnemar_reference[] = {")
    for lost, gained in [(0, 0), (1, 0), (5, 0), (10, 8), (15, 9), (73, 11), (200, 260), (1500, 1400)]:
        out.append("    {%d, %d, %.12g}," % (lost, gained, mcnemar(lost, gained)))
    out.append("};\nstatic const struct { int lost, gained, n; double lo, hi; } tango_reference[] = {")
    for lost, gained, n in [(10, 8, 1000), (73, 11, 1000), (9, 7, 500), (1, 1, 50), (12, 2, 44),
                            (150, 86, 1600)]:
        out.append("    {%d, %d, %d, %.10g, %.10g}," % (lost, gained, n, *tango(lost, gained, n)))
    values = [31.5, 28.25, 30.0, 33.75, 29.5]
    out.append("};\nstatic const double mean_values[] = {%s};" % ", ".join(map(str, values)))
    out.append("static const double mean_reference[] = {%.12g, %.12g};" % mean_interval(values))
    path = pathlib.Path(__file__).with_name("stats_reference.h")
    path.write_text("\n".join(out) + "\n")
    print("wrote", path, file=sys.stderr)


if __name__ == "__main__":
    main()
