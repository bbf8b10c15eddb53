"""Every chart of the package, in one place.

pictures.py       the pictures of the page, laid out for templates/pictures.html; needs no extra
altair_charts.py  Altair charts: trade-offs, comparisons, reproductions
chart_files.py    Altair charts as SVG, or as a page that loads nothing
"""

from leastnoise.report.charts.altair_charts import Drawing, rows_chart
from leastnoise.report.charts.chart_files import check_charts, to_page, to_svg

__all__ = ["Drawing", "check_charts", "rows_chart", "to_page", "to_svg"]
