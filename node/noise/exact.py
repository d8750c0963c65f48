"""Comparisons with exp in rational arithmetic: what decides a sample where floating point may not."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from node.noise.source import Source

_DIGITS_FIRST = 40


def is_below_exp(whole: int, first_word: int, weight: Fraction, phi: Fraction, source: Source) -> bool:
    """Whether whole + W < weight exp(-phi), for a uniform real W in [0, 1).

    The first 64 bits of W are given; the rest are drawn, with more digits of exp, for as long as it takes.
    """
    bits, prefix, digits = 64, whole << 64 | first_word, _DIGITS_FIRST
    while True:
        unit = Fraction(1, 1 << bits)
        lower, upper = exp_minus(phi, digits)
        if (prefix + 1) * unit <= weight * lower:
            return True
        if prefix * unit >= weight * upper:
            return False
        prefix = prefix << 64 | int(source.words(1)[0])
        bits, digits = bits + 64, digits + 20


def exp_minus(phi: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals around exp(-phi) that close in on it as `digits` grows.

    decimal's exp is correctly rounded, so one unit in the last place on either side is a proof.
    """
    if phi == 0:  # the one rational value: no digits would ever separate it from an equal prefix
        return Fraction(1), Fraction(1)
    if phi > 50 * digits:  # far below any prefix of zeros worth the digits; the limit moves with `digits`
        return Fraction(0), exp_minus(Fraction(50 * digits), digits)[1]
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    numerator, denominator = Decimal(phi.numerator), Decimal(phi.denominator)
    smallest = down.exp(up.divide(numerator, denominator).copy_negate()).next_minus(down)
    largest = up.exp(down.divide(numerator, denominator).copy_negate()).next_plus(up)
    return Fraction(smallest), Fraction(largest)
