"""A split in integers: from what the search has found to blocks that can be measured.

Every part becomes a form of its axis, on the integers of its centre; blocks keep the precisions that were
found for them. What rounding costs is a hundredth of the gap asked for.
"""

from __future__ import annotations

from leastnoise.core.operators import Array
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

# The family itself is rarely nearer to the optimum than this, and narrower integers are answered faster.
_LEAST_TOL = 1e-5


def proposal_of(split: Split, *, tol: float = 1e-6) -> BlockProposal:
    """The blocks of a split with integer rows for every axis.

    Args:
        tol: the relative gap to the optimum that was asked for.
    """
    fine = max(tol, _LEAST_TOL)
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
