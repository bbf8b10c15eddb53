"""How accurate an answer must be: in counts, or in per cent of a public size.

    stderr=50                             a standard error of 50
    within=100                            at most 100 off, 95 times in 100
    within=(100, 0.99)                    at most 100 off, 99 times in 100
    expected=20_000, stderr="5%"          a standard error of 5 % of 20,000, which is 1,000
    expected=20_000, within=("10%", 0.95)
    expected=[20_000, 500], stderr="5%"   1,000 for the first row of the query, 25 for the second

The expected size is something everybody may know: a census, last year's publication, a guess. It is never
read from the data, because noise that depends on a count would reveal the count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from statistics import NormalDist

import numpy as np

from leastnoise.core.errors import QueryError

CountOrShare = float | str
WithinTarget = tuple[CountOrShare, float]

# The level of intervals unless another is given: what ± means everywhere.
USUAL_LEVEL = 0.95
# One public size for all rows of a query, or one for each.
Expected = float | tuple[float, ...]

_PUBLIC_SIZE = "be a positive, finite number that is public, never a count of the data"
# Digits as people write them: float() alone would also take "1e3", "nan" and "٥".
_PERCENT = re.compile(r"\s*([0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})\s*%\s*", re.ASCII)


def checked_expected(expected: object) -> Expected | None:
    """A public size as a float, several as a tuple of floats; None where none is given.

    Raises:
        QueryError: if they are not positive, finite numbers; of several, names the first that is not.
    """
    if expected is None:
        return None
    if isinstance(expected, (list, tuple, range, np.ndarray)):
        return _checked_sizes(expected)
    size = to_float(expected)
    if size is None or not 0 < size < math.inf:
        how = "for rows of different sizes give a list, in the order of the query's labels"
        raise QueryError.must(
            "expected",
            f"{_PUBLIC_SIZE}, or a list with one for each row",
            given=expected,
            remedy=how if isinstance(expected, (dict, set, str)) else None,
        )
    return size


def _checked_sizes(given: Iterable[object]) -> tuple[float, ...]:
    """One public size for each row of a query."""
    sizes = []
    for number, one in enumerate(given):
        size = to_float(one)
        if size is None or not 0 < size < math.inf:
            nested = isinstance(one, (list, tuple, np.ndarray))
            how = "a cross table's are given in one list, in the order of its labels"
            raise QueryError.must(
                f"expected[{number}]",
                _PUBLIC_SIZE,
                given=type(one) if nested else one,
                remedy=how if nested else None,
            )
        sizes.append(size)
    if not sizes:
        raise QueryError.must("expected", "hold one size for each row of the query", given=())
    return tuple(sizes)


def checked_stderr(stderr: object, expected: Expected | None) -> CountOrShare:
    """A standard error as a float, or as a share written one way, so that equal queries have one digest.

    Raises:
        QueryError: if it is neither, or a share of no size.
    """
    if is_percent(stderr):
        share = _checked_percent("stderr", stderr)
        _require_expected(f"stderr={share!r}", "stderr='5%'", expected)
        return share
    number = to_float(stderr)
    if number is None or not 0 < number < math.inf:
        hint = "or a share of expected=, such as '5%'" if isinstance(stderr, str) else None
        raise QueryError.must("stderr", "be a positive, finite number", given=stderr, remedy=hint)
    return number


def checked_within(given: object, expected: Expected | None) -> WithinTarget:
    """A half-width, in counts or as a share, and a level; 95 % where none is given.

    Raises:
        QueryError: if it is not such a pair, or asks for a standard error that no float can hold.
    """
    wanted = "be a half-width, as in within=100, or (half-width, level), as in within=(100, 0.99)"
    pair = given if isinstance(given, (tuple, list)) else (given, USUAL_LEVEL)
    if len(pair) != 2:
        raise QueryError.must("within", wanted, given=given)
    half_width: CountOrShare | None = to_float(pair[0])
    level = to_float(pair[1])
    if is_percent(pair[0]):
        half_width = _checked_percent("within", pair[0])
        _require_expected(f"within={given!r}", "within=('10%', 0.95)", expected)
    if half_width is None or level is None:
        raise QueryError.must("within", wanted, given=given)
    sizes = in_counts(half_width, expected)
    if not all(0 < size < math.inf for size in sizes) or not 0 < level < 1:
        raise QueryError.must("within", "be a positive half-width and a level between 0 and 1", given=given)
    if not all(0 < stderr_within(size, level) < math.inf for size in sizes):
        raise QueryError.must(
            "within",
            "need a standard error that a float can hold",
            given=given,
            remedy="give a larger or a smaller target",
        )
    return half_width, level


def is_percent(size: object) -> bool:
    """Whether something is a text that ends in a per cent sign."""
    return isinstance(size, str) and size.rstrip().endswith("%")


def _checked_percent(what: str, given: object) -> str:
    """The share, written with as few digits as identify it.

    Example:
        >>> _checked_percent("stderr", " 5.0 %")
        '5%'
    """
    found = _PERCENT.fullmatch(str(given))
    number = float(found[1]) if found else 0.0
    if not 0 < number < math.inf:
        raise QueryError.must(
            what, "be a positive number with a per cent sign, as '5%' or '0.5%', if in per cent", given=given
        )
    return _percent(number)


def _percent(number: float) -> str:
    return f"{np.format_float_positional(number, trim='-')}%"


def _require_expected(given: str, example: str, expected: Expected | None) -> None:
    if expected is None:
        raise QueryError(
            f"{given} is a share of a size that is not given",
            field="expected",
            remedy="say how large the counts are expected to be, from public knowledge and not from the "
            f"data: Total(expected=20_000, {example})",
        )


def in_counts(size: CountOrShare, expected: Expected | None) -> tuple[float, ...]:
    """A half-width or standard error in counts, whichever way it was given: for all rows, or for each.

    Example:
        >>> in_counts(50.0, None), in_counts("5%", 20_000), in_counts("5%", (20_000, 500))
        ((50.0,), (1000.0,), (1000.0, 25.0))
    """
    if isinstance(size, str):
        assert expected is not None
        sizes = expected if isinstance(expected, tuple) else (expected,)
        # Divided last: 7 / 100 is no float, 7 · 20,000 is one.
        return tuple(float(size[:-1]) * one / 100 for one in sizes)
    return (size,)


def times(size: CountOrShare, factor: float) -> CountOrShare:
    """A size multiplied by a factor, written in the same way.

    Example:
        >>> times(50.0, 2), times("2.5%", 2)
        (100.0, '5%')
    """
    return _percent(float(size[:-1]) * factor) if isinstance(size, str) else size * factor


def size_to_text(size: CountOrShare, expected: Expected | None) -> str:
    """A size as people write it.

    Example:
        >>> size_to_text(1500.0, None), size_to_text("5%", 20_000), size_to_text("5%", (300, 20_000))
        ('1,500', '5% of 20,000', '5% of 300 to 20,000')
    """
    if isinstance(size, str):
        sizes = expected if isinstance(expected, tuple) else (expected or 0.0,)
        ends = dict.fromkeys(f"{end:,.6g}" for end in (min(sizes), max(sizes)))
        return f"{_percent(float(f'{float(size[:-1]):.6g}'))} of {' to '.join(ends)}"
    return f"{size:,.6g}" if size < 1e6 else f"{size:.6g}"


def stderr_within(half_width: float, level: float) -> float:
    """σ such that N(0, σ²) stays within the half-width with probability `level`."""
    # The lower tail: (1 + level) / 2 rounds to 1 for levels next to 1.
    z = -NormalDist().inv_cdf((1 - level) / 2)
    return half_width / z if z > 0 else math.inf


def to_float(value: object) -> float | None:
    """A number as a float, so that equal queries have one digest; None if it is no number."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
