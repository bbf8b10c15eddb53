"""What was asked, what was released and how good it is, for people to read."""

from leastnoise.report.text import Report, summarize

__all__ = ["Report", "summarize"]
