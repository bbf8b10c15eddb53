"""How the tests run.

Where every extra is installed, a skipped test is a failure: it would hide what was not checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from postgres_server import Server, started
from spark_session import spark_here
from support import extra

# The same examples on every run, so that a failure stays; LEASTNOISE_EXPLORE=1 tries new ones.
settings.register_profile("repeatable", derandomize=not os.environ.get("LEASTNOISE_EXPLORE"), deadline=None)
settings.load_profile("repeatable")

# Plans of one test are not those of another; tests of the cache name a folder of their own.
os.environ["LEASTNOISE_PLAN_CACHE"] = "off"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One PostgreSQL server for all tests of the group "engines"."""
    extra("ibis")
    extra("psycopg")
    with started() as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark on this machine, as Ibis connects to it, for all tests of the group "engines"."""
    with spark_here(tmp_path_factory.mktemp("warehouse")) as connected:
        yield connected


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if os.environ.get("LEASTNOISE_ALL_EXTRAS") and skipped:
        reporter.write_line(f"{len(skipped)} tests were skipped although every extra is required", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
