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

    periods           the day that a date, a timestamp or a text in ISO 8601 lies on. A moment with a zone or
                      an offset lies on the day that the clocks of the declared zone show.

Cleaning that an attribute declares is done to text first (`leastnoise.query.schema.cleaning`).

Text that is not a number, a value outside the declared ones, a null and a NaN
leave the record out, unless the attribute has another policy:

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

CSV has a header line and a comma between fields, TSV a tab, unless another separator, quote or encoding is
declared; nothing is guessed from the content, and all fields are text. An empty field without quotes is a
null. Files are in UTF-8, or in UTF-16 if a byte order mark says so. Of an Excel file one sheet is read, its
first row as header. What a record
is stands in csv_records.py: a line with too few fields, not in UTF-8, too long, or
with a quote that does not close is left out, and no other line with it; fields
beyond the header's are ignored. File names may not hold ``* ? [``, which mean
several files.

Messages hold nothing true about the table: what the engine says is withheld.

A file imports only files that stand above it here:

    connections       errors of engines, withheld; connections that are lost, and made again
    placement         what places a value in its cell, told once for all engines
    columns           how a schema meets columns: by name and by type
    people            whose record it is
    file_format       how files are written, as it is declared
    file_names        which files, and what their names and folders say
    spreadsheets      the rows of one sheet
    text_files        the bytes of a file as UTF-8
    csv_blocks        the records and fields of a block of bytes, all at once
    csv_records       records and fields, by one pass over the bytes
    json_lines        records of JSON, one a line
    arrow_stream      columns of text as an Arrow stream
    text_records      columns of files of text and of spreadsheets
    sqlite_rows       values of a table of SQLite, one by one
    sources           files and data frames, as the embedded engine reads them
    scan_progress     progress while an engine scans
    table_cover       many tables from few scans
    snapshots         one version of a table for all scans of a release
    block_counts      counts of many blocks by NumPy, from numbers of cells
    duckdb_counts     counts of blocks, from records that the embedded engine has placed
    duckdb_dates      dates as SQL of the embedded engine
    duckdb_cleaning   declared cleaning as SQL of the embedded engine
    duckdb_scan       one scan by the embedded engine: placements written in SQL
    dialects          what Ibis has no word for
    addresses         tables by address: databases, lakes and other machines
    ibis_dates        dates in Ibis expressions
    ibis_cleaning     declared cleaning in Ibis expressions
    ibis_values       what a column holds: its text and its number, in Ibis expressions
    ibis_cells        placements written as Ibis expressions
    arrow_cells       placements of stored columns by NumPy and PyArrow, in Spark's executors
    spark_counts      counts of blocks in every partition of Spark, where executors have NumPy
    postgres_counts   counts of blocks in PostgreSQL, from cells written into few whole numbers
    ibis_scan         one scan by any other engine, through Ibis
    handle            `vectorize`, and the lazy handle it makes
    count_vectors     counts given one by one
    held_tables       very many tables from one scan, held together
    schema_fit        how far a table keeps to its schema, for its owner's eyes
    version           which version of a table is counted, and by which rules
"""

from leastnoise.data.addresses import shown_address
from leastnoise.data.columns import other_separator
from leastnoise.data.connections import withheld
from leastnoise.data.count_vectors import counts_from_vector, is_count_vector
from leastnoise.data.csv_blocks import DroppedRecords
from leastnoise.data.csv_records import MAX_RECORD
from leastnoise.data.file_format import ENCODINGS, FileFormat
from leastnoise.data.file_names import files_named, is_address, kind_of
from leastnoise.data.handle import Data, vectorize
from leastnoise.data.held_tables import HeldTables, held_tables
from leastnoise.data.scan_progress import ScanProgress
from leastnoise.data.schema_fit import ColumnFit, SchemaFit, fit_of
from leastnoise.data.sources import column_types
from leastnoise.data.spreadsheets import sheet_header
from leastnoise.data.table_cover import summed
from leastnoise.data.text_files import TextFile
from leastnoise.data.version import identity_of, version_digest

__all__ = [
    "ENCODINGS",
    "MAX_RECORD",
    "ColumnFit",
    "Data",
    "DroppedRecords",
    "FileFormat",
    "HeldTables",
    "ScanProgress",
    "SchemaFit",
    "TextFile",
    "column_types",
    "counts_from_vector",
    "files_named",
    "fit_of",
    "held_tables",
    "identity_of",
    "is_address",
    "is_count_vector",
    "kind_of",
    "other_separator",
    "sheet_header",
    "shown_address",
    "summed",
    "vectorize",
    "version_digest",
    "withheld",
]
