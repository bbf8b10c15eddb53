"""What was asked, what was released and how good it is, for people to read."""

from leastnoise.report.answers import answers_writer, write_answers
from leastnoise.report.simple_ways import Baselines, SimpleWay, baselines
from leastnoise.report.summary import Report, summarize

__all__ = ["Baselines", "Report", "SimpleWay", "answers_writer", "baselines", "summarize", "write_answers"]
