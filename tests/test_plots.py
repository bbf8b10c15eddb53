"""What `plot()` draws: every number is read back from the drawing alone, by the numbers on its axes."""

from __future__ import annotations

import base64
import math
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import (
    InputError,
    MethodError,
    MissingExtraError,
    QueryError,
    UnrecordedSpending,
)
from leastnoise.report import Picture
from leastnoise.report.charts.canvas import log_ticks
from support import extra, refuses

SVG = "{http://www.w3.org/2000/svg}"

# Positions are drawn to a tenth of a pixel, and read back by an axis that is drawn so too.
PIXEL = 0.2

# A cell of a cross table.
CELL = re.compile(r"[-\d,.]+ ± [\d,.]+")

HOSTILE = "</title><script>alert('x')</script>\u202e"


def release_of(queries: list[Any], schema: ln.Schema, counts: Any = None, **settings: Any) -> ln.Release:
    plan = ln.design(ln.assemble(queries, schema), settings.pop("privacy", ln.GDP(1)), **settings)
    rng = np.random.default_rng(5)
    x = rng.poisson(40, schema.n_cells) if counts is None else counts
    with pytest.warns(UnrecordedSpending):
        return ln.measure(plan, x)


def elements(picture: Picture, tag: str, kind: str) -> list[ET.Element]:
    """The elements of a class, in the order in which they are drawn."""
    root = ET.fromstring(picture.svg)
    return [e for e in root.iter(f"{SVG}{tag}") if e.get("class") == kind]


def words(picture: Picture) -> list[str]:
    return [e.text or "" for e in ET.fromstring(picture.svg).iter(f"{SVG}text")]


def axis(picture: Picture, *, is_log: bool = False) -> Any:
    """Which number stands at which x, by two of the numbers along the axis."""
    texts = [
        (float(e.get("x") or 0), float((e.text or "").replace(",", "")))
        for e in ET.fromstring(picture.svg).iter(f"{SVG}text")
        if e.get("text-anchor") == "middle" and re.fullmatch(r"-?[\d,.]+", e.text or "")
    ]
    (x0, v0), (x1, v1) = texts[0], texts[-1]
    if is_log:
        return lambda x: math.exp(math.log(v0) + (x - x0) / (x1 - x0) * math.log(v1 / v0))
    return lambda x: v0 + (x - x0) * (v1 - v0) / (x1 - x0)


def unit_of(picture: Picture) -> float:
    """How much a pixel is worth."""
    at = axis(picture)
    return abs(at(1.0) - at(0.0))


def bars(picture: Picture) -> list[tuple[float, float]]:
    """Both ends of every bar."""
    at = axis(picture)
    found = []
    for e in elements(picture, "rect", "bar"):
        x, width = float(e.get("x") or 0), float(e.get("width") or 0)
        found.append((at(x), at(x + width)))
    return found


def error_bars(picture: Picture) -> list[tuple[float, float]]:
    at = axis(picture)
    pairs = [
        re.match(r"M([-\d.]+) [-\d.]+H([-\d.]+)", e.get("d") or "")
        for e in elements(picture, "path", "error")
    ]
    return [(at(float(m[1])), at(float(m[2]))) for m in pairs if m is not None]


# ------------------------------------------------------------------ releases


@pytest.mark.parametrize("seed", range(4))
def test_bars_and_intervals_are_those_of_the_release(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"place {k}" for k in range(int(rng.integers(2, 14)))]
    schema = ln.Schema(place=names)
    release = release_of(
        [ln.Marginal("place", name="places")], schema, rng.integers(0, 30, len(names)), privacy=ln.GDP(0.3)
    )
    picture = release.plot("places", level=0.9)
    room = PIXEL * unit_of(picture)
    ends = bars(picture)
    assert len(ends) == len(names) and [w for w in words(picture) if w in names] == names
    for (low, high), answer in zip(ends, release.answers, strict=True):
        assert low == pytest.approx(min(0.0, answer), abs=room)
        assert high == pytest.approx(max(0.0, answer), abs=room)
    lower, upper = release.interval(0.9)
    drawn = np.array(error_bars(picture))
    assert drawn[:, 0] == pytest.approx(lower, abs=room) and drawn[:, 1] == pytest.approx(upper, abs=room)


def test_bars_of_another_release_would_be_noticed() -> None:
    schema = ln.Schema(place=("a", "b", "c"))
    release = release_of([ln.Marginal("place")], schema, [100, 50, 20])
    picture = release_of([ln.Marginal("place")], schema, [110, 50, 20]).plot("place")
    ends = np.array(bars(picture))[:, 1]
    assert ends != pytest.approx(release.answers, abs=PIXEL * unit_of(picture))


