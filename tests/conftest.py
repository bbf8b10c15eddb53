"""How the tests run.

Where every extra is installed, a skipped test is a failure: it would hide what was not checked.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from postgres_server import Server, missing, started
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
    ibis = extra("ibis")
    sql = extra("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing("no Java here, which Spark needs; on Debian: apt-get install openjdk-17-jre-headless")
    settings_of_spark = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
    }
    # Executors run the Python of the tests, which has NumPy and PyArrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").appName("leastnoise")
    for name, value in settings_of_spark.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield ibis.pyspark.connect(session)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
        gc.collect()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if os.environ.get("LEASTNOISE_ALL_EXTRAS") and skipped:
        reporter.write_line(f"{len(skipped)} tests were skipped although every extra is required", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
