"""From a split to blocks that can be measured: every query answered, in integers.

A query of weight zero, or one without a target where only targets count, follows from queries that count. The
blocks from which it is answered may still be none that those need: blocks are sets of axes, and products over
other axes may add up to it. So it takes part in the search with a weight so small that it decides nothing
else, and a block that only such queries need gets a small share of the budget.

In integers, every part becomes a form of its axis, on the integers of its centre; blocks keep the precisions
that were found for them. What rounding costs is a hundredth of the gap asked for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.planning.oblique.row_variances import totals_of
from leastnoise.planning.oblique.splitting import Split
from leastnoise.query import AxisSet
from leastnoise.strategy import (
    AxisForm,
    BlockProposal,
    centred_form,
    identity_form,
    rounded_centre,
    split_form,
    whole_form,
)

# What all queries of a product of weight zero weigh together, as a share of all others. A block of this share
# of the total takes the square root of it, a thousandth, of the budget.
WEIGHT = 1e-6

# The share of the budget of blocks that only queries of weight zero need, where others have taken all of it.
SHARE = 1e-3


def with_small_weights(weights: Array, n_rows: Array, needed: Array | None = None) -> Array:
    """The weights of products, with small positive ones in place of zeros.

    Args:
        weights: of every query of a product, (products,), not all zero.
        n_rows: how many queries each product has, (products,).
        needed: which zeros are replaced, all unless given.
    """
    small = WEIGHT * float(weights @ n_rows) / n_rows
    is_replaced = weights == 0 if needed is None else (weights == 0) & needed
    return np.where(is_replaced, small, weights)


def with_loose_caps(caps: Array) -> Array:
    """The caps of products, with finite ones that hardly ever bind in place of infinite ones."""
    are_finite = np.isfinite(caps)
    return np.where(are_finite, caps, float(caps[are_finite].max()) / WEIGHT)


def answering_all(split: Split, *, at_most: float = SHARE) -> Split:
    """The same split with a share of the budget for every block that some product needs.

    Args:
        at_most: the share that may be taken from the other blocks.
    """
    C = totals_of(split).sum(axis=0)
    lacking = np.where(split.x > 0, 0.0, np.sqrt(C))
    if not lacking.any():
        return split
    share = min(SHARE, at_most)
    return replace(split, x=(1 - share) * split.x + share * lacking / lacking.sum())


# The family itself is rarely nearer to the optimum than this, and narrower integers are answered faster.
LEAST_TOL = 1e-5


def proposal_of(split: Split, *, tol: float = 1e-6) -> BlockProposal:
    """The blocks of a split with integer rows for every axis.

    Args:
        tol: the relative gap to the optimum that was asked for.
    """
    fine = max(tol, LEAST_TOL)
    forms: list[list[AxisForm]] = []
    for axis, of_axis in enumerate(split.axes):
        size = split.products.axes[axis].size
        if of_axis.form == "identity":
            forms.append([identity_form(size)])
        elif of_axis.form == "centred":
            forms.append([centred_form(size)])
        elif of_axis.form == "whole":
            assert of_axis.root is not None
            forms.append([whole_form(of_axis.root, of_axis.basis, tol=fine)])
        else:
            forms.append([])
    centres = _rounded_centres(split, fine)
    form_of_part: list[int] = []
    form_of_centre: dict[int, int] = {}
    for part in split.parts:
        if part.root is None:
            form_of_part.append(0)
            continue
        form_of_part.append(len(forms[part.axis]))
        if len(part.root) or part.centre not in form_of_centre:
            # A part without residual rows has a form of some other centre, which serves totals as well.
            form_of_centre[part.centre] = len(forms[part.axis])
        forms[part.axis].append(split_form(part.root, centres[part.centre], part.basis, tol=fine))
    blocks, shares = [], []
    parts = split.blocks.parts_of_blocks()
    for number, axes in enumerate(split.blocks.axes):
        if split.x[number] > 0:
            blocks.append((axes, tuple([form_of_part[p] for p in parts[number]])))
            shares.append(number)
    return BlockProposal(
        split.products.axes,
        tuple(map(tuple, forms)),
        tuple(blocks),
        split.x[shares],
        _centres_by_history(split, forms, form_of_centre),
        split.blocks.order,
    )


def _rounded_centres(split: Split, tol: float) -> dict[int, Array]:
    """The integers of every centre that is not uniform."""
    found = {}
    for place, centre in enumerate(split.centres):
        if centre.g is not None:
            roots = [p.root for p in split.parts if p.centre == place and p.root is not None]
            found[place] = rounded_centre(centre.g, roots, tol=tol)
    return found


def _centres_by_history(
    split: Split, forms: list[list[AxisForm]], form_of_centre: dict[int, int]
) -> dict[tuple[int, AxisSet], int]:
    """For axes with several forms, the form whose centre holds after each history."""
    return {
        (axis, history): form_of_centre[centre]
        for axis, own in enumerate(forms)
        if len(own) > 1
        for history, centre in split.blocks.centres_of_histories(axis).items()
    }
