"""Spark on this machine, for tests and for programs beside them."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from postgres_server import missing
from support import extra


@contextlib.contextmanager
def spark_here(folder: Path) -> Iterator[Any]:
    """Spark as Ibis connects to it, for as long as it is needed, with its tables in a folder."""
    ibis = extra("ibis")
    sql = extra("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing("no Java here, which Spark needs; on Debian: apt-get install openjdk-17-jre-headless")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder),
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
    }
    # Executors run the Python of the tests, which has NumPy and PyArrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").appName("leastnoise")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield ibis.pyspark.connect(session)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
        gc.collect()
