#!/usr/bin/env python3
"""Writes stats_reference.h: intervals and tests by SciPy, for test_stats.c. Needs scipy 1.7 or later.

With --check nothing is written: exit code 1 when the file holds something else (77 without scipy).

Tango's interval has no function in SciPy: here it is found the long way, by maximizing the likelihood
under each hypothesis numerically and inverting the score test with a root finder. The bootstrap's median
of n distinct values is known exactly: it is at most the k-th of them as often as a binomial(n, k/n)
variable is above n/2 (Efron, "Bootstrap methods: another look at the jackknife", 1979, section 3).
"""
import math
import pathlib
import sys

try:
    import numpy as np
    from scipy import optimize, stats
except ImportError as error:
    print("skipped:", error, file=sys.stderr)
    sys.exit(77)

Z = stats.norm.ppf(0.975)
MEDIAN_OF = (5, 21, 41)  # odd


def wilson(right, n):
    ci = stats.binomtest(right, n).proportion_ci(method="wilson")
    return 100 * ci.low, 100 * ci.high


def mcnemar(lost, gained):
    return stats.binomtest(min(lost, gained), lost + gained).pvalue if lost + gained else 1.0


def gained_probability(lost, gained, n, delta):
    """Most likely P(gained) when P(lost) - P(gained) = delta."""
    same = n - lost - gained

    def slope(q):
        total = -2 * same / (1 - 2 * q - delta) if same else 0.0
        total += lost / (q + delta) if lost else 0.0
        return total + (gained / q if gained else 0.0)

    low, high = max(0.0, -delta) + 1e-15, (1 - delta) / 2 - 1e-15
    if slope(low) < 0:
        return low
    if slope(high) > 0:
        return high
    return optimize.brentq(slope, low, high, xtol=1e-16)


def tango(lost, gained, n):
    def score(delta):
        q = gained_probability(lost, gained, n, delta)
        variance = n * (2 * q + delta * (1 - delta))
        return (lost - gained - n * delta) / np.sqrt(variance)

    middle, step = (lost - gained) / n, 1e-12
    low, high = -1.0, 1.0
    if gained < n:
        low = optimize.brentq(lambda d: score(d) - Z, -1 + step, middle - step, xtol=1e-15)
    if lost < n:
        high = optimize.brentq(lambda d: score(d) + Z, middle + step, 1 - step, xtol=1e-15)
    return 100 * low, 100 * high


def mean_interval(values):
    half = Z * stats.sem(values)
    return np.mean(values) - half, np.mean(values) + half


def median_shares(n):
    """P(the median of n draws with replacement is at most the k-th of n values), k = 1..n."""
    return [stats.binom.sf((n - 1) // 2, n, k / n) for k in range(1, n + 1)]


def wilson_rows():
    counts = [1, 2, 3, 5, 10, 29, 50, 100, 500, 1000, 10000, 50000, 1000000, 1000000000]
    rows = {(right, n) for n in counts for right in (0, 1, n // 3, n // 2, n - 1, n)}
    rows |= {(308, 500), (958, 1000), (7548, 10000), (12, 12), (499, 500)}
    return ["    {%d, %d, %.12g, %.12g}," % (r, n, *wilson(r, n)) for r, n in sorted(rows)]


def mcnemar_rows():
    rows = {(a, b) for a in (0, 1, 2, 5, 10, 25) for b in (0, 1, 2, 5, 10, 25, 60)}
    rows |= {(10, 8), (15, 9), (73, 11), (200, 260), (1500, 1400), (20000, 20500), (250000, 251500),
             (600000, 600000), (0, 900), (3000, 10)}
    return ["    {%d, %d, %.12g}," % (a, b, mcnemar(a, b)) for a, b in sorted(rows)]


def tango_rows():
    rows = {(10, 8, 1000), (73, 11, 1000), (9, 7, 500), (1, 1, 50), (12, 2, 44), (150, 86, 1600),
            (0, 0, 1), (0, 0, 10), (0, 0, 100000), (1, 0, 1), (10, 0, 10), (1, 0, 500), (5, 0, 500),
            (5, 5, 10), (7, 3, 10), (200, 200, 500), (800, 300, 50000), (12000, 11000, 1000000),
            (1, 7, 21), (6, 16, 161)}
    return ["    {%d, %d, %d, %.10g, %.10g}," % (*row, *tango(*row)) for row in sorted(rows)]


def mean_rows():
    rng = np.random.default_rng(1)
    lists = [[31.5, 28.25, 30.0, 33.75, 29.5], [1, 3], [-2.5, 4.5, 0.5, -8], [7, 7, 7],
             [round(x, 3) for x in rng.normal(48, 0.02, 9)]]
    width = max(map(len, lists))
    return ["    {%d, {%s}, %.12g, %.12g}," % (len(v), ", ".join(map(str, v + [0] * (width - len(v)))),
                                               *mean_interval(v)) for v in lists], width


def text():
    means, width = mean_rows()
    parts = [
        ("int64_t right, n; double lo, hi;", "wilson_reference", wilson_rows()),
        ("int64_t lost, gained; double p;", "mcnemar_reference", mcnemar_rows()),
        ("int64_t lost, gained, n; double lo, hi;", "tango_reference", tango_rows()),
        ("int n; double value[%d], lo, hi;" % width, "mean_reference", means),
        ("int n; double share[%d];" % max(MEDIAN_OF), "median_reference",
         ["    {%d, {%s}}," % (n, ", ".join("%.9g" % p for p in median_shares(n))) for n in MEDIAN_OF]),
    ]
    lines = ["/* Written by make_stats_reference.py, then formatted. */", "#include <stdint.h>"]
    for fields, name, rows in parts:
        lines += ["static const struct { %s } %s[] = {" % (fields, name), *rows, "};"]
    return "\n".join(lines) + "\n"


def numbers(source):
    return [float(word) for word in source.replace("{", " ").replace("}", " ").replace(",", " ").split()
            if word.lstrip("+-")[:1].isdigit()]


def same(one, two):
    """Equal but for the last digits, in which releases of SciPy may differ."""
    a, b = numbers(one), numbers(two)
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-8, abs_tol=1e-8) for x, y in zip(a, b))


def main():
    path = pathlib.Path(__file__).with_name("stats_reference.h")
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if same(path.read_text(), text()) else "%s is not what SciPy says" % path)
    path.write_text(text())
    print("wrote", path, file=sys.stderr)


if __name__ == "__main__":
    main()
