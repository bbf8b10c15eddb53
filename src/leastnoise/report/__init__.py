"""What was asked, what was released and how good it is, for people to read."""

from leastnoise.report.answers import answers_writer, write_answers, write_quantile_table, write_quantiles
from leastnoise.report.auditing import audit
from leastnoise.report.baseline_noise import baselines
from leastnoise.report.charts import Drawing, rows_chart, to_page, to_svg
from leastnoise.report.comparison import compare, methods
from leastnoise.report.cost_drivers import drivers
from leastnoise.report.driver_table import Drivers
from leastnoise.report.plan_sentences import likeliest_guess
from leastnoise.report.pure_alternative import design_without_delta
from leastnoise.report.redesign import Redesign
from leastnoise.report.summary import Report, summarize
from leastnoise.report.tables import cost_table, cross_table, drivers_lines, drivers_table
from leastnoise.report.trade_off import tradeoff
from leastnoise.report.trade_off_table import Tradeoff, check_kind, write_tradeoff

__all__ = [
    "Drawing",
    "Drivers",
    "Redesign",
    "Report",
    "Tradeoff",
    "answers_writer",
    "audit",
    "baselines",
    "check_kind",
    "compare",
    "cost_table",
    "cross_table",
    "design_without_delta",
    "drivers",
    "drivers_lines",
    "drivers_table",
    "likeliest_guess",
    "methods",
    "rows_chart",
    "summarize",
    "to_page",
    "to_svg",
    "tradeoff",
    "write_answers",
    "write_quantile_table",
    "write_quantiles",
    "write_tradeoff",
]
