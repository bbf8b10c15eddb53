"""From a table of people to counts per cell.

`vectorize` makes a lazy handle; nothing is read before a count is asked for.
Files and data frames are counted by DuckDB in this process, Ibis tables by the
engine they are in, and both to the same counts. A record belongs to one cell or
to none, and which one depends on that record alone:

    text categories   the value as text, compared exactly: no trimming, no case
                      folding. Columns of another type are written out first:
                      the integer 1 and the float 1.0 are "1", a truth value is
                      "true" or "false". Types that another program guessed from
                      the values, as pandas.read_csv does, can change with one
                      record: give the file itself, or read it with dtype=str.
    whole numbers     a range or integer categories: whatever equals a declared
                      number, be it 18, 18.0, or the text "18", "18.0", "1.8e1".
    bins              the value as a float64, e_i <= value < e_{i+1}. Text is
                      read if it is a plain decimal number, or "inf".

Text that is not a number, a value outside the declared ones, a null and a NaN
leave the record out, silently, unless the attribute has another policy:

    outside="clamp"   a whole number beyond a range's ends, or any number beyond
                      the bins, counts at the nearest end
    outside="other"   every value that is not null or NaN and not declared, text
                      that is no number included, counts in the other cell
    null="other"      so does a null or NaN

`Attribute.place` says the same of one value at a time.

Where a person may have several records, ``person=`` names the column that tells
whose they are, and at most k of each person count, in an order that is a fixed
hash of the person and the cell. Ids are compared exactly, and one that cannot be
told apart exactly belongs to nobody: `people.py` has the rules.

Whatever a value is, it has a cell or none: reading never warns or fails because of one.
A value that no text in UTF-8 can tell is a null; in a Parquet file question marks stand
for the bytes that are no text.

Types that no schema can mean are refused before anything is counted: lists,
records, bytes, and dates or times where numbers are declared.

CSV has a header line and a comma between fields, TSV a tab; nothing is guessed
from the content, and all fields are text. An empty field without quotes is a
null. Files are in UTF-8, or in UTF-16 if a byte order mark says so. What a record
is stands in csv_records.py: a line with too few fields, not in UTF-8, too long, or
with a quote that does not close is left out, and no other line with it; fields
beyond the header's are ignored. File names may not hold ``* ? [``, which mean
several files.

Messages hold nothing true about the table: what the engine says is withheld.

    handle.py     `vectorize` and the lazy handle it makes
    table_cover.py     many tables from few scans
    scan.py     one scan, by whichever engine holds the table
    duckdb_scan.py   by the embedded engine: from values to cells, in SQL
    schema_fit.py    how far a table keeps to its schema, for its owner's eyes
    people.py     whose record it is
    sources.py    files and data frames, as the embedded engine reads them
    column_names.py   columns found by their names
    csv_files.py      CSV files as the embedded engine reads them
    csv_blocks.py     the records and fields of a block of bytes, all at once
    csv_records.py    records and fields, by one pass over the bytes
    text_files.py     bytes of a file as UTF-8
    arrow_stream.py   columns of text as an Arrow stream
    ibis_scan.py    by any other engine, through Ibis
    ibis_cells.py    from values to cells, in Ibis expressions
    dialects.py   what Ibis has no word for
    kinds.py      types of column that can be counted at all
    bin_edges.py      edges of bins as an engine compares them
    scan_progress.py   progress
    vector.py     counts given one by one
    version.py    which version of a table is counted, and by which rules
    withheld_errors.py   errors that say nothing about the table
"""

from leastnoise.data.column_names import other_separator
from leastnoise.data.csv_blocks import Dropped
from leastnoise.data.handle import Data, vectorize
from leastnoise.data.schema_fit import ColumnFit, Fit
from leastnoise.data.sources import column_types, files_named
from leastnoise.data.text_files import TextFile
from leastnoise.data.vector import counts_from_vector, is_count_vector
from leastnoise.data.version import counted_by, feed
from leastnoise.data.withheld_errors import withheld

__all__ = [
    "ColumnFit",
    "Data",
    "Dropped",
    "Fit",
    "TextFile",
    "column_types",
    "counted_by",
    "counts_from_vector",
    "feed",
    "files_named",
    "is_count_vector",
    "other_separator",
    "vectorize",
    "withheld",
]
