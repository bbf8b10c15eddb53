"""Slips in the papers, so that nobody chases them: where, what is printed, and what is meant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Slip:
    """One slip.

    Attributes:
        paper: as in the names of reproductions.
        where: the place in the paper.
        what: what is wrong, and what is taken instead.
        seen_in: the reproduction that shows it, without its paper; empty where none does.
    """

    paper: str
    where: str
    what: str
    seen_in: str = ""


SLIPS = (
    Slip(
        "low-rank",
        "Theorem 3",
        "the error that B L leaves in the answers is bounded by γ where its square, γ², is meant",
        "figure-2",
    ),
    Slip("coa", "Algorithm 2, line 7", "D stands where the search direction P is meant", "figure-1"),
    Slip(
        "coa",
        "section 4 and the Matlab listing",
        "they differ in β, in σ, and in whether θ multiplies the mean of the diagonal of WᵀW; 'as printed' "
        "here is the listing",
        "figure-1",
    ),
    Slip("coa", "appendix, (18) and (19)", "W and Wᵀ are swapped", "sdp"),
    Slip(
        "coa",
        "appendix, (19)",
        "without a limit on X the program has infimum 0 and says nothing; with diag X ≤ 1 it is the bound of "
        "L2 sensitivity",
        "sdp",
    ),
    Slip(
        "coa",
        "figures 14 and 15",
        "the random tables have mean zero and real entries, which are no counts of people and which a "
        "release refuses; they are simulated",
        "figure-14",
    ),
    Slip("fitness-for-use", "(8)", "an exp is missing in the second sum"),
)
