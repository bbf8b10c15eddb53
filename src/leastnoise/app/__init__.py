"""Everything between a person and the library: specifications, SQL, the command line, the demo.

sql             counting SQL as queries
specification   one TOML file that says what to publish
drafting        a first specification from the columns of a table
demo            a synthetic town, published from beginning to end
planner         a page to decide a specification on, before any data is read
cli             the commands
"""
