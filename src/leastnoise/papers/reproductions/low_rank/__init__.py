"""The low-rank mechanism: its two introductory examples, and its figures 2 to 9. Pure privacy throughout.

    low_rank_tasks  the sizes of its experiments, its mechanisms, and one of them on one workload
    examples        the two examples of the introduction
    tuning          figures 2 and 3: γ and r
    figures         figures 4 to 9, and claims what the text says of them
    curve_checks    curves, and checks of what a text says about one
    low_rank_statements  lemmas 1, 3 and 4, theorems 2 and 4

Reference:
    Yuan, Zhang, Winslett, Xiao, Yang and Hao (2012), Low-rank mechanism: optimizing batch queries under
    differential privacy. PVLDB 5(11).
"""

from __future__ import annotations

from leastnoise.papers.reproductions.low_rank.examples import EXAMPLES_1_2
from leastnoise.papers.reproductions.low_rank.figures import FIGURES
from leastnoise.papers.reproductions.low_rank.low_rank_statements import STATEMENTS
from leastnoise.papers.reproductions.low_rank.tuning import TUNING

REPRODUCTIONS = (*EXAMPLES_1_2, *TUNING, *FIGURES, *STATEMENTS)
