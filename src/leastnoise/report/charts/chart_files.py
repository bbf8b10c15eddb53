"""Altair charts as files that load nothing from the network.

Altair's own HTML loads its JavaScript from a content delivery network, which then learns who reads a report.
Here the JavaScript comes along, out of the package vl-convert, and a policy in the page forbids every
request. The page is put together here and not by vl-convert, which writes labels into a script as they are:
one that holds ``</script>`` would end it and begin another.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from leastnoise.core.errors import InputError
from leastnoise.core.extras import require
from leastnoise.core.printable import printable

# The chart and its settings are data, so that no label is ever read as JavaScript. The editor that vega-embed
# would offer is a page on the internet.
_SHOW = """
const spec = JSON.parse(document.getElementById("spec").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
vegaEmbed("#chart", spec, {
  mode: "vega-lite",
  renderer: "svg",
  theme: dark ? "dark" : undefined,
  actions: {export: true, source: false, compiled: false, editor: false},
});
"""


def to_svg(chart: Any) -> str:
    """An Altair chart as an SVG picture: one element, without scripts, that loads nothing.

    Raises:
        InputError: if it is no chart, or shows what lies elsewhere.
        MissingExtraError: if Altair or vl-convert is not installed.
    """
    spec = _spec(chart)
    _, vl_convert = _packages()
    try:
        svg = str(vl_convert.vegalite_to_svg(spec, vl_version=_version(), allowed_base_urls=[]))
    except ValueError as error:
        raise InputError(
            f"this chart cannot be drawn: {printable(str(error).splitlines()[-1])}", field="chart"
        ) from None
    if re.search(r"<image[^>]*href=\"(?!data:)", svg):
        raise InputError(
            "this chart loads pictures from elsewhere", field="chart", remedy="put them in as data: addresses"
        )
    return svg


Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def to_page(chart: Any, *, title: str, tables: Mapping[str, Table] | None = None) -> str:
    """An Altair chart as one HTML page that can be hovered over, zoomed and saved, and that loads nothing.

    Tables, head and lines by their captions, follow below the chart.

    Some 0.9 MB, nearly all of it the JavaScript of Vega, which comes along. It runs under a policy that
    allows this one script, known by its digest, and no request to anywhere.

    Raises:
        InputError: if it is no chart, or shows what lies elsewhere.
        MissingExtraError: if Altair or vl-convert is not installed.
    """
    # Here, so that importing the library does not import Jinja2.
    from leastnoise.report.rendering import as_it_is, render, style_sheet

    spec = _spec(chart)
    _, vl_convert = _packages()
    script = str(vl_convert.javascript_bundle(_SHOW, vl_version=_version()))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render(
        "chart.html",
        title=title,
        digest=digest,
        style=style_sheet("chart.css"),
        tables=tables or {},
        spec=as_it_is(_inside_a_script(spec)),
        script=as_it_is(script),
    )


def _spec(chart: Any) -> dict[str, Any]:
    """What a chart shows, in Vega-Lite, with all of its data."""
    altair, _ = _packages()
    if not isinstance(chart, altair.TopLevelMixin):
        raise InputError.must("chart", "be an Altair chart", given=type(chart))
    # Altair refuses more than 5,000 rows unless asked; how many are shown is for the caller to say.
    with altair.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = chart.to_dict()
    # The address of the schema is loaded by nothing, and a page without it has no address at all.
    spec.pop("$schema", None)
    address = _first_address(spec)
    if address is not None:
        raise InputError(
            f"this chart would load its data from {printable(address)!r}",
            field="chart",
            given=address,
            remedy="read it first and give the values",
        )
    return spec


def _first_address(part: Any) -> str | None:
    """The first address that some data of a chart would be loaded from."""
    if isinstance(part, dict):
        data = part.get("data")
        if isinstance(data, dict) and isinstance(data.get("url"), str):
            return str(data["url"])
        # The rows themselves define no data, and there may be a million of them.
        part = [value for key, value in part.items() if key not in ("datasets", "values")]
    if not isinstance(part, list):
        return None
    return next((found for value in part if (found := _first_address(value)) is not None), None)


def _inside_a_script(spec: dict[str, Any]) -> str:
    """JSON in which nothing ends the element that it stands in."""
    return json.dumps(spec, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e")


def _version() -> str | None:
    """The version of Vega-Lite that Altair writes, if vl-convert has it, else its latest."""
    altair, vl_convert = _packages()
    wanted = ".".join(str(altair.SCHEMA_VERSION).removeprefix("v").split(".")[:2])
    return wanted if wanted in vl_convert.get_vegalite_versions() else None


def altair_package() -> Any:
    """The package Altair, with which charts are made."""
    return _package("altair")


def _packages() -> tuple[Any, Any]:
    return altair_package(), _package("vl_convert")


def _package(name: str) -> Any:
    return require(name, extra="charts", why="a chart", field="altair")
