"""How values show themselves in a notebook."""

from __future__ import annotations

from importlib import import_module


class NotebookValue:
    """A value that a notebook shows as HTML; the room of reports makes it, and is loaded when asked."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        shown: str = import_module("leastnoise.report.notebook").notebook_html(self)
        return shown
