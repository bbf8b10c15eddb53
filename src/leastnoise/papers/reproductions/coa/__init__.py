"""COA, both versions: its fifteen figures, Lemma 4 and the semidefinite programs.

Figures are numbered as in the full version; the notes say which they are in the KDD version.

    setup          workloads, noise, one method at a time, and what the words of section 5 mean
    convergence    figure 1
    accuracy       figures 2 to 10
    time           figures 11 to 13
    figures_14_15  the comparison with DAWA, on the tables of eight_tables
    lemma_4        Lemma 4 and the semidefinite programs
    coa_statements Lemmas 5 to 10, Theorems 2 and 3

Reference:
    Yuan, Yang, Zhang and Hao (2016), Convex Optimization for Linear Query Processing under Approximate
    Differential Privacy, KDD 2016 and full version.
"""

from __future__ import annotations

from leastnoise.papers.reproductions.coa.accuracy import ACCURACY
from leastnoise.papers.reproductions.coa.coa_statements import STATEMENTS
from leastnoise.papers.reproductions.coa.convergence import CONVERGENCE
from leastnoise.papers.reproductions.coa.figures_14_15 import DAWA
from leastnoise.papers.reproductions.coa.lemma_4 import THEORY
from leastnoise.papers.reproductions.coa.time import TIME
from leastnoise.papers.reproductions.reproduction import Reproduction

REPRODUCTIONS: tuple[Reproduction, ...] = (
    CONVERGENCE,
    *ACCURACY,
    *TIME,
    *DAWA,
    *THEORY,
    *STATEMENTS,
)