def test_an_ordered_attribute_is_a_line_within_its_band() -> None:
    release = release_of([ln.Marginal("age"), ln.Prefix("age")], ln.Schema(age=range(30)))
    for name in ("age", "age up to"):
        picture = release.plot(name)
        (line,), (band,) = (elements(picture, "path", f"{kind} s1") for kind in ("line", "band"))
        places = [tuple(map(float, p.split())) for p in re.split("[ML]", line.get("d") or "")[1:]]
        y, answers = np.array(places)[:, 1], release[name]["answer"].to_numpy()
        # The picture has the shape of the answers: one straight line maps one to the other. Places are
        # rounded to tenths, and the line that fits them best is at most as far from the true one.
        slope, start = np.polyfit(answers, y, 1)
        assert slope < 0 and y == pytest.approx(start + slope * answers, abs=0.05 + 0.05)
        assert (band.get("d") or "").count("L") == 2 * 30 - 1


def test_two_attributes_are_shaded_and_three_are_small_multiples() -> None:
    schema = ln.Schema(a=[f"a{k}" for k in range(7)], b=("x", "y", "z"), c=("u", "v"))
    release = release_of([ln.Marginal("a", "b"), ln.Marginal("a", "b", "c")], schema)
    two = release.plot("a x b")
    frame = release["a x b"].reset_index()
    shown = [w for w in words(two) if CELL.fullmatch(w)]
    assert len(shown) == 21
    answers = frame.pivot(index="a", columns="b", values="answer").reindex(schema["a"].values)
    # Drawn column by column.
    written = [float(w.split(" ±")[0].replace(",", "")) for w in shown]
    assert written == pytest.approx(answers.to_numpy().T.ravel(), abs=0.051)
    shades = [e.get("class") for e in ET.fromstring(two.svg).iter(f"{SVG}rect")]
    darkest = max((s for s in shades if re.fullmatch(r"c\d", s or "")), key=str)
    assert darkest == "c9" and shades.count(None) == 0
    three = release.plot("a x b x c")
    assert {"u", "v"} <= set(words(three)) and sum(bool(CELL.fullmatch(w)) for w in words(three)) == 42


def test_every_query_is_drawn_unless_one_is_named() -> None:
    queries = [ln.Marginal("a", name=f"q{k}") for k in range(10)]
    release = release_of(queries, ln.Schema(a=("x", "y")))
    shown = words(release.plot())
    assert [w for w in shown if re.fullmatch(r"q\d", w)] == [f"q{k}" for k in range(8)]
    assert any("Not drawn: 'q8', 'q9'" in w for w in shown)
    assert [w for w in words(release.plot("q9")) if w.startswith("q")] == ["q9"]
    with refuses(QueryError, "query", "q99", "'q0'"):
        release.plot("q99")
    with refuses(InputError, "query", int):
        release.plot(3)  # type: ignore[arg-type]
    with refuses(InputError, "level", 95):
        release.plot(level=95)


def test_a_query_that_was_not_asked_is_drawn_where_the_plan_answers_it() -> None:
    release = release_of([ln.Marginal("a", "b")], ln.Schema(a=("x", "y", "z"), b=("u", "v")))
    picture = release.plot(ln.Marginal("a"))
    ends = np.array(bars(picture))[:, 1]
    assert ends == pytest.approx(
        release.answer(ln.Marginal("a"))["answer"].to_numpy(), abs=PIXEL * unit_of(picture)
    )
    with refuses(QueryError, "query"):
        release_of([ln.Marginal("b")], ln.Schema(a=("x", "y"), b=("u", "v"))).plot(ln.Marginal("a"))


def test_ratios_and_single_counts_are_drawn() -> None:
    queries = [ln.Total(name="all"), ln.Share(ln.Marginal("a"), of=ln.Total(), name="shares")]
    release = release_of(queries, ln.Schema(a=("x", "y")), [400, 600])
    picture = release.plot("shares")
    ends = np.array(bars(picture))[:, 1]
    assert ends == pytest.approx(release["shares"]["estimate"].to_numpy(), abs=PIXEL * unit_of(picture))
    assert f"{release['all']['answer'].iloc[0]:,.1f}" in words(release.plot("all"))


