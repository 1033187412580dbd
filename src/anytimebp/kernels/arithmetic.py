"""Scalar functions that kernels build on."""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from anytimebp.kernels.jit import UNCOMPILED, kernel

ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest whole number in the low bits
ONE, ROOT_OF_HALF, WHOLE = 0x3FF0000000000000, 0x3FE6A09E667F3BCD, 0x4330000000000000  # bits of 1, 0.5**0.5, 2**52
SMALLEST = -708.0  # under this, exp is no longer a normal double and is taken as zero


@kernel(inline=True)
def log(x):
    """Return the logarithm, -inf at zero."""
    return math.log(x) if x > 0.0 else -np.inf


@kernel(inline=True)
def add_exactly(high, low, x):
    """Add x to the unevaluated sum high + low without losing digits. Must not be compiled with `reassoc`."""
    total = high + x
    part = total - high
    return total, low + ((high - (total - part)) + (x - part))


if UNCOMPILED:

    def exp(x):
        """Return the exponential of a number that is at most some 700."""
        return math.exp(x) if x > SMALLEST else 0.0

    def normal_log(x):
        """Return the logarithm of a positive normal number, anything for other numbers."""
        return math.log(x) if x > 0.0 else 0.0

    larger, smaller = max, min

else:

    def _chooses(comparison: str) -> Any:
        """Return a function of two numbers, none of them NaN, that returns the one for which the comparison holds.

        Python's `max` and `min` would leave it to the compiler to find out that there is no NaN, and it does not: only
        of these, a loop's largest or smallest number is vectorised.
        """

        @intrinsic
        def choose(_context: Any, _a: Any, _b: Any) -> Any:
            def build(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
                flags = ("nnan", "nsz")
                return builder.select(builder.fcmp_ordered(comparison, *given, flags=flags), *given, flags=flags)

            return types.float64(types.float64, types.float64), build

        return choose

    larger, smaller = _chooses(">"), _chooses("<")

    @kernel(frozenset({"contract"}), inline=True)
    def exp(x):
        """Return the exponential of a number that is at most some 700, to the last bit or two.

        Unlike the C library's, this one is vectorised by the compiler: 1.5 ns instead of 5. With k the whole number
        nearest to x / log 2, exp x = 2**k exp r, and exp r is 1 + 2 p / (q - p) with the polynomials of Cephes. Must
        not be compiled with `reassoc`, which would cancel ROUND.
        """
        shifted = x * 1.4426950408889634 + ROUND
        k = shifted - ROUND
        r = x - k * 6.93145751953125e-1
        r = r - k * 1.42860682030941723212e-6
        s = r * r
        p = r * (9.99999999999999999910e-1 + s * (3.02994407707441961300e-2 + s * 1.26177193074810590878e-4))
        q = 2.00000000000000000009e0 + s * (
            2.27265548208155028766e-1 + s * (2.52448340349684104192e-3 + s * 3.00198505138664455042e-6)
        )
        power = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)
        return (1.0 + 2.0 * p / (q - p)) * power if x > SMALLEST else 0.0

    @kernel(frozenset({"contract"}), inline=True)
    def normal_log(x):
        """Return the logarithm of a positive normal number, to the last bit or two; anything for other numbers.

        Vectorised as `exp` is. With x = 2**k m and m between the roots of 1/2 and 2, log x = k log 2 + log m, the last
        by the polynomial of FDLIBM. Unsigned numbers throughout: a shift of signed ones is not vectorised.
        """
        bits = np.float64(x).view(np.uint64)
        biased = (bits + np.uint64(ONE - ROOT_OF_HALF)) >> np.uint64(52)
        m = np.uint64(bits + np.uint64(ONE) - (biased << np.uint64(52))).view(np.float64)
        k = np.uint64(biased | np.uint64(WHOLE)).view(np.float64) - (4503599627370496.0 + 1023.0)
        f = m - 1.0
        s = f / (2.0 + f)
        z = s * s
        rest = 2.222219843214978396e-1 + z * (
            1.818357216161805012e-1 + z * (1.531383769920937332e-1 + z * 1.479819860511658591e-1)
        )
        rest = z * (6.666666666666735130e-1 + z * (3.999999999940941908e-1 + z * (2.857142874366239149e-1 + z * rest)))
        half = 0.5 * f * f
        return k * 6.93147180369123816490e-1 - ((half - (s * (half + rest) + k * 1.90821492927058770002e-10)) - f)
