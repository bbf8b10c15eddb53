"""Every chart of the package, in one place.

pictures.py       the pictures of the page, laid out for templates/pictures.html; needs no extra
altair_charts.py  Altair charts: trade-offs, comparisons, reproductions
chart_files.py    Altair charts as SVG, or as a page that loads nothing
"""

from leastnoise.report.charts.chart_files import to_page, to_svg

__all__ = ["to_page", "to_svg"]
