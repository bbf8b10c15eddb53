"""The planner: a page on this machine on which a specification is decided before any data is read.

    spec_edits      changes of a specification's text, which keep its comments
    plan_view       what the page shows of a plan and of a specification, as plain values
    first_estimates what can be said before a design is there
    studies         a design and what follows from it, step by step, best news first
    study_process   the same in a process of its own, which can be ended
    session         the present specification, its history, and the plan kept beside it
    planner_page    the page, for the server or as one file to pass on
    entry           how a browser is given the key: by a private file, never as an argument
    server          the page on the loopback address, for whoever has its token
    templates/      what the page looks like and does

The text of the specification is the single source of truth: every control edits it, nothing else is kept.
No table of people is ever opened here.
"""

from leastnoise.app.planner.entry import private_entry
from leastnoise.app.planner.planner_page import static_page
from leastnoise.app.planner.server import serve
from leastnoise.app.planner.session import PlannerSession

__all__ = ["PlannerSession", "private_entry", "serve", "static_page"]
