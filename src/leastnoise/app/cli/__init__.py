"""The command line: the verbs of the library from a shell, with no logic of its own.

main              the program and the list of its commands, each loaded when it is called
demo_commands     the demo, and the tables and figures of the papers
init_command      a draft of a specification
check_command     a table compared with its schema, for its owner
design_commands   plans: designed, explained, compared, audited; no data
publish_commands  the one private step
into_folder       releases of more counts than memory holds, measured into a folder
approval          what a person has approved, by its digest
completion_command  completion by the Tab key
saved_commands    saved plans and releases: reported, adjusted, read for quantiles
ledger_command    the budget across releases
plan_cache        plans kept between commands
payment           the ledger that pays for a release
outputs           the files that commands write
terminal          what commands print with
invocation        one call of a command: the options that all have, JSON, its end
facts             plans, releases and ledgers as --json writes them
exit_codes        the exit status of every command, by the class of the error
log_lines         the log of a command
refusals          errors in terms of options and of the specification
"""
