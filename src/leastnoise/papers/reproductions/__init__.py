"""The papers, table by table: every table and figure by name, with the printed numbers beside ours.

    adaptive          the adaptive mechanism (Li and Miklau, 2012)
    low-rank          the low-rank mechanism (Yuan et al., 2012)
    coa               convex optimisation, both versions (Yuan et al., 2016)
    fitness-for-use   per-query accuracy (Xiao et al., 2020)
    open-data         our own, on public tables inside packages that anybody can install

A reproduction says what to compute, task by task; what the paper prints and claims, check by
check; and how to draw it. `printed.toml` holds the printed numbers. Needs NumPy and SciPy alone,
PyTorch where asked for; only drawing needs more.
"""
