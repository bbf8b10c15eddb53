"""Measure a plan on data: the one private step, and what may be read from it.

`measure` goes check, read, spend, draw, store, hand out. Between the counts and
the stored noisy integers there are only integers: y = A x + noise, or the stages
of a mechanism that depends on the data. Everything after that is post-processing,
done in floating point from y alone, and costs no privacy however often it is done.

    noise            exact noise: the only secret randomness
    counts.py        the counts of a table, as a plan asks for them
    not_counted.py   how many records no declared cell took, measured beside the plan
    intervals.py     how far an answer may be from the truth, at any level
    quantiles.py     quantiles of an attribute, with intervals
    ratios.py        intervals for ratios, from the joint error of two numbers
    deviations.py    intervals for standard deviations, from the joint error of three numbers
    ratio_answers.py the means, shares and other ratios of a release
    matched_covariances.py  covariances of numerators with their own denominators, in pieces
    answer_table.py  all answers as one table, and as frames
    answer_pieces.py all answers, some rows at a time
    attribute_columns.py  a column for every attribute of a table of answers
    adjustment.py    what an adjusted release holds beside its measurements
    answer_columns.py  answers with errors and intervals, as columns: all counts, all ratios, one query
    changes.py       how answers changed between two releases, with intervals
    presentation.py  rounding, reliability marks and suppression, as offices print numbers
    to_mbi.py        a release in the terms of the package mbi
    release.py       the release itself
    release_file.py  a release from a file or a ledger, neither of which is believed
    paid.py          storing what was paid for
    block_folder.py  noisy integers in blocks, in a private folder
    block_measuring.py  a release of more integers than memory holds, block by block
    measuring.py     `measure`: the one private step
    stream.py        a plan over many periods, published one after the other
    stream_price.py  what a stream costs where records change or people come back
    simulation.py    releases on public data, from an explicit generator
    adjusting/       `adjust`: answers that add up, are not negative, or are whole
"""

from leastnoise.release.adjusting import adjust
from leastnoise.release.adjusting.adjust_progress import AdjustProgress
from leastnoise.release.answer_pieces import answer_pieces
from leastnoise.release.answer_table import answer_table, in_unicode, interval_columns
from leastnoise.release.attribute_columns import Texts, distinct_names
from leastnoise.release.block_measuring import BlockProgress
from leastnoise.release.changes import changes
from leastnoise.release.counts import count_tables, counts_of
from leastnoise.release.measuring import measure, measured, with_noise
from leastnoise.release.not_counted import USUAL_SHARE, NotCounted, NotCountedRow, row_for, within_cost
from leastnoise.release.presentation import (
    PRESENTATION_KEYS,
    RELIABLE,
    SUPPRESSED,
    Presentation,
    present,
    presentation_from_plain,
    presented,
)
from leastnoise.release.release import Receipt, Release
from leastnoise.release.release_file import is_stream, load_release, stored_goal, stored_release
from leastnoise.release.simulation import simulated
from leastnoise.release.stream import Stream, covers_rest, load_stream, open_stream
from leastnoise.release.stream_price import StreamPrice, stream_price

__all__ = [
    "PRESENTATION_KEYS",
    "RELIABLE",
    "SUPPRESSED",
    "USUAL_SHARE",
    "AdjustProgress",
    "BlockProgress",
    "NotCounted",
    "NotCountedRow",
    "Presentation",
    "Receipt",
    "Release",
    "Stream",
    "StreamPrice",
    "Texts",
    "adjust",
    "answer_pieces",
    "answer_table",
    "changes",
    "count_tables",
    "counts_of",
    "covers_rest",
    "distinct_names",
    "in_unicode",
    "interval_columns",
    "is_stream",
    "load_release",
    "load_stream",
    "measure",
    "measured",
    "open_stream",
    "present",
    "presentation_from_plain",
    "presented",
    "row_for",
    "simulated",
    "stored_goal",
    "stored_release",
    "stream_price",
    "with_noise",
    "within_cost",
]
