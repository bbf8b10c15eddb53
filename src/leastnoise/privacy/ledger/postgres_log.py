"""Every SQL statement on the tables of a ledger in PostgreSQL, within one transaction of one connection.

The tables are those of the SQLite file, in a schema of their own, and hold the same rows with the same
digests. Beside that, every row of the log has a mark: random bytes of the transaction that wrote it, by which
it knows its own row again if the connection is lost during COMMIT. Triggers refuse every change, and every
row that does not continue the chain.

Statements name no schema: it is put into the search path, after pg_catalog and before anything temporary.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from leastnoise.core.errors import InputError, LedgerFileError
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.privacy.accounting import is_short_text
from leastnoise.privacy.ledger.address import is_address, parsed
from leastnoise.privacy.ledger.rows import Row
from leastnoise.privacy.ledger.storage import Version

# Rows that are fetched at a time; a profile may take megabytes.
_ROWS_AT_A_TIME = 100

_COLUMNS = {
    "log": (
        "number bigint not null",
        "kind text not null",
        "content text not null",
        "profile bytea",
        "digest text not null",
        "mark bytea not null",
    ),
    "answers": ("number bigint not null", "body bytea not null"),
    # Private: nothing of these is in a row, an export or a head.
    "versions": ("number bigint not null", "nonce bytea not null", "digest bytea not null"),
    "secret": ("number bigint not null", "key bytea not null", "digest bytea not null"),
}

_REFUSE = "BEGIN RAISE EXCEPTION 'a ledger only grows' USING ERRCODE = 'restrict_violation'; END"

# The digest of `ledger.rows`, computed by the server: no role can add a row that does not follow.
_FOLLOW = """
DECLARE
    last record;
    part bytea;
    hashed bytea := ''::bytea;
BEGIN
    EXECUTE format('SELECT number, digest FROM %I.log ORDER BY number DESC LIMIT 1', TG_TABLE_SCHEMA)
        INTO last;
    FOREACH part IN ARRAY ARRAY[
        convert_to(coalesce(last.digest, repeat('0', 64)), 'UTF8'),
        convert_to(NEW.number::text, 'UTF8'),
        convert_to(NEW.kind, 'UTF8'),
        convert_to(NEW.content, 'UTF8'),
        convert_to(CASE WHEN NEW.profile IS NULL THEN 'absent' ELSE 'present' END, 'UTF8'),
        coalesce(NEW.profile, ''::bytea)
    ] LOOP
        hashed := hashed || int8send(octet_length(part)) || part;
    END LOOP;
    IF NEW.number <> coalesce(last.number + 1, 0) OR NEW.digest <> encode(sha256(hashed), 'hex') THEN
        RAISE EXCEPTION 'the row does not follow the last one' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END
