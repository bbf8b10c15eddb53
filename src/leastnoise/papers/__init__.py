"""The papers' own algorithms, as printed, and the reproductions of their tables and figures.

The list of methods loads this room by name when somebody asks for one of them; nothing else imports it.

    coa, lowrank, smoothing, smii, sdp   strategies found as the papers print it
    low_rank_rounds                      the rounds of lowrank from one start
    dawa, mwem                           mechanisms that depend on the data
    buckets                              DAWA's buckets, and the optimal noise over them: ours
    noisy_partition                      the buckets of dawa and buckets
    dawa_published                       DAWA's partition as published: not private, simulated
    fitness, barrier, unit_balls         what some of these share
    reproductions                        table by table, with the printed numbers beside ours
"""
