"""Every chart of the package, in one place.

pictures.py         the pictures of the page, laid out for templates/pictures.html; needs no extra
canvas.py           where everything of a picture by itself stands
picture.py          a picture by itself: what `plot()` gives, as a drawing or a file
accuracy_charts.py  pictures of trade-offs and of comparisons
altair_charts.py    Altair charts of reproductions
chart_files.py      Altair charts as SVG, or as a page that loads nothing
"""

from leastnoise.report.charts.altair_charts import Drawing, rows_chart
from leastnoise.report.charts.chart_files import to_page, to_svg
from leastnoise.report.charts.picture import Picture

__all__ = ["Drawing", "Picture", "rows_chart", "to_page", "to_svg"]
