"""All answers of a release some rows at a time, for as many as no memory holds.

A table of answers has a column for every attribute, of which a row of a cross table of three leaves all but
three empty: a hundred attributes would be a hundred columns of nothing. Here a row names the attributes that
it is about, and its value of each, in pairs of columns as many as the largest table has attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core.errors import NotYetError
from leastnoise.core.operators import Array
from leastnoise.query import Labels, Linear, Term
from leastnoise.release.attribute_columns import Texts
from leastnoise.release.intervals import half_widths
from leastnoise.release.release import Release

# Rows that are made together, about.
ROWS_AT_ONCE = 2**21


class _TermRows(NamedTuple):
    """One product of the workload: the name of its batch, its factors, its number and its queries."""

    name: str
    factors: Term
    number: int
    start: int
    n_rows: int


def answer_pieces(
    release: Release, *, level: float = 0.95, rows: int = ROWS_AT_ONCE
) -> Iterator[dict[str, Any]]:
    """Columns by name, some whole tables at a time: query, attributes with values, answer, error, interval.

    The columns are query, then attribute_1, value_1, attribute_2, value_2 and so on, then answer, stderr,
    lower and upper. Rows are in the order of the workload.

    Args:
        rows: about how many a piece has.

    Raises:
        NotYetError: if the answers are not those of a plan with Gaussian noise for counts of attributes, as
            they were measured.
    """
    strategy, workload = release.plan.strategy, release.plan.workload
    is_plain = release.adjusted is None and release.presented is None and not workload.ratios
    has_tables = workload.schema is not None and not any(
        isinstance(block.query, Linear) for block in workload.blocks
    )
    if strategy is None or not strategy.noise.has_normal_errors or not is_plain or not has_tables:
        raise NotYetError(
            "answers are written in pieces for counts with Gaussian noise of a table's attributes, as they "
            "were measured: not for ratios or rows of a matrix, nor adjusted or presented",
            field="release",
            remedy="write one file, as in a name that ends in .parquet",
        )
    answered = strategy.answer_pieces(workload, release.measurements)
    listed = list(_term_rows(release))
    n_pairs = max(len(one.factors) for one in listed)
    for piece in _grouped(listed, rows):
        sizes = [one.n_rows for one in piece]
        found = [answered(one.number, one.start, one.start + one.n_rows) for one in piece]
        answer, variances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        stderr = np.sqrt(variances)
        half = half_widths(workload, strategy, stderr, level, False, None)
        yield {
            "query": _repeated([one.name for one in piece], sizes),
            **_attribute_pairs(piece, n_pairs),
            "answer": answer,
            "stderr": stderr,
            "lower": answer - half,
            "upper": answer + half,
        }


def _term_rows(release: Release) -> Iterator[_TermRows]:
    """Every product of a workload, as its query lists them."""
    workload = release.plan.workload
    schema = workload.schema
    assert schema is not None
    number = start = 0
    for block in workload.blocks:
        for factors in block.query.terms(schema):
            n_rows = math.prod(factor.labels.length for factor in factors)
            yield _TermRows(block.name, factors, number, start, n_rows)
            number, start = number + 1, start + n_rows


def _grouped(listed: list[_TermRows], rows: int) -> Iterator[list[_TermRows]]:
    piece: list[_TermRows] = []
    n_rows = 0
    for one in listed:
        if piece and n_rows + one.n_rows > rows:
            yield piece
            piece, n_rows = [], 0
        piece.append(one)
        n_rows += one.n_rows
    if piece:
        yield piece


def _repeated(texts: list[str], times: list[int]) -> Texts:
    """Each text as often as it is said."""
    known = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    codes = np.array([known[text] for text in texts], dtype=np.int32)
    return Texts(tuple(known), np.repeat(codes, times))


def _attribute_pairs(piece: list[_TermRows], n_pairs: int) -> dict[str, Texts]:
    """What each row is about: attributes and values, none where a table has fewer attributes than others."""
    columns: dict[str, Texts] = {}
    sizes = [one.n_rows for one in piece]
    for place in range(n_pairs):
        titles: dict[str, int] = {}
        texts: dict[str, int] = {}
        # Tables of a cube share their labels.
        known: dict[Labels, Array] = {}
        of_terms, of_rows = [], []
        for one in piece:
            if place >= len(one.factors):
                of_terms.append(-1)
                of_rows.append(np.full(one.n_rows, -1, dtype=np.int32))
                continue
            factor = one.factors[place]
            of_terms.append(titles.setdefault(factor.title, len(titles)))
            if factor.labels not in known:
                numbers = [texts.setdefault(text, len(texts)) for text in factor.labels]
                known[factor.labels] = np.array(numbers, dtype=np.int32)
            own = known[factor.labels]
            each = math.prod(other.labels.length for other in one.factors[place + 1 :])
            of_rows.append(np.tile(np.repeat(own, each), one.n_rows // (len(own) * each)))
        codes = np.repeat(np.array(of_terms, dtype=np.int32), sizes)
        columns[f"attribute_{place + 1}"] = Texts(tuple(titles), codes)
        columns[f"value_{place + 1}"] = Texts(tuple(texts), np.concatenate(of_rows))
    return columns
