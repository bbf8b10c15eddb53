"""What several test files share."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def extra(module: str) -> Any:
    """An optional module: skipped visibly on the light core, required where every extra is installed."""
    if os.environ.get("LEASTNOISE_ALL_EXTRAS"):
        return importlib.import_module(module)
    return pytest.importorskip(module)
