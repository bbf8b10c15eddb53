"""Which blocks a structured strategy has, and whether they fit its axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leastnoise.core.errors import DesignError
from leastnoise.query import Axis, AxisSet
from leastnoise.strategy.structured.axis_form import AxisForm


class Block(NamedTuple):
    """What one block holds.

    Attributes:
        axes: the split axes of which it holds residuals, rising.
        forms: which form of each of them.
        multiplier: k, a positive integer.
    """

    axes: AxisSet
    forms: tuple[int, ...]
    multiplier: int


def check_forms(axes: Sequence[Axis], forms: Sequence[Sequence[AxisForm]], order: Sequence[int]) -> None:
    """Return if every axis has forms of its size, one of them if it is whole.

    Raises:
        DesignError: if not, or if the order is not one of all axes.
    """
    if len(forms) != len(axes) or sorted(order) != list(range(len(axes))):
        raise DesignError("a structured strategy needs forms for every axis, and an order of all axes")
    for axis, own in zip(axes, forms, strict=True):
        if any(form.size != axis.size for form in own):
            raise DesignError(f"the axis {', '.join(axis.names)} has {axis.size:,} values, a form has others")
        if len(own) > 1 and not all(form.is_split for form in own):
            raise DesignError("a whole axis has one form")


def check_blocks(forms: Sequence[Sequence[AxisForm]], blocks: Sequence[Block]) -> None:
    """Return if there are blocks, each once, of split axes and their forms, with multipliers.

    Raises:
        DesignError: if not.
    """
    if not blocks:
        raise DesignError("a structured strategy needs at least one block")
    # A NumPy integer would wrap when squared.
    if any(type(block.multiplier) is not int or block.multiplier < 1 for block in blocks):
        raise DesignError("multipliers of blocks must be positive whole numbers")
    if len({(block.axes, block.forms) for block in blocks}) < len(blocks):
        raise DesignError("every block may be measured once")
    n_forms = _n_split_forms(forms)
    for block in blocks:
        fits = len(block.axes) == len(block.forms) and list(block.axes) == sorted(set(block.axes))
        for a, form in zip(block.axes, block.forms, strict=False):
            fits = fits and 0 <= a < len(n_forms) and 0 <= form < n_forms[a]
        if not fits:
            raise DesignError("a block names split axes, each once, rising, and a form of each")


def check_centres(forms: Sequence[Sequence[AxisForm]], centres: Iterable[tuple[int, int]]) -> None:
    """Return if the centres, each an axis and a form, are those of forms that split axes have.

    Raises:
        DesignError: if not.
    """
    n_forms = _n_split_forms(forms)
    if any(not (0 <= a < len(n_forms) and 0 <= form < n_forms[a]) for a, form in centres):
        raise DesignError("a centre is that of a form which its axis does not have")


def _n_split_forms(forms: Sequence[Sequence[AxisForm]]) -> list[int]:
    """How many forms a block may choose from on each axis: none on a whole one."""
    return [len(own) if own and own[0].is_split else 0 for own in forms]
