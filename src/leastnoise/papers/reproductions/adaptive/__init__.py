"""The adaptive mechanism: its example, its claims with numbers, its figures and its table.

    adaptive_tasks    its workloads, its methods, and the error of one on the other
    adult_and_census  the two tables of its relative errors
    checks            what is read from errors: ratios, gains, distances from the bound
    text              example 4, sections 3.4 and 3.5
    figure_3, table_2, figures_4_5
    adaptive_statements  theorem 1, sections 4.1 and 5.4, the wavelet hybrid

Reference:
    Li and Miklau (2012), An adaptive mechanism for accurate query answering under differential privacy.
"""

from __future__ import annotations

from leastnoise.papers.reproductions.adaptive.adaptive_statements import STATEMENTS
from leastnoise.papers.reproductions.adaptive.figure_3 import FIGURE_3
from leastnoise.papers.reproductions.adaptive.figures_4_5 import FIGURE_4, FIGURE_5
from leastnoise.papers.reproductions.adaptive.table_2 import TABLE_2
from leastnoise.papers.reproductions.adaptive.text import EXAMPLE_4, SECTION_3_4, SECTION_3_5
from leastnoise.papers.reproductions.reproduction import Reproduction

REPRODUCTIONS: tuple[Reproduction, ...] = (
    EXAMPLE_4,
    SECTION_3_4,
    SECTION_3_5,
    *FIGURE_3,
    TABLE_2,
    FIGURE_4,
    FIGURE_5,
    *STATEMENTS,
)
