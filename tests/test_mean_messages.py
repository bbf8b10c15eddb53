"""What people are told who ask for a mean or a share, and the sentence that they can quote."""

import pytest

import leastnoise as ln

SCHEMA = ln.Schema(age=range(4), sex=("F", "M"))


def test_a_mean_without_a_target_is_named_as_it_was_asked() -> None:
    asked = [ln.Marginal("sex", within=20), ln.Mean("age", name="mean age")]
    with pytest.raises(ln.LeastnoiseError, match=r"^query 'mean age' has no target .* or set an epsilon"):
        ln.design(ln.assemble(asked, SCHEMA))


@pytest.mark.parametrize("target", [{"within": "5%"}, {"within": ("5%", 0.9)}, {"stderr": "5%"}])
def test_per_cent_of_a_ratio_are_refused_before_a_size_is_asked_for(target: dict[str, str]) -> None:
    with pytest.raises(ln.LeastnoiseError, match=r"unit of the ratio, not in per cent.* 0\.05"):
        ln.Share(ln.Marginal("sex"), of=ln.Total(), **target)


def test_a_mean_of_bins_says_how_to_have_both() -> None:
    schema = ln.Schema(age=ln.Bins([0, 18, 65]), sex=("F", "M"))
    with pytest.raises(ln.LeastnoiseError, match="declare a range, and count its bins with ranges"):
        ln.assemble([ln.Mean("age")], schema)
    with pytest.raises(ln.LeastnoiseError) as refused:
        ln.assemble([ln.Mean("sex")], schema)
    assert "bins" not in str(refused.value)


def test_targets_of_the_parts_of_a_mean_are_short() -> None:
    workload = ln.assemble([ln.Mean("age", within=2, expected=944)], SCHEMA)
    assert [block.query.target_to_text() for block in workload.blocks] == [
        "std. error 51.0213% of 944",
        "std. error 34.0142% of 944",
    ]


@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
def test_a_single_mean_is_named_once_in_the_sentence_to_quote() -> None:
    workload = ln.assemble([ln.Mean("age", name="mean age")], SCHEMA)
    release = ln.measure(ln.design(workload, ln.GDP(1)), [500] * SCHEMA.n_cells)
    assert "(mean age); the true value" in ln.summarize(release).html()
