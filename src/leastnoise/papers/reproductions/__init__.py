"""The papers, table by table: every table and figure by name, with the printed numbers beside ours.

    adaptive          the adaptive mechanism (Li and Miklau, 2012)
    low-rank          the low-rank mechanism (Yuan et al., 2012)
    coa               convex optimisation, both versions (Yuan et al., 2016)
    fitness-for-use   per-query accuracy (Xiao et al., 2020)
    open-data         our own, on public tables inside packages that anybody can install

A reproduction says what to compute, task by task; what the paper prints and claims, check by
check; and how to draw it. Needs NumPy and SciPy alone, PyTorch where asked for; only drawing needs more.

    rows           what is computed, row by row, and how checks read it
    printed        what the papers print, from printed.toml, and their errata, from errata.toml
    verdicts       what is printed beside what came out: reached, better, differs or not run
    reproduction   a table or figure: its tasks, its judge, its drawing
    tallies        lemmas and theorems: how often each held on random instances
    catalogue      all of them, by name, and how long they take, from timings.toml
    cache          one file for each finished task
    running        tasks in a pool of processes, outcomes as they are complete
    writing, page  an outcome as text, as files, and as a page of the documentation
    command        `leastnoise reproduce`, from a shell or with `python -m`
"""
