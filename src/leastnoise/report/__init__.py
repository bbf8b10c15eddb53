"""What was asked, what was released and how good it is, for people to read."""

from leastnoise.report.answers import write_answers
from leastnoise.report.baselines import Baselines, baselines, least_pure_total
from leastnoise.report.text import Report, summarize

__all__ = ["Baselines", "Report", "baselines", "least_pure_total", "summarize", "write_answers"]