def test_what_is_left_out_or_rounded_is_not_drawn() -> None:
    """A picture that showed the number behind a suppressed one would undo the presentation."""
    release = release_of([ln.Marginal("a")], ln.Schema(a=("x", "y", "z")), [1000, 0, 500])
    shown = ln.present(release, round_to=10, suppress_above="0.5%")
    picture = shown.plot("a")
    frame = shown["a"]
    kept = frame["answer"].dropna().to_numpy()
    assert kept.tolist() == [1000, 500]
    assert np.array(bars(picture))[:, 1] == pytest.approx(kept, abs=PIXEL * unit_of(picture))
    assert "–" in words(picture)
    assert any("rounded to multiples of 10" in w for w in words(picture))
    assert "adjusted" in " ".join(words(ln.adjust(release).plot("a")))


def test_answers_without_known_errors_have_no_intervals() -> None:
    release = release_of([ln.Marginal("a")], ln.Schema(a=range(8)), privacy=ln.PureDP(1), method="dawa")
    picture = release.plot("a")
    assert len(bars(picture)) == 8 and error_bars(picture) == []
    with refuses(MethodError, "method"):
        release.plan.plot()


# ------------------------------------------------------------------ plans


def test_a_plan_shows_its_errors_beside_plain_noise_and_its_targets() -> None:
    schema = ln.Schema(age=range(12), sex=("F", "M"))
    queries = [ln.Prefix("age", name="ages", stderr=9), ln.Marginal("age", "sex", name="both"), ln.Total()]
    plan = ln.design(ln.assemble(queries, schema), ln.GDP(0.5))
    picture = plan.plot()
    at, room = axis(picture), PIXEL * unit_of(picture)
    W = plan.workload.dense()
    assert plan.stderr is not None
    errors = [plan.stderr[plan.workload.rows_of(name)] for name in plan]
    rows = [W[plan.workload.rows_of(name)] for name in plan]
    mu = 0.5
    expected = {
        "way s1": [math.sqrt((own**2).mean()) for own in errors],
        "way s2": [math.sqrt((W**2).sum(axis=0).max()) / mu] * 3,
        "way s3": [math.sqrt((own**2).sum(axis=1).mean()) / mu for own in rows],
    }
    for kind, values in expected.items():
        # The first is that of the legend.
        drawn = elements(picture, "rect", kind)[1:]
        ends = [at(float(e.get("x") or 0) + float(e.get("width") or 0)) for e in drawn]
        assert ends == pytest.approx(values, abs=room)
    (target,) = elements(picture, "path", "target")
    assert at(float((target.get("d") or "")[1:].split()[0])) == pytest.approx(9, abs=room)
    assert [high for _, high in error_bars(picture)] == pytest.approx([e.max() for e in errors], abs=room)


def test_a_plan_of_nothing_and_one_of_many_are_drawn() -> None:
    empty = ln.design(ln.Workload.from_matrix(np.zeros((2, 3))), ln.GDP(1))
    assert "rows" in words(empty.plot())
    many = ln.assemble([ln.Marginal("a", name=f"q{k}") for k in range(45)], ln.Schema(a=("x", "y")))
    assert any("5 further tables not drawn" in w for w in words(ln.design(many, ln.GDP(1)).plot()))


# ------------------------------------------------------------------ trade-offs and comparisons


def test_methods_stand_where_their_variance_is() -> None:
    workload = ln.assemble([ln.Prefix("age")], ln.Schema(age=range(16)))
    table = ln.compare(workload, ln.PureDP(1), methods=["identity", "wavelet", "dawa"], data=np.arange(16))
    picture = table.plot()
    at = axis(picture, is_log=True)
    dots = {
        kind: [at(float((e.get("d") or "")[1:].split()[0]) + 5) for e in elements(picture, "path", kind)]
        for kind in ("dot", "dot hollow")
    }
    achieved = {c.method: c.achieved for c in table.contenders}
    known = [achieved[c.method] for c in table.contenders if c.gap is not None]
    assert dots["dot"] == pytest.approx(known, rel=0.01)
    assert dots["dot hollow"] == pytest.approx([achieved["dawa"]], rel=0.01)
    (bound,) = elements(picture, "path", "target")
    assert at(float((bound.get("d") or "")[1:].split()[0])) == pytest.approx(table.lower_bound, rel=0.01)
    nothing = ln.compare(ln.Workload.from_matrix(np.zeros((1, 2))), ln.GDP(1), methods=["identity"])
    assert "identity" in words(nothing.plot())


