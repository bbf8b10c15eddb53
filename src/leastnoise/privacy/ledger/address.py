"""Where a ledger in PostgreSQL is: its address, read without ever repeating a password.

    postgresql://user@host:5432/database?ledger=town

names the ledger that is kept in the schema ``town`` of a database. Everything else is what PostgreSQL's own
programs take; a password is better kept in ~/.pgpass or PGPASSWORD, where no list of processes shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from leastnoise.core.errors import InputError

_BEGINNINGS = ("postgresql://", "postgres://")

# What an address may say beside the ledger's name. ``options`` is not among them: it could set anything.
_SHOWN = (
    "application_name",
    "channel_binding",
    "connect_timeout",
    "gssencmode",
    "hostaddr",
    "keepalives_idle",
    "krbsrvname",
    "passfile",
    "service",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
)
# What it may say and is never shown.
_SECRET = ("password", "sslpassword")
# What may stand in the query as well as before it.
_PLACE = ("host", "port", "user", "dbname")

# A schema of its own, in the letters that need no quotes anywhere; PostgreSQL cuts names at 63 bytes.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class Address:
    """An address of a ledger in PostgreSQL.

    Attributes:
        ledger: the name of the schema that holds it.
        name: what messages call it: server, database and ledger.
        shown: the address as it may be typed again, without any password.
        parameters: what the driver is given, passwords included; ``repr`` does not show them.
    """

    ledger: str
    name: str
    shown: str
    parameters: Mapping[str, str] = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Passwords do not travel: another process finds them where PostgreSQL's own programs do.
        return parsed, (self.shown,)


def is_address(path: Any) -> bool:
    """Whether something names a ledger in PostgreSQL rather than a file.

    Raises:
        InputError: for such an address made into a Path, which has lost a slash.
    """
    if not isinstance(path, str):
        if str(path).startswith(("postgresql:/", "postgres:/")):
            raise InputError(
                "the address of a ledger in PostgreSQL is a text, not a Path",
                field="address",
                remedy="give it as str",
            )
        return False
    return path.startswith(_BEGINNINGS)


def parsed(text: str) -> Address:
    """The address that a text is.

    Raises:
        InputError: if it is none, without repeating any of its values.
    """
    place, _, query = text.partition("://")[2].partition("?")
    server, _, database = place.partition("/")
    user, at, hosts = server.rpartition("@")
    found: dict[str, str] = {}
    if at:
        name, colon, password = user.partition(":")
        found |= {"user": unquote(name)} | ({"password": unquote(password)} if colon else {})
    found |= _hosts(hosts)
    if database:
        found["dbname"] = unquote(database)
    found |= _settings(query)
    ledger = found.pop("ledger", "")
    if not _NAME.fullmatch(ledger) or ledger.startswith("pg_") or ledger in ("public", "information_schema"):
        raise InputError(
            "the address must name the ledger, as in postgresql://host/database?ledger=town: a "
            "schema of its own, named in lower-case letters, digits and _",
            field="address",
            remedy="not public, and nothing that begins with pg_",
        )
    if "dbname" not in found and "service" not in found:
        raise InputError(
            "the address must name the database, as in postgresql://host/database?ledger=town",
            field="address",
        )
    if any("\0" in value for value in found.values()):
        raise InputError("the address holds a character that PostgreSQL does not take", field="address")
    return Address(ledger, _shown(found, ledger, brief=True), _shown(found, ledger), found)


def without_password(text: str) -> str:
    """An address as it may be shown and typed again.

    Example:
        >>> without_password("postgresql://ann:secret@db.example/budget?ledger=town")
        'postgresql://ann@db.example/budget?ledger=town'
    """
    return parsed(text).shown


def _hosts(text: str) -> dict[str, str]:
    """Hosts and ports; an address may name several of each, between commas."""
    if not text:
        return {}
    hosts, ports = [], []
    for one in text.split(","):
        match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?", one)
        if match is None:
            raise InputError(
                "the address must be like postgresql://user@host:5432/database?ledger=town", field="address"
            )
        hosts.append(unquote(match[1].strip("[]")))
        ports.append(match[2] or "")
    return {"host": ",".join(hosts)} | ({"port": ",".join(ports)} if any(ports) else {})


def _settings(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise InputError(
            "what follows the ? of the address must be like ledger=town&sslmode=require", field="address"
        ) from None
    known = {"ledger", *_SHOWN, *_SECRET, *_PLACE}
    names = [name for name, _ in pairs]
    for name in names:
        if name not in known:
            # Only its kind is shown: it may be a mistyped password.
            raise InputError(
                f"the address has a setting that a ledger does not take; it takes {', '.join(sorted(known))}",
                field="address",
            )
        if names.count(name) > 1:
            raise InputError(f"the address gives {name} twice", field="address", given=name)
    return dict(pairs)


def _shown(found: Mapping[str, str], ledger: str, *, brief: bool = False) -> str:
    """The address without passwords, and for messages without the user and settings either."""
    hosts, ports = found.get("host", "").split(","), found.get("port", "").split(",")
    ports += [ports[0] if len(ports) == 1 else ""] * (len(hosts) - len(ports))
    places = []
    for host, port in zip(hosts, ports, strict=False):
        written = f"[{host}]" if ":" in host else quote(host, safe="")
        places.append(f"{written}:{port}" if port else written)
    user = "" if brief or "user" not in found else f"{quote(found['user'], safe='')}@"
    settings = {} if brief else {name: found[name] for name in _SHOWN if name in found}
    database = quote(found.get("dbname", ""), safe="")
    return f"postgresql://{user}{','.join(places)}/{database}?{urlencode({'ledger': ledger} | settings)}"
