"""What was asked, what was released and how good it is, for people to read.

Nothing here designs but `compare`, `tradeoff`, `drivers` and `design_without_delta`, which say so.

    figures.py           numbers as people read them, rounded to the safe side
    plan_sentences.py    what is said of a plan, as text and on the page
    summary.py           `summarize`: the report as text, or as a page
    page.py              the report as one HTML page: its figures
    over_time.py         answers and errors over the periods of a plan
    answer_tables.py     answers that belong together: a batch, or one table of a cube
    quotable.py          sentences about a release that can be quoted
    batches.py           how the page shows one batch of answers: lists, cross tables
    batch_pictures.py    the same as pictures: lines, maps, small multiples
    rendering.py         templates filled in, escaped by construction
    own_pages.py         its style and its escaping, for pages of other rooms
    templates/           what the page says
    charts/              every chart: pictures of the page, pictures by themselves, Altair charts
    plots.py             `plot()` of a release and of a plan
    drawn_tables.py      tables of answers, drawn
    release_html.py      what a notebook shows of a release
    tables.py            tables for the terminal
    baseline_noise.py    what noise on every count, or on every cell, would have cost
    publication.py       what a publisher says: title, source, period, unit, contact, licence, date
    dossier/             the folder of files that a publication needs beside its page
    answer_files.py      very many answers as a folder of Parquet files
    answers.py           answers and quantiles as CSV, Parquet, JSON and Excel files
    comparison.py        `compare`: every method side by side
    side_by_side.py      two or more plans side by side
    pure_alternative.py  what a plan with a delta could do without one
    redesign.py          several requests designed again
    pressure.py          how hard each target presses on the cost
    cost_drivers.py      `drivers`: which requests drive the cost
    driver_table.py      what drives the cost, as a table and in sentences
    trade_off.py         `tradeoff`: what accuracy costs in privacy
    trade_off_table.py   the trade-off as a table and as files
    worst_pair.py        the neighbouring tables that a plan tells apart best
    auditing.py          `audit`: whether releases of a plan keep its promise
"""

from leastnoise.report.answer_files import check_answer_folder, write_answer_files
from leastnoise.report.answers import answers_writer, write_answers, write_quantile_table, write_quantiles
from leastnoise.report.auditing import audit
from leastnoise.report.baseline_noise import baselines, baselines_of
from leastnoise.report.charts import Drawing, Picture, rows_chart, to_page, to_svg
from leastnoise.report.comparison import compare, methods
from leastnoise.report.cost_drivers import drivers
from leastnoise.report.dossier import Dossier, write_dossier
from leastnoise.report.dossier.writing import check_dossier
from leastnoise.report.driver_table import Drivers
from leastnoise.report.figures import share_above
from leastnoise.report.own_pages import filled_in, style_text
from leastnoise.report.plan_sentences import likeliest_guess, target_to_text
from leastnoise.report.publication import PUBLICATION_KEYS, Publication, publication_from_plain
from leastnoise.report.pure_alternative import design_without_delta
from leastnoise.report.redesign import Turn
from leastnoise.report.side_by_side import PlansSideBySide
from leastnoise.report.summary import Report, plan_text, summarize
from leastnoise.report.tables import cost_table, cross_table, drivers_lines, drivers_table
from leastnoise.report.trade_off import tradeoff
from leastnoise.report.trade_off_table import Tradeoff, check_kind, write_tradeoff

__all__ = [
    "PUBLICATION_KEYS",
    "Dossier",
    "Drawing",
    "Drivers",
    "Picture",
    "PlansSideBySide",
    "Publication",
    "Report",
    "Tradeoff",
    "Turn",
    "answers_writer",
    "audit",
    "baselines",
    "baselines_of",
    "check_answer_folder",
    "check_dossier",
    "check_kind",
    "compare",
    "cost_table",
    "cross_table",
    "design_without_delta",
    "drivers",
    "drivers_lines",
    "drivers_table",
    "filled_in",
    "likeliest_guess",
    "methods",
    "plan_text",
    "publication_from_plain",
    "rows_chart",
    "share_above",
    "style_text",
    "summarize",
    "target_to_text",
    "to_page",
    "to_svg",
    "tradeoff",
    "write_answer_files",
    "write_answers",
    "write_dossier",
    "write_quantile_table",
    "write_quantiles",
    "write_tradeoff",
]
