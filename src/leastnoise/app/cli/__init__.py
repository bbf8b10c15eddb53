"""The command line: the verbs of the library from a shell, with no logic of its own.

main              the program, the list of its commands, the demo and the reproductions
init_command      a draft of a specification
check_command     a table compared with its schema, for its owner
design_commands   plans: designed, explained, compared, audited; no data
publish_commands  the one private step
saved_commands    saved plans and releases: reported, adjusted, read for quantiles
ledger_command    the budget across releases
payment           the ledger that pays for a release
outputs           the files that commands write
terminal          what commands print with
refusals          errors in terms of options and of the specification
"""
