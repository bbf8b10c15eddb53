"""The verbs from a shell; no logic of their own.

    app        the program, and the commands of the whole walk
    terminal   what all commands print with
    designing  a design that is waited for

and one module for each other command, by its name.
"""