def test_a_trade_off_runs_where_its_errors_are() -> None:
    schema = ln.Schema(age=range(6))
    workload = ln.assemble([ln.Prefix("age", name="ages", stderr=6)], schema)
    table = ln.tradeoff(workload, ln.ApproxDP(epsilon=1, delta=1e-6), epsilons=[0.5, 2, 4])
    picture = table.plot()
    lines = {k: elements(picture, "path", f"line s{k}")[-1].get("d") or "" for k in (1, 2, 3)}
    places = {k: [tuple(map(float, p.split())) for p in re.split("[ML]", d)[1:]] for k, d in lines.items()}
    values = {
        k: [getattr(point.batches[0], name) for point in table.points]
        for k, name in ((1, "rms"), (2, "per_count"), (3, "per_cell"))
    }
    # One straight line maps all logarithms to all heights.
    y = np.array([place[1] for k in values for place in places[k]])
    logs = np.log(np.array([value for k in values for value in values[k]]))
    slope, start = np.polyfit(logs, y, 1)
    assert slope < 0 and y == pytest.approx(start + slope * logs, abs=0.11)
    (target,), (mark,) = (elements(picture, "path", kind) for kind in ("target", "diamond"))
    height = float((target.get("d") or "").split()[1].split("H")[0])
    assert height == pytest.approx(start + slope * math.log(6), abs=0.2)
    met = table.asked[0].met_from
    across = np.array([place[0] for place in places[1]])
    unit, zero = np.polyfit(np.log([point.epsilon for point in table.points]), across, 1)
    assert met is not None
    assert float((mark.get("d") or "")[1:].split()[0]) == pytest.approx(zero + unit * math.log(met), abs=0.2)


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (0.3, 7), (0.011, 900), (1e-9, 1e9), (5, 5.1), (999, 1001)]
)
def test_ticks_of_a_logarithmic_axis_hold_what_is_drawn(low: float, high: float) -> None:
    marks = log_ticks(low, high)
    assert marks[0] <= low * (1 + 1e-9) and marks[-1] >= high * (1 - 1e-9)
    assert 2 <= len(marks) <= 14 and marks == sorted(set(marks))


# ------------------------------------------------------------------ files and notebooks


def hostile_release() -> ln.Release:
    schema = ln.Schema({HOSTILE: ("x", HOSTILE), "b": [f"v{k}" for k in range(8)]})
    return release_of([ln.Marginal(HOSTILE, name=HOSTILE), ln.Marginal(HOSTILE, "b", name="both")], schema)


def test_labels_are_text_in_every_form(tmp_path: Path) -> None:
    release = hostile_release()
    for picture in (release.plot(), release.plan.plot()):
        for text in (picture.svg, picture._repr_svg_()):
            root = ET.fromstring(text)
            assert not list(root.iter(f"{SVG}script")) and "\u202e" not in text
            assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        shown = picture._repr_html_()
        assert re.fullmatch(r'<img alt="[^"<>]*" width="\d+" style="[\w:;%-]+" src="data:[^"<>]+">', shown)
        page = picture.save(tmp_path / "p.html").read_text(encoding="utf-8")
        assert "default-src 'none'" in page and "<script" not in page


def test_a_notebook_gets_the_picture_as_an_image() -> None:
    picture = hostile_release().plot("both")
    shown = picture._repr_html_()
    (encoded,) = re.findall(r"base64,([\w+/=]+)", shown)
    assert base64.b64decode(encoded).decode() == picture._repr_svg_()
    # Nothing shows titles in an image; they are in files, where something does.
    assert "<title>" not in picture._repr_svg_() and "<title>" in hostile_release().plot().svg


def test_pictures_are_saved_by_their_ending(tmp_path: Path) -> None:
    picture = hostile_release().plot()
    assert picture.save(tmp_path / "a.SVG").read_text(encoding="utf-8") == picture.svg
    with refuses(InputError, "path", ..., ".svg, .html, .png, .pdf"):
        picture.save(tmp_path / "a.gif")
    with refuses(InputError, "path", ..., "there is no folder"):
        picture.save(tmp_path / "none" / "a.svg")


def test_without_vl_convert_the_line_to_type_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with refuses(MissingExtraError, "vl_convert", None, "pip install 'leastnoise[charts]'"):
        hostile_release().plot().save(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_raster_and_print_files_are_what_their_ending_says(tmp_path: Path) -> None:
    extra("vl_convert")
    picture = hostile_release().plot()
    assert picture.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert picture.save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
