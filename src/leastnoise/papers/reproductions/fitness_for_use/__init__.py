"""The fitness-for-use paper: its theorems, Tables 2 to 9 and Figures 1 to 3; Table 1 is notation.

    mechanisms  what each mechanism of the paper costs where every query has a target
    theory      figure 1, section 3.2.1, theorems 6 and 7
    choices     tables 2 and 3: SM-II beside other optimisers
    census      tables 4 and 9: PL 94-171 and age pyramids
    random      tables 5 to 8: random ranges and queries
    marginals   figures 2 and 3
    fitness_statements  theorems 2 to 5 and 8 to 13

Reference:
    Xiao, Ding, Wang, Zhang and Kifer (2021), Optimizing Fitness-For-Use of Differentially Private
    Linear Queries.
"""

from __future__ import annotations

from leastnoise.papers.reproductions.fitness_for_use.census import CENSUS_4, CENSUS_9
from leastnoise.papers.reproductions.fitness_for_use.choices import CHOICES
from leastnoise.papers.reproductions.fitness_for_use.fitness_statements import STATEMENTS
from leastnoise.papers.reproductions.fitness_for_use.marginals import MARGINALS
from leastnoise.papers.reproductions.fitness_for_use.random import RANDOM
from leastnoise.papers.reproductions.fitness_for_use.theory import THEORY
from leastnoise.papers.reproductions.reproduction import Reproduction

REPRODUCTIONS: tuple[Reproduction, ...] = (
    *THEORY,
    *CHOICES,
    CENSUS_4,
    *RANDOM,
    CENSUS_9,
    *MARGINALS,
    *STATEMENTS,
)
