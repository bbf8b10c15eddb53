"""From a table of people to counts per cell.

`vectorize` makes a lazy handle; nothing is read before a count is asked for. Whatever holds a table (files,
frames, databases, Spark) hands over raw columns, a batch of records at a time; one elementwise function
(`placing`) says which cell each value belongs to; and codes are counted here, from one reading. A record
belongs to one cell or to none, and which one depends on that record alone: nothing else is in reach of the
function that decides.

    text categories   the value as text, compared exactly: no trimming, no case folding. Columns of another
                      type are written out first: the integer 1 and the float 1.0 are "1", a truth value is
                      "true" or "false", a day is "2026-03-15", a moment "2026-03-15 10:30:00" (in UTC, with
                      "+00:00" behind, where it has a zone). Types that another program guessed from the
                      values, as pandas.read_csv does, can change with one record: give the file itself, or
                      read it with dtype=str.
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

Whatever a value is, it has a cell or none: reading never warns or fails because of one. A text that is not
UTF-8 is a null. Types that no schema can mean are refused before anything is counted: lists, records, bytes,
and dates or times where numbers are declared.

CSV has a header line and a comma between fields, TSV a tab, unless another separator, quote or encoding is
declared; nothing is guessed from the content, and all fields are text. An empty field without quotes is a
null. Files are in UTF-8, or in UTF-16 if a byte order mark says so. Of an Excel file one sheet is read, its
first row as header. What a record
is stands in csv_records.py: a line with too few fields, not in UTF-8, too long, or
with a quote that does not close is left out, and no other line with it; fields
beyond the header's are ignored. File names may not hold ``* ? [``, which mean
several files.

Messages hold nothing true about the table: what an engine says is withheld.

A file imports only files that stand above it here:

    raw_table         what every table offers, raw columns, and whether an engine keeps to it
    arrow_values      what Arrow arrays hold, as NumPy's and Python's values
    placing           which cell a value belongs to: one elementwise function
    people            whose record it is
    columns           how a schema meets columns: by name and by type
    connections       tables of Ibis on every engine; connections made again, and errors withheld
    file_names        which files, how they are written, and what their names and folders say
    spreadsheets      the rows of one sheet
    text_files        the bytes of a file as UTF-8
    csv_blocks        the records and fields of a block of bytes, all at once
    csv_records       records and fields, by one pass over the bytes
    written_text      values of any type, written out as text
    files             tables in files, Parquet, Feather and JSON Lines themselves, and what only folders say
    frames            pandas, polars and Arrow tables
    addresses         tables by address: databases, SQLite itself, lakes and other machines
    scan_progress     progress while a table is counted
    table_cover       which blocks to count, so that every asked table is a sum of one
    counting          how many records each cell holds, and the counts of all tables of a question
    limiting          at most so many records of each person
    postgres          PostgreSQL, as it copies records out
    spark             Spark: every partition places and counts its own records
    engines           DuckDB and other engines of Ibis
    sources           the table that a source is
    handle            `vectorize`, and the lazy handle it makes
    schema_fit        how far a table keeps to its schema, for its owner's eyes
    version           which version of a table is counted, and by which rules
"""

from leastnoise.data.addresses import shown_address
from leastnoise.data.columns import other_separator
from leastnoise.data.connections import withheld
from leastnoise.data.counting import counts_from_vector, is_count_vector
from leastnoise.data.file_names import ENCODINGS, FileFormat, files_named, is_address, kind_of
from leastnoise.data.files import stated_types
from leastnoise.data.handle import Data, vectorize
from leastnoise.data.raw_table import DroppedRecords
from leastnoise.data.scan_progress import ScanProgress
from leastnoise.data.schema_fit import ColumnFit, SchemaFit, fit_of
from leastnoise.data.spreadsheets import sheet_header
from leastnoise.data.table_cover import summed
from leastnoise.data.text_files import MAX_RECORD, TextFile
from leastnoise.data.version import identity_of, version_digest

__all__ = [
    "ENCODINGS",
    "MAX_RECORD",
    "ColumnFit",
    "Data",
    "DroppedRecords",
    "FileFormat",
    "ScanProgress",
    "SchemaFit",
    "TextFile",
    "counts_from_vector",
    "files_named",
    "fit_of",
    "identity_of",
    "is_address",
    "is_count_vector",
    "kind_of",
    "other_separator",
    "sheet_header",
    "shown_address",
    "stated_types",
    "summed",
    "vectorize",
    "version_digest",
    "withheld",
]
