#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives the polynomials of src/ir/math_coefficients.h and src/ir/math_pieces.cpp and prints them as C++ arrays, each with its largest error.

  fit_polynomials.py [NAME ...]        needs mpmath

Each polynomial q(t) of a given degree minimizes max |weight(x) * (target(x) - q(t(x)))| over an interval (Remez exchange). The
weight turns the error of q into the relative error of the function that q is a part of. Coefficients are rounded to the precision
in which they are used one by one, lowest power first, each time with the others fitted again.
"""
import sys
from mpmath import mp, mpf as F
import mpmath as m

mp.prec = 240


def remez(target, weight, power, first, degree, lo, hi, iterations=40):
    """c with sum c[i] * power(x)**(first + i) close to target(x)."""
    n = degree - first + 1
    center, half = (hi + lo) / 2, (hi - lo) / 2
    grid = [center - half * m.cos(m.pi * F(k) / (32 * (n + 1))) for k in range(32 * (n + 1) + 1)]
    values = [(power(x), target(x), weight(x)) for x in grid]
    nodes = [32 * k for k in range(n + 1)]
    # The weight vanishes where the function does; nothing can be equalized there.
    nodes = [k if values[k][2] > 0 else k + 7 for k in nodes]
    coefficients = None
    for _ in range(iterations):
        rows, right = m.matrix(n + 1, n + 1), m.matrix(n + 1, 1)
        for k, node in enumerate(nodes):
            t, f, w = values[node]
            for i in range(n):
                rows[k, i] = w * t**(first + i)
            rows[k, n] = (-1)**k
            right[k] = w * f
        solution = m.lu_solve(rows, right)
        coefficients = [solution[i] for i in range(n)]
        residuals = [w * (f - m.polyval(coefficients[::-1], t) * t**first) for t, f, w in values]
        # Extrema with alternating signs: of neighbours with one sign the larger stays; then the best n + 1 in a row.
        chain = []
        for k, r in enumerate(residuals):
            if chain and residuals[chain[-1]] * r > 0:
                if abs(r) > abs(residuals[chain[-1]]):
                    chain[-1] = k
            elif r != 0:
                chain.append(k)
        while len(chain) > n + 1:
            chain.pop(0 if abs(residuals[chain[0]]) < abs(residuals[chain[-1]]) else -1)
        if len(chain) < n + 1 or chain == nodes:
            break
        nodes = chain
    return coefficients


def rounded(x, bits):
    exponent = int(m.floor(m.log(abs(x), 2)))
    return m.ldexp(m.nint(m.ldexp(x, bits - 1 - exponent)), exponent - bits + 1)


def least_squares(target, weight, power, first, degree, lo, hi):
    """As remez, but for the least sum of squares over Chebyshev nodes: it also works where the powers below `first` are off by a rounding."""
    n = degree - first + 1
    center, half = (hi + lo) / 2, (hi - lo) / 2
    products, right = m.matrix(n, n), m.matrix(n, 1)
    for k in range(20 * n):
        x = center - half * m.cos(m.pi * (k + F(1) / 2) / (20 * n))
        t, f, w = power(x), target(x), weight(x)
        row = [w * t**(first + i) for i in range(n)]
        for i in range(n):
            right[i] += row[i] * w * f
            for j in range(n):
                products[i, j] += row[i] * row[j]
    return list(m.lu_solve(products, right))


def fit(target, weight, power, degree, lo, hi, bits):
    """Coefficients of `bits` bits, and the largest weighted error."""
    lo, hi = F(lo), F(hi)
    c = []
    if bits >= 53:
        c = [rounded(x, bits) for x in remez(target, weight, power, 0, degree, lo, hi)]
    else:
        for first in range(degree + 1):
            known = list(c)
            rest = lambda x: target(x) - (m.polyval(known[::-1], power(x)) if known else 0)
            solve = least_squares if known else remez
            c.append(rounded(solve(rest, weight, power, first, degree, lo, hi)[0], bits))
    worst = max(abs(weight(x) * (target(x) - m.polyval(c[::-1], power(x))))
                for x in (lo + (hi - lo) * k / 4000 for k in range(4001)))
    return c, worst


def series(x, coefficients):
    return m.polyval(coefficients[::-1], x)


def taylor(f, n):
    return m.taylor(f, 0, n)


def safe(f, limit, expansion):
    """f(x), by its power series where the direct formula cancels."""
    return lambda x: series(x, expansion) if abs(x) < limit else f(x)


SQRT_HALF = m.sqrt(F(1) / 2)
LN2_HALF = m.log(2) / 2 * F("1.0001")
QUARTER = m.pi / 4 * F("1.0001")
TAN_EIGHTH = m.tan(m.pi / 8) * F("1.0001")
TINY = F(2)**-12

square = lambda x: x * x
same = lambda x: x

exp_q = safe(lambda r: (m.exp(r) - 1 - r) / r**2, TINY, [1 / m.factorial(k + 2) for k in range(16)])
expm1_over_r = safe(lambda r: m.expm1(r) / r, TINY, [1 / m.factorial(k + 1) for k in range(16)])
log1p_q = safe(lambda f: (m.log1p(f) - f) / f**2, TINY, [F(-1)**(k + 1) / (k + 2) for k in range(20)])
log1p_w = lambda f: abs(f**2 / m.log1p(f)) if f != 0 else F(0)
# log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2)
atanh_q = safe(lambda s: (2 * m.atanh(s) - 2 * s) / s**3, TINY, sum([[F(2) / (2 * k + 3), F(0)] for k in range(12)], []))


def odd(f, coefficients):
    """(f(x) / x - 1) / x^2 for an odd f with f'(0) = 1."""
    return safe(lambda x: (f(x) / x - 1) / x**2, TINY, sum([[c, F(0)] for c in coefficients], []))


