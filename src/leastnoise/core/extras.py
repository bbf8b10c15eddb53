"""Optional packages: imported where they are used, and named by the command that installs them.

The core of the package needs few others; what else a step needs is an "extra" of pyproject.toml, as in
``pip install 'leastnoise[charts]'``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from leastnoise.core.errors import MissingExtraError
from leastnoise.core.remedies import Argument, Remedy

# What people call a package, where that is not the name that Python imports.
_CALLED = {
    "altair": "Altair",
    "cvxpy": "CVXPY",
    "duckdb": "DuckDB",
    "ibis": "Ibis",
    "mbi": "mbi 2",
    "polars": "Polars",
    "pyarrow": "PyArrow",
    "starlette": "Starlette",
    "torch": "PyTorch",
    "statsmodels.datasets.randhie": "statsmodels",
    "uvicorn": "Uvicorn",
    "vl_convert": "vl-convert",
    "xlsxwriter": "XlsxWriter",
}


def require(
    package: str, *, extra: str | None, why: str | Argument, field: str | None = None, given: object = None
) -> Any:
    """The package of that name, imported.

    Args:
        package: what Python imports, as in ``"altair"`` or ``"statsmodels.datasets"``.
        extra: the extra that installs it; None for a package that comes with the core.
        why: what needs it, as the subject of a sentence: "a chart".
        field: what the error is about, if not the package.
        given: what was given for that field.

    Raises:
        MissingExtraError: if it is not installed, with the command that installs it.

    Example:
        >>> require("nowhere", extra="charts", why="a chart")
        Traceback (most recent call last):
        leastnoise.core.errors.MissingExtraError: a chart needs nowhere: pip install 'leastnoise[charts]'
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise missing_package(package, extra=extra, why=why, field=field, given=given) from error


def missing_package(
    package: str,
    *,
    extra: str | None = None,
    requirement: str | None = None,
    why: str | Argument,
    field: str | None = None,
    given: object = None,
) -> MissingExtraError:
    """The error that `require` raises, for code that cannot import the package by its name.

    Args:
        requirement: what pip is to install, where that is no extra of leastnoise: "ibis-framework[mysql]".
        package, extra, why, field, given: as in `require`.
    """
    if requirement is None:
        requirement = package if extra is None else f"leastnoise[{extra}]"
    # Brackets mean something to a shell.
    shown = f"'{requirement}'" if "[" in requirement else requirement
    needs = f" needs {_CALLED.get(package, package)}: "
    own_field = package if field is None else field
    return MissingExtraError(why, needs, Remedy(f"pip install {shown}"), field=own_field, given=given)
