"""A pure tool: no capabilities. The same input always has the same result."""

import statistics
from dataclasses import dataclass
from typing import Annotated, Literal

from patchbay_sdk import Failure, tool


@dataclass
class Series:
    """A series of numbers.

    Attributes:
        name: What was measured.
        values: At least one number.
    """

    name: str
    values: list[float]


@dataclass
class Summary:
    name: str
    average: float
    largest: float


@tool(kind="think", read_only=True)
def summarize(
    series: list[Series],
    average: Annotated[Literal["mean", "median"], "Which average."] = "mean",
) -> list[Summary]:
    """Computes average and maximum of series of numbers. Use it instead of mental arithmetic."""
    compute = statistics.fmean if average == "mean" else statistics.median
    for each in series:
        if not each.values:
            raise Failure("invalid-input", f"series '{each.name}' has no values: leave it out")
    return [Summary(each.name, compute(each.values), max(each.values)) for each in series]
