"""The search behind `joint`: X = Tᵀ diag(ω) T with T = ⊗_a T_a free on every axis, and ω free.

joint_problem   what is asked of every axis, total variance and profile, and their derivatives
joint_start     bases to start from
joint_search    the descent over bases and weights
joint_caps      the same where queries have caps
joint_dual      weights of product form for the bound
joint_rounding  the bases in integers, and the weights for those
"""
