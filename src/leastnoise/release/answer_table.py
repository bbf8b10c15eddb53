"""All answers of a release as one table: what frames and files have in common.

One row for each count, then one for each mean, share or ratio. Columns are arrays of numbers, lists of texts,
or `Texts` where few different ones repeat.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise.query import Labels, Query, Schema, Workload, workload_of_query
from leastnoise.release.attribute_columns import Texts, attribute_columns

if TYPE_CHECKING:
    from leastnoise.release.release import Release

# The columns of answers, whatever release they are of; attributes of these names are kept apart.
OWN_COLUMNS = ("query", "label", "answer", "unadjusted", "stderr", "lower", "upper", "note")


def interval_columns(level: float) -> dict[str, str]:
    """How files name the ends of intervals at a level: words that no language has to quote.

    Example:
        >>> interval_columns(0.95), interval_columns(0.999)["lower"]
        ({'lower': 'lower_95', 'upper': 'upper_95'}, 'lower_99_9')
    """
    # Shifted as a decimal, because 100 * 0.999 is no 99.9 in floats.
    per_cent = f"{Decimal(repr(level)).scaleb(2).normalize():f}".replace(".", "_")
    return {end: f"{end}_{per_cent}" for end in ("lower", "upper")}


def answer_table(
    release: Release, *, level: float = 0.95, simultaneous: bool = False, taken: Collection[str] = ()
) -> dict[str, Any]:
    """Columns by name: query, label, attributes, answer, and what is known of its error.

    A column for every attribute that the queries mention stands after the label, in schema order, as
    `attribute_columns` makes it. An adjusted release has a column "unadjusted". Where there are ratios, a
    last column, "note", says which of them are not determined. The numbers of a presented release are those
    that it shows, with a column "reliability" where it has a limit.

    Args:
        taken: further names that no attribute may have.
    """
    columns = release.columns(level=level, simultaneous=simultaneous)
    workload = release.plan.workload
    ratios = release.ratio_columns(level=level) if workload.ratios else None
    if release.presented is not None:
        columns = release.presented.presented(columns, is_rounded=True)
        ratios = None if ratios is None else release.presented.presented(ratios, is_rounded=False)
    if ratios is not None:
        columns = _with_ratios(columns, ratios)
    attributes = attribute_columns(_with_ratio_rows(workload), {*OWN_COLUMNS, *columns, *taken})
    # The first two are texts.
    held = list(columns.items())
    return {**dict(held[:2]), **attributes, **dict(held[2:])}


def _with_ratios(counts: Mapping[str, Any], ratios: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of all counts, with the ratios after them and a note for each row."""
    missing = np.full(len(ratios["query"]), np.nan)
    joined: dict[str, Any] = {}
    for name, values in counts.items():
        own = ratios.get("estimate" if name == "answer" else name, missing)
        joined[name] = values + own if isinstance(values, list) else np.concatenate([values, own])
    return joined | {"note": [""] * len(counts["query"]) + ratios["note"]}


def _with_ratio_rows(workload: Workload) -> Workload:
    """The workload with a batch for every ratio, so that its rows have attributes like others."""
    if workload.schema is None or not workload.ratios:
        return workload
    shown = [workload_of_query(ratio.parts.shown_as, workload.schema).blocks[0] for ratio in workload.ratios]
    return Workload((*workload.blocks, *shown), workload.schema)


def shaped_frame(query: Query, labels: Labels, schema: Schema | None, columns: Mapping[str, Any]) -> Any:
    """A pandas frame indexed as a query is shaped: by attributes, or by labels if it is no product."""
    import pandas as pd

    factors = None if schema is None else query.factors(schema)
    if factors:
        levels: list[Sequence[str]] = [list(factor.labels) for factor in factors]
        index = pd.MultiIndex.from_product(levels, names=[factor.title for factor in factors])
        if len(factors) == 1:
            index = index.get_level_values(0)
    else:
        index = pd.Index(list(labels), name="query")
    return pd.DataFrame(columns, index=index)


def in_unicode(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns whose texts hold Unicode only; what is none is written out, as \\udc80."""
    return {name: _column_in_unicode(values) for name, values in columns.items()}


def _column_in_unicode(values: Any) -> Any:
    if isinstance(values, Texts):
        return values.changed(_to_unicode)
    return [_to_unicode(text) for text in values] if isinstance(values, list) else values


def _to_unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def to_pandas(columns: Mapping[str, Any]) -> Any:
    """A pandas frame: attributes as categories, ordered where the attribute is."""
    import pandas as pd

    return pd.DataFrame({name: _in_pandas(values, pd) for name, values in columns.items()})


def _in_pandas(values: Any, pd: Any) -> Any:
    if not isinstance(values, Texts):
        return values
    return pd.Categorical.from_codes(values.codes, list(values.known), ordered=values.is_ordered)


def to_polars(columns: Mapping[str, Any], polars: Any) -> Any:
    """A Polars frame: attributes as enumerations, whose order is that of the attribute."""
    held = {}
    for name, values in in_unicode(columns).items():
        if not isinstance(values, Texts):
            held[name] = values
        elif len(set(values.known)) == len(values.known):
            held[name] = polars.Series(list(values.or_else(None)), dtype=polars.Enum(values.known))
        else:
            # Two texts that Unicode cannot hold may be written out alike.
            held[name] = polars.Series(list(values.or_else(None)), dtype=polars.String)
    return polars.DataFrame(held)


def to_arrow(columns: Mapping[str, Any], pyarrow: Any) -> Any:
    """An Arrow table: attributes as dictionaries, ordered where the attribute is."""
    held = {}
    for name, values in in_unicode(columns).items():
        if isinstance(values, Texts):
            codes = pyarrow.array(values.codes, mask=values.codes < 0)
            texts = pyarrow.array(list(values.known), type=pyarrow.string())
            held[name] = pyarrow.DictionaryArray.from_arrays(codes, texts, ordered=values.is_ordered)
        else:
            held[name] = values
    return pyarrow.table(held)