"""

# pg_trigger.tgtype: before (2), by row (1); insert (4), delete (8), update (16), truncate (32).
_BEFORE_INSERT = 1 + 2 + 4
_BEFORE_CHANGE = 2 + 8 + 16 + 32


_INSERT = {
    "log": "INSERT INTO log VALUES (%s, %s, %s, %b, %s, %b)",
    "answers": "INSERT INTO answers VALUES (%s, %b)",
    "versions": "INSERT INTO versions VALUES (%s, %b, %b)",
    "secret": "INSERT INTO secret VALUES (%s, %b, %b)",
}
_ROWS = "SELECT number, kind, content, profile, digest FROM log"


def search_path(schema: str) -> str:
    """The statement after which the others of one transaction are about the tables of a schema."""
    return f"SET LOCAL search_path = pg_catalog, {schema}, pg_temp"


def _statements() -> list[str]:
    """The statements that make the tables, in a schema that exists."""
    made = [
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = pg_catalog AS $body${body}$body$"
        for name, body in (("refuse", _REFUSE), ("follow", _FOLLOW))
    ]
    for table, columns in _COLUMNS.items():
        made.append(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY (number))")
        made.append(
            f"CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
        )
        made.append(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER only_grows")
    made.append("CREATE TRIGGER follows BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION follow()")
    made.append("ALTER TABLE log ENABLE ALWAYS TRIGGER follows")
    return made


def grants_for(address: str, role: str) -> str:
    """The SQL that lets a role spend from a ledger: it may read and add, but not change.

    Args:
        address: the address of the ledger.
        role: the name of the PostgreSQL role.

    Example:
        >>> print(grants_for("postgresql://db.example/budget?ledger=town", "analysts"))
        GRANT USAGE ON SCHEMA town TO "analysts";
        GRANT SELECT, INSERT ON town.log, town.answers, town.versions TO "analysts";
        GRANT SELECT ON town.secret TO "analysts";
    """
    if not is_address(address):
        raise InputError(
            "a ledger in a file has no roles", field="role", remedy="give it to those who may read the file"
        )
    if not is_short_text(role):
        raise InputError("a role is named by a text of 1 to 200 printable characters", field="role")
    schema, quoted = parsed(address).ledger, '"' + role.replace('"', '""') + '"'
    return "\n".join(
        (
            f"GRANT USAGE ON SCHEMA {schema} TO {quoted};",
            f"GRANT SELECT, INSERT ON {schema}.log, {schema}.answers, {schema}.versions TO {quoted};",
            f"GRANT SELECT ON {schema}.secret TO {quoted};",
        )
    )


_LAYOUT = """
SELECT c.relname::text, c.relkind::text, c.relpersistence::text, c.relrowsecurity, c.relhasrules,
    ARRAY(SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
            || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY a.attnum),
    ARRAY(SELECT k.conkey::text FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p'),
    ARRAY(SELECT concat_ws(' ', t.tgname, t.tgtype, t.tgenabled, t.tgnargs, t.tgattr, t.tgqual IS NULL,
            p.prosrc)
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal ORDER BY t.tgname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind NOT IN ('i', 't') ORDER BY c.relname
"""


def _trigger(name: str, kind: int, body: str) -> str:
    # Always enabled, without arguments, for all columns, without a condition.
    return f"{name} {kind} A 0  t {body}"


def _expected() -> list[tuple[Any, ...]]:
    """What the query of the layout gives for a ledger as it was made."""
    found = []
    for table in sorted(_COLUMNS):
        triggers = [_trigger("only_grows", _BEFORE_CHANGE, _REFUSE)]
        if table == "log":
            triggers.insert(0, _trigger("follows", _BEFORE_INSERT, _FOLLOW))
        found.append((table, "r", "p", False, False, list(_COLUMNS[table]), ["{1}"], triggers))
    return found


class PostgresLog:
    """A ledger's tables within one transaction: the `Log` of `leastnoise.privacy.ledger.storage`.

    Attributes:
        mark: random bytes of this transaction, kept with every row it writes.
        last_added: the number of the last row it has added; None if it has added none.
    """

    def __init__(self, connection: Any, schema: str, mark: bytes) -> None:
        self.connection = connection
        self.mark = mark
        self.last_added: int | None = None
        self._schema = schema
        self._cursors = itertools.count()

    def is_empty(self) -> bool:
        """Whether the schema holds no tables at all, or does not exist."""
        return self._layout() == []

    def check_layout(self) -> None:
        """Refuse a schema that holds anything else than the tables and triggers of a ledger.

        Raises:
            LedgerFileError: if so, or if it holds nothing.
        """
        found = self._layout()
        if not found:
            raise LedgerFileError(
                f"there is no ledger {self._schema!r} in this database; ",
                Remedy("give ", Argument("dataset"), " and ", Argument("limit"), " to start one"),
                field="path",
            )
        if found != _expected():
            raise LedgerFileError(
                f"the schema {self._schema!r} holds other tables or triggers than a ledger has",
                field="tables",
                given=self._schema,
                remedy="restore it",
            )

    def begin(self, key: bytes) -> None:
        """Make the tables, with the key, in a schema that is made if need be."""
        known = self._one("SELECT 1 FROM pg_namespace WHERE nspname = %s", self._schema)
        if known is None:
            # Asked first: IF NOT EXISTS needs the right to make schemas even where there is one.
            self._run(f"CREATE SCHEMA {self._schema}")
        for statement in (f"SET LOCAL search_path = {self._schema}", *_statements()):
            # Made where the path begins; functions and types of pg_catalog are found all the same.
            self._run(statement)
        self._run(search_path(self._schema))
        self._insert("secret", 0, key, hashlib.sha256(key).digest())

    def rows_from(self, number: int | None) -> Iterator[Row]:
        """The rows of the log from some number on, in order; None for all there are."""
        with self.connection.cursor(name=f"rows_{next(self._cursors)}") as cursor:
            cursor.itersize = _ROWS_AT_A_TIME
            if number is None:
                cursor.execute(f"{_ROWS} ORDER BY number")
            else:
                cursor.execute(f"{_ROWS} WHERE number >= %s ORDER BY number", (number,))
            yield from map(Row._make, cursor)

    def digest_at(self, number: int) -> str | None:
        """The digest of one row; None if there is no such row."""
        found = self._one("SELECT digest FROM log WHERE number = %s", number)
        return None if found is None else found[0]

    def is_mine(self, number: int, mark: bytes) -> bool:
        """Whether a row was written by the transaction that has some mark."""
        found = self._one("SELECT mark FROM log WHERE number = %s", number)
        return found is not None and found[0] == mark

    def append(self, row: Row) -> None:
        """Add a row to the log."""
        self._insert("log", *row, self.mark)
        self.last_added = row.number

    def answers(self, number: int) -> bytes | None:
        """The answers of the release that a row paid for; None if there are none."""
        found = self._one("SELECT body FROM answers WHERE number = %s", number, binary=True)
        return None if found is None else found[0]

    def answer_numbers(self) -> list[int]:
        """The rows whose releases have answers, in order."""
        return self._numbers("SELECT number FROM answers ORDER BY number")

    def add_answers(self, number: int, body: bytes) -> None:
        """Keep the answers of a release."""
        self._insert("answers", number, body)

    def version(self, number: int) -> Version | None:
        """The version of the table that a release is about; None if it is not known."""
        found = self._one("SELECT nonce, digest FROM versions WHERE number = %s", number)
        return None if found is None else Version(*found)

    def version_numbers(self) -> list[int]:
        """The rows whose releases have a version, in order."""
        return self._numbers("SELECT number FROM versions ORDER BY number")

    def add_version(self, number: int, version: Version) -> None:
        """Keep the version of the table that a release is about."""
        self._insert("versions", number, *version)

    def key(self) -> bytes:
        """The key of the digests.

        Raises:
            LedgerFileError: if it is not as it was written.
        """
        found = self._run("SELECT number, key, digest FROM secret").fetchall()
        if len(found) == 1 and found[0][0] == 0 and found[0][2] == hashlib.sha256(found[0][1]).digest():
            return bytes(found[0][1])
        raise LedgerFileError(
            "the ledger's private key is missing or altered", field="key", remedy="restore the database"
        )

    def upgrade(self, key: Callable[[], bytes]) -> None:
        """Nothing to do: a ledger in PostgreSQL has had its private tables from the beginning."""

    def damage(self) -> str | None:
        """None: PostgreSQL checks its own pages, if it is told to, and says so when they are read."""
        return None

    def undo(self) -> None:
        """Undo everything since the transaction began, and end it."""
        self._run("ROLLBACK")
        self.last_added = None

    def _layout(self) -> list[tuple[Any, ...]]:
        return list(self._run(_LAYOUT, (self._schema,)).fetchall())

    def _numbers(self, statement: str) -> list[int]:
        return [number for (number,) in self._run(statement).fetchall()]

    def _insert(self, table: str, *values: Any) -> None:
        # Bytes in binary (%b): as text they would take twice their size.
        done = self._run(_INSERT[table], values)
        if done.rowcount != 1:
            raise LedgerFileError(
                "the database rejected a row of the ledger", field="row", remedy="restore it"
            )

    def _one(self, statement: str, value: Any, *, binary: bool = False) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._run(statement, (value,), binary=binary).fetchone()
        return found

    def _run(self, statement: str, values: tuple[Any, ...] = (), *, binary: bool = False) -> Any:
        return self.connection.execute(statement, values or None, binary=binary)
