"""A first specification, drafted from the names and types of a table's columns.

    columns    the names and types, and nothing else: no value is read
    codebook   values of columns, from a public file
    cleaning_rules  cleaning that would let more records count, from a fixed list
    draft      the specification, to be filled in
    questions  what is asked first

`leastnoise init` puts them together.
"""
