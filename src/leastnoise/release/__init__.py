"""Measure a plan on data: the one private step, and what may be read from it.

`measure` goes check, read, spend, draw, store, hand out. Between the counts and
the stored noisy integers there are only integers: y = A x + noise, or the stages
of a mechanism that depends on the data. Everything after that is post-processing,
done in floating point from y alone, and costs no privacy however often it is done.

A module imports only modules that stand above it here:

    counts       the counts of a table, asked for as a plan needs them
    release      the release itself
    reading      a release from a file or a ledger, neither of which is believed
    measuring    the one private step
"""

from leastnoise.release.adjusting import adjust
from leastnoise.release.adjusting.search_watch import AdjustProgress
from leastnoise.release.counts import count_tables, counts_of
from leastnoise.release.measuring import measure, measured, with_noise
from leastnoise.release.release import Receipt, Release, in_unicode
from leastnoise.release.release_file import load_release, stored_goal, stored_release
from leastnoise.release.simulation import simulated

__all__ = [
    "AdjustProgress",
    "Receipt",
    "Release",
    "adjust",
    "count_tables",
    "counts_of",
    "in_unicode",
    "load_release",
    "measure",
    "measured",
    "simulated",
    "stored_goal",
    "stored_release",
    "with_noise",
]
