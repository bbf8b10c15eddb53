"""What was asked, what was released and how good it is, for people to read."""

from leastnoise.report.answers import write_answers
from leastnoise.report.baselines import Baselines, SimpleWay, baselines
from leastnoise.report.text import Report, summarize

__all__ = ["Baselines", "Report", "SimpleWay", "baselines", "summarize", "write_answers"]
