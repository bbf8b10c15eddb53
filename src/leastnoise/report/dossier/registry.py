"""The entry of a release for OpenDP's registry of deployments, as YAML.

What only a person knows is blank, and listed beside the entry. The entry is a draft: its board reviews it.

Reference:
    github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml.
"""

from __future__ import annotations

import re
from typing import Any

from leastnoise.core.printable import printable
from leastnoise.release import Release
from leastnoise.report.dossier.facts import (
    BLANK,
    claim_of,
    domain_sentence,
    noise_sentence,
    unprotected_sentence,
    whole_plan,
)
from leastnoise.report.publication import Publication


def registry_entry(release: Release, publication: Publication) -> dict[str, Any]:
    """The entry, in plain values."""
    plan, claim = whole_plan(release), claim_of(release)
    name, publisher, day = publication.title, publication.publisher, publication.date
    is_stream = plan is not release.plan
    slug = "-".join(part for part in (name, publisher, day and day[:4]) if part)
    post = [] if release.adjusted is None else [release.adjusted.statement()]
    post += [] if release.presented is None else [release.presented.statement()]
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": name or BLANK,
                "data_curators": [publisher or BLANK],
                "intended_use": BLANK,
                "data_product_type": "Summary statistics",
                "data_product_region": BLANK,
                "description": _description(release, publication),
                "publication_date": day or BLANK,
            },
            "dp_variant": {
                "variant_name": claim.variant,
                "data_domain": domain_sentence(plan),
                "unprotected_quantities": unprotected_sentence(plan),
            },
            "privacy_loss": {
                "privacy_unit": claim.unit,
                "privacy_unit_details": claim.neighbours,
                "privacy_parameters": claim.parameters,
                "privacy_parameters_details": claim.details,
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": BLANK,
                "release_type": "Many releases" if is_stream else "One release",
                "release_type_details": BLANK,
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": " ".join(post) or "None: answers may be negative or fractional.",
                "composition": _composition(release),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": BLANK,
                "mechanisms": f"{noise_sentence(plan)} leastnoise, method {plan.method}.",
                "justification": BLANK,
            },
            "administrative": {
                "sources": publication.source or BLANK,
                "registry_authors": [BLANK],
            },
        },
    }


def _composition(release: Release) -> str:
    alone = "This entry is about this release alone; further releases about the same people add to it."
    if release.receipt is None:
        return f"{alone} No ledger recorded it."
    return f"{alone} A ledger adds up what is released about this dataset and refuses what exceeds its limit."


def _description(release: Release, publication: Publication) -> str:
    n = release.plan.workload.shape[0]
    unit = f" of {publication.unit}" if publication.unit is not None else ""
    period = f" ({publication.period})" if publication.period is not None else ""
    asked = ", ".join(printable(block.name) for block in release.plan.workload.blocks[:20])
    return f"{n:,} noisy counts{unit}{period}, with standard errors: {asked}."


def blanks_of(plain: Any, path: str = "") -> list[str]:
    """The places of an entry that a person must fill in, in order."""
    if isinstance(plain, dict):
        inner = [(f"{path}.{key}" if path else key, value) for key, value in plain.items()]
    elif isinstance(plain, list):
        inner = [(path, value) for value in plain]
    else:
        return [path] if plain == BLANK else []
    return [found for place, value in inner for found in blanks_of(value, place)]


def to_yaml(plain: Any, depth: int = 0) -> str:
    """Plain values as YAML: blocks of keys, texts in double quotes, one line each."""
    margin = "  " * depth
    if isinstance(plain, dict):
        lines = []
        for key, value in plain.items():
            nested = isinstance(value, (dict, list))
            text = f"\n{to_yaml(value, depth + 1)}" if nested else f" {_scalar(value)}\n"
            mark = "" if value != BLANK else "  # to be filled in by a person"
            lines.append(f"{margin}{key}:{text[:-1]}{mark}\n" if not nested else f"{margin}{key}:{text}")
        return "".join(lines)
    return "".join(f"{margin}- {_scalar(value)}\n" for value in plain)


def _scalar(value: str | int | float) -> str:
    if not isinstance(value, str):
        # YAML 1.1 takes 1e-06 for a text: it wants a point in the digits.
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(character: str) -> str:
    number = ord(character)
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    width, letter = (2, "x") if number < 2**8 else (4, "u") if number < 2**16 else (8, "U")
    # Half of a pair is no character: it is written as the sign for one that cannot be shown.
    return "\ufffd" if 0xD800 <= number < 0xE000 else f"\\{letter}{number:0{width}x}"