def odd_weight(f):
    return lambda x: abs(x**3 / f(x)) if x != 0 else F(0)


sin_q = odd(m.sin, [F(-1)**(k + 1) / m.factorial(2 * k + 3) for k in range(12)])
cos_q = safe(lambda x: (m.cos(x) - 1 + x**2 / 2) / x**4, TINY,
             sum([[F(-1)**k / m.factorial(2 * k + 4), F(0)] for k in range(12)], []))
sinh_q = odd(m.sinh, [1 / m.factorial(2 * k + 3) for k in range(12)])
atan_q = odd(m.atan, [F(-1)**(k + 1) / (2 * k + 3) for k in range(12)])
asin_q = odd(m.asin, taylor(m.asin, 25)[3::2])
tanh_q = odd(m.tanh, taylor(m.tanh, 25)[3::2])
erf_over_x = safe(lambda x: m.erf(x) / x, TINY, taylor(m.erf, 25)[1:])
erf_rest = lambda x: erf_over_x(x) - 1
log_erfc = lambda x: m.log(m.erfc(x))
# erfc(x) exp(x^2) in u = (x - 2) / (x + 2)
scaled_erfc = lambda x: m.erfc(x) * m.exp(x * x)
erfc_map = lambda x: (x - 2) / (x + 2)

FITS = {
    # name: (bits, degree, target, weight, power, lo, hi, what)
    "Exp32": (24, 4, exp_q, lambda r: r**2 / m.exp(r), same, -LN2_HALF, LN2_HALF, "exp(r) = 1 + r + r^2 q(r)"),
    "ExpPiece32": (24, 1, expm1_over_r, lambda r: abs(r) / m.exp(r), same, -LN2_HALF / 32, LN2_HALF / 32,
                   "exp(r) = 1 + r q(r), |r| <= log(2) / 64"),
    "Log32": (24, 8, log1p_q, log1p_w, same, SQRT_HALF - 1, 1 / SQRT_HALF - 1, "log(1 + f) = f + f^2 q(f)"),
    "Tanh32": (24, 4, tanh_q, odd_weight(m.tanh), square, 0, F("0.65"), "tanh(x) = x + x^3 q(x^2), |x| <= 0.65"),
    "Erf32": (24, 5, erf_rest, lambda x: 1 / erf_over_x(x), square, 0, F("0.88"), "erf(x) = x + x q(x^2), |x| <= 0.875"),
    "LogErfc32": (24, 7, log_erfc, lambda x: m.erfc(x) / m.erf(x), same, F("0.87"), F("4.0"),
                  "erf(x) = 1 - exp(q(x)), 0.875 <= x <= 4"),
    "Sin32": (24, 2, sin_q, odd_weight(m.sin), square, 0, QUARTER, "sin(x) = x + x^3 q(x^2), |x| <= pi / 4"),
    "Cos32": (24, 2, cos_q, lambda x: x**4 / m.cos(x), square, 0, QUARTER, "cos(x) = 1 - x^2 / 2 + x^4 q(x^2), |x| <= pi / 4"),
    # In double, for results in float.
    "ExpShort": (53, 5, exp_q, lambda r: r**2 / m.exp(r), same, -LN2_HALF, LN2_HALF, "exp(r) = 1 + r + r^2 q(r)"),
    "LogShort": (53, 3, atanh_q, lambda s: abs(s**3 / (2 * m.atanh(s))) if s else F(0), square, 0, F("0.1716"),
                 "log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2)"),
    "SinShort": (53, 3, sin_q, odd_weight(m.sin), square, 0, QUARTER, "sin(x) = x + x^3 q(x^2)"),
    "CosShort": (53, 3, cos_q, lambda x: x**4 / m.cos(x), square, 0, QUARTER, "cos(x) = 1 - x^2 / 2 + x^4 q(x^2)"),
    "AtanShort": (53, 5, atan_q, odd_weight(m.atan), square, 0, TAN_EIGHTH, "atan(x) = x + x^3 q(x^2), |x| <= tan(pi / 8)"),
    "AsinShort": (53, 6, asin_q, odd_weight(m.asin), square, 0, F("0.5001"), "asin(x) = x + x^3 q(x^2), |x| <= 1 / 2"),
    "SinhShort": (53, 3, sinh_q, odd_weight(m.sinh), square, 0, F("1.0001"), "sinh(x) = x + x^3 q(x^2), |x| <= 1"),
    # In double, for results in double.
    "Exp": (53, 9, exp_q, lambda r: r**2 / m.exp(r), same, -LN2_HALF, LN2_HALF, "exp(r) = 1 + r + r^2 q(r)"),
    "Log": (53, 7, atanh_q, lambda s: abs(s**3 / (2 * m.atanh(s))) if s else F(0), square, 0, F("0.1716"),
            "log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2)"),
    "Sin": (53, 5, sin_q, odd_weight(m.sin), square, 0, QUARTER, "sin(x) = x + x^3 q(x^2)"),
    "Cos": (53, 5, cos_q, lambda x: x**4 / m.cos(x), square, 0, QUARTER, "cos(x) = 1 - x^2 / 2 + x^4 q(x^2)"),
    "Atan": (53, 10, atan_q, odd_weight(m.atan), square, 0, TAN_EIGHTH, "atan(x) = x + x^3 q(x^2), |x| <= tan(pi / 8)"),
    "Asin": (53, 12, asin_q, odd_weight(m.asin), square, 0, F("0.5001"), "asin(x) = x + x^3 q(x^2), |x| <= 1 / 2"),
    "Sinh": (53, 7, sinh_q, odd_weight(m.sinh), square, 0, F("1.0001"), "sinh(x) = x + x^3 q(x^2), |x| <= 1"),
    "Erf": (53, 12, erf_over_x, lambda x: 1 / erf_over_x(x), square, 0, F("1.0001"), "erf(x) = x q(x^2), |x| <= 1"),
    "Erfc": (53, 16, scaled_erfc, lambda x: 1 / scaled_erfc(x) * m.erfc(x) / m.erf(x), erfc_map, F("0.9999"), F("6.001"),
             "erfc(x) = exp(-x^2) q((x - 2) / (x + 2)), 1 <= x <= 6, error relative to erf"),
}


