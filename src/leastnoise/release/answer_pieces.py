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
from leastnoise.query import Labels, ProductTerm, Term
from leastnoise.release.attribute_columns import Texts
from leastnoise.release.intervals import half_widths
from leastnoise.release.release import Release
from leastnoise.strategy import StoredIntegers, Structured, labelled_values, product_variances

# Rows that are made together, about.
ROWS_AT_ONCE = 2**21


class _TermRows(NamedTuple):
    """One product of the workload: the name of its batch, its factors, and its place among the products."""

    name: str
    factors: Term
    number: int
    term: ProductTerm


def answer_pieces(
    release: Release, *, level: float = 0.95, rows: int = ROWS_AT_ONCE
) -> Iterator[dict[str, Any]]:
    """Columns by name, some whole tables at a time: query, attributes with values, answer, error, interval.

    The columns are query, then attribute_1, value_1, attribute_2, value_2 and so on, then answer, stderr,
    lower and upper. Rows are in the order of the workload.

    Args:
        rows: about how many a piece has.

    Raises:
        NotYetError: if the answers are not those of a plan in blocks with Gaussian noise, as they were
            measured, counts alone.
    """
    strategy, workload = release.plan.strategy, release.plan.workload
    is_plain = release.adjusted is None and release.presented is None and not workload.ratios
    is_divisible = isinstance(strategy, Structured) and strategy.noise.has_normal_errors
    if not is_divisible or not is_plain:
        raise NotYetError(
            "answers are written in pieces for plans made of blocks with Gaussian noise, for counts and as "
            "they were measured: not for ratios, nor adjusted or presented",
            field="release",
            remedy="write one file, as in a name that ends in .parquet",
        )
    assert isinstance(strategy, Structured)
    view = strategy.view(workload)
    measured = release.measurements
    if isinstance(measured, StoredIntegers):
        known: Any = strategy.stored_components(measured)
    else:
        known = strategy.components(measured)
    listed = list(_term_rows(release))
    n_pairs = max(len(one.factors) for one in listed)
    for piece in _grouped(listed, rows):
        sizes = [one.term.n_rows for one in piece]
        answers = [labelled_values(view, one.term, known, 1)[:, 0] for one in piece]
        variances = [
            np.broadcast_to(product_variances(view, one.number), n)
            for one, n in zip(piece, sizes, strict=True)
        ]
        answer, stderr = np.concatenate(answers), np.sqrt(np.concatenate(variances))
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
    """Every product of a workload, as its query lists them and as the strategy sees it."""
    workload = release.plan.workload
    strategy, schema = release.plan.strategy, workload.schema
    assert isinstance(strategy, Structured)
    assert schema is not None
    products = enumerate(strategy.view(workload).products.terms)
    for block in workload.blocks:
        for factors in block.query.terms(schema):
            number, term = next(products)
            # Attributes with a single value are factors of the query, and no axes of the product.
            assert math.prod(factor.labels.length for factor in factors) == term.n_rows
            yield _TermRows(block.name, factors, number, term)


def _grouped(listed: list[_TermRows], rows: int) -> Iterator[list[_TermRows]]:
    piece: list[_TermRows] = []
    n_rows = 0
    for one in listed:
        if piece and n_rows + one.term.n_rows > rows:
            yield piece
            piece, n_rows = [], 0
        piece.append(one)
        n_rows += one.term.n_rows
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
    sizes = [one.term.n_rows for one in piece]
    for place in range(n_pairs):
        titles: dict[str, int] = {}
        texts: dict[str, int] = {}
        # Tables of a cube share their labels.
        known: dict[Labels, Array] = {}
        of_terms, of_rows = [], []
        for one in piece:
            if place >= len(one.factors):
                of_terms.append(-1)
                of_rows.append(np.full(one.term.n_rows, -1, dtype=np.int32))
                continue
            factor = one.factors[place]
            of_terms.append(titles.setdefault(factor.title, len(titles)))
            if factor.labels not in known:
                numbers = [texts.setdefault(text, len(texts)) for text in factor.labels]
                known[factor.labels] = np.array(numbers, dtype=np.int32)
            own = known[factor.labels]
            each = math.prod(other.labels.length for other in one.factors[place + 1 :])
            of_rows.append(np.tile(np.repeat(own, each), one.term.n_rows // (len(own) * each)))
        codes = np.repeat(np.array(of_terms, dtype=np.int32), sizes)
        columns[f"attribute_{place + 1}"] = Texts(tuple(titles), codes)
        columns[f"value_{place + 1}"] = Texts(tuple(texts), np.concatenate(of_rows))
    return columns
