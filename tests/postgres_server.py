"""A PostgreSQL server that the tests start: the engines count in it, and ledgers are kept in it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import extra


def missing(reason: str) -> None:
    """Skip visibly on the light core; fail where everything is required."""
    if os.environ.get("LEASTNOISE_ALL_EXTRAS"):
        pytest.fail(reason)
    pytest.skip(reason)


def server_programs() -> Path | None:
    """The folder of PostgreSQL's server programs: on the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


def as_somebody(folder: Path) -> list[str]:
    """The words before a command that PostgreSQL accepts, which refuses to run as root."""
    if os.geteuid() != 0:
        return []
    for user in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    pytest.fail("there is no user to run PostgreSQL as")


class Server:
    """A PostgreSQL server of this test run, on loopback, in a folder that goes with it."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._opened: list[Any] = []
        self._prefix = as_somebody(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # ICU orders and compares text as people do, which counting must not notice.
        self._run("initdb", "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8")
        # Of all users, one needs a password.
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "shared_buffers": "16MB",
            "max_connections": 200,
        }
        flags = " ".join(f"-c {name}={value}" for name, value in options.items())
        self._start = ("pg_ctl", "-w", "-l", str(folder / "log"), "-o", flags, "start")
        self._run(*self._start)

    def _run(self, program: str, *words: str) -> None:
        command = [*self._prefix, str(self._programs / program), "-D", str(self._folder / "data"), *words]
        subprocess.run(command, check=True, cwd=self._folder, stdout=subprocess.DEVNULL, timeout=60)

    def connect(self, database: str = "postgres") -> Any:
        where = {"host": "127.0.0.1", "port": self.port, "user": "tester", "database": database}
        self._opened.append(extra("ibis").postgres.connect(**where))
        return self._opened[-1]

    def url(self, ledger: str, user: str = "tester", password: str = "") -> str:
        """The address of a ledger, which may exist or not."""
        who = f"{user}:{password}" if password else user
        return f"postgresql://{who}@127.0.0.1:{self.port}/postgres?ledger={ledger}"

    def plain(self, **settings: Any) -> Any:
        """A connection without Ibis, of which every statement is committed at once; for a ``with``."""
        where = {"host": "127.0.0.1", "port": self.port, "user": "tester", "dbname": "postgres"}
        return extra("psycopg").connect(**where | settings, autocommit=True)

    def dumped(self, schema: str) -> str:
        """A schema as pg_dump writes it."""
        return self._client("pg_dump", f"--schema={schema}")

    def restore(self, dump: str) -> None:
        """Run what pg_dump wrote."""
        self._client("psql", "--quiet", "--set=ON_ERROR_STOP=1", given=dump)

    def _client(self, program: str, *words: str, given: str = "") -> str:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "tester", "-d", "postgres"]
        command = [str(self._programs / program), *where, *words]
        done = subprocess.run(command, input=given, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout

    def crash_and_start(self) -> None:
        """Stop without a last word to anybody or to the disk, and begin again from what was written ahead."""
        self.halt()
        self.start()

    def halt(self) -> None:
        """Stop without a last word to anybody."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def start(self) -> None:
        """Begin again."""
        self._run(*self._start)

    def stop(self) -> None:
        for connection in self._opened:
            connection.con.close()
        self.halt()


@contextlib.contextmanager
def started() -> Iterator[Server]:
    """A server for as long as it is needed."""
    programs = server_programs()
    if programs is None:
        missing("no PostgreSQL server here; on Debian: apt-get install postgresql")
    assert programs is not None
    # In memory where there is room: what is synced to the disk as it should be would take long on a slow one.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="leastnoise-postgres-", dir=memory))
    try:
        server = Server(programs, folder)
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