# name: (what, degree of q, pieces per unit, number of the last piece, q)
# Coefficients in 24 bits: f(x) = x q(|x|), q around k / pieces per unit, in t = |x| * pieces per unit - k. The first and the last piece are halves.
PIECES = {
    "Erf": ("erf(x) = x q(|x|)", 4, F("7.75"), 31, erf_over_x),
    "Tanh": ("tanh(x) = x q(|x|)", 5, F(3), 30, lambda x: m.tanh(x) / x if x != 0 else F(1)),
}
ENTRIES = 32


def fit_piece(q, degree, lo, hi):
    """Coefficients of 24 bits, lowest power first, and the largest relative error."""
    c = []
    for first in range(degree + 1):
        known = list(c)
        rest = lambda t: q(t) - (m.polyval(known[::-1], t) if known else 0)
        c.append(rounded(least_squares(rest, lambda t: 1 / q(t), same, first, degree, lo, hi)[0], 24))
    grid = [lo + (hi - lo) * k / 200 for k in range(201)]
    return c, max(abs(m.polyval(c[::-1], t) / q(t) - 1) for t in grid)


def print_pieces(name):
    what, degree, per_unit, last, q = PIECES[name]
    half, pieces, worst = F(1) / 2, [], F(0)
    for k in range(last + 1):
        c, error = fit_piece(lambda t: q((k + t) / per_unit), degree, -half if k > 0 else F(0), half if k < last else F(0))
        pieces.append(c)
        worst = max(worst, error)
    pieces += [pieces[-1]] * (ENTRIES - len(pieces))
    print(f"// {what}, {last + 1} pieces; 2^{float(m.log(worst, 2)):.1f} with the first coefficient rounded")
    print(f"constexpr float k{name}[][kMathEntries] = {{")
    for power in range(degree + 1):
        print("    {" + ", ".join(spelled(c[power], 24) for c in pieces) + "},")
    print("};", flush=True)


def print_powers():
    print(f"// 2^(k / {ENTRIES})")
    print("constexpr float kPowers[kMathEntries] = {" + ", ".join(spelled(rounded(F(2)**(F(k) / ENTRIES), 24), 24) for k in range(ENTRIES)) + "};")


def spelled(x, bits):
    mantissa, exponent = float(x).hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent + ("F" if bits == 24 else "")


def main():
    names = sys.argv[1:] or [*FITS, *(name + "Pieces" for name in PIECES), "Powers"]
    for name in names:
        if name == "Powers":
            print_powers()
            continue
        if name.removesuffix("Pieces") != name:
            print_pieces(name.removesuffix("Pieces"))
            continue
        bits, degree, target, weight, power, lo, hi, what = FITS[name]
        c, error = fit(target, weight, power, degree, lo, hi, bits)
        kind = "float" if bits == 24 else "double"
        print(f"// {what}; 2^{float(m.log(error, 2)):.1f}")
        print(f"constexpr {kind} k{name}[] = {{" + ", ".join(spelled(x, bits) for x in c) + "};", flush=True)


if __name__ == "__main__":
    main()
