"""Products of rows over different attributes: what they count over all cells, and what each row is called."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leastnoise.core.operators import AllOnes, Kronecker, Operator, Reordered
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.schema import Schema


@dataclass(frozen=True, eq=False)
class Factor:
    """The rows of a query over one attribute, or over a few tied together; compared by identity.

    Attributes:
        attributes: their names, in schema order.
        operator: rows over the combinations of their values, the last attribute fastest.
        labels: what each row is called; of a single attribute, without its name.
        is_condition: whether the labels say themselves what they are about, as conditions do.
        heading: what heads a column of the labels, where it is not the attributes.
    """

    attributes: tuple[str, ...]
    operator: Operator
    labels: Labels
    is_condition: bool = False
    heading: str | None = None

    @property
    def title(self) -> str:
        """What heads a column of its labels; conditions on different attributes have different heads."""
        named = " and ".join(self.attributes)
        return self.heading or (f"where {named}" if self.is_condition else named)

    def label(self, j: int) -> str:
        """What row j is called among others."""
        return self.labels[j] if self.is_condition else f"{self.title} {self.labels[j]}"


Term = list[Factor]


def term_operator(term: Term, schema: Schema) -> Operator:
    """The rows of a product over all cells; attributes that it does not mention are added up."""
    asked = {factor.attributes[0]: factor for factor in term}
    tied = {name for factor in term for name in factor.attributes[1:]}
    groups = [
        asked[name] if name in asked else Factor((name,), AllOnes(schema[name].size), Labels(1, str))
        for name in schema
        if name not in tied
    ]
    product = Kronecker([group.operator for group in groups])
    order = [schema.names.index(name) for group in groups for name in group.attributes]
    return product if order == sorted(order) else Reordered(product, schema.shape, order)


def term_labels(term: Term, of_everyone: str) -> Labels:
    """What the rows of a product are called."""
    if not term:
        return Labels(1, lambda i: of_everyone)

    def make(i: int) -> str:
        parts = []
        for factor in reversed(term):
            i, j = divmod(i, factor.labels.length)
            parts.append(factor.label(j))
        return ", ".join(reversed(parts))

    return Labels(math.prod(factor.labels.length for factor in term), make)
