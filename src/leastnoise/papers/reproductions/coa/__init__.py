"""COA, both versions: its fifteen figures, Lemma 4 and the semidefinite programs.

Figures are numbered as in the full version; the notes say which they are in the KDD version.

Reference:
    Yuan, Yang, Zhang and Hao (2016), Convex Optimization for Linear Query Processing under Approximate
    Differential Privacy, KDD 2016 and full version.
"""

from __future__ import annotations

from leastnoise.papers.reproductions.coa.accuracy import ACCURACY
from leastnoise.papers.reproductions.coa.convergence import CONVERGENCE
from leastnoise.papers.reproductions.coa.figures_14_15 import DAWA
from leastnoise.papers.reproductions.coa.lemma_4 import THEORY
from leastnoise.papers.reproductions.coa.time import TIME
from leastnoise.papers.reproductions.reproduction import Reproduction

REPRODUCTIONS: tuple[Reproduction, ...] = (CONVERGENCE, *ACCURACY, *TIME, *DAWA, *THEORY)
