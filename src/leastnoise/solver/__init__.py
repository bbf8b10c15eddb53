"""The certified optimum.

    backend.py          the few matrix operations the solver needs
    backend_numpy.py    … on NumPy and SciPy
    backend_torch.py    … on PyTorch, CPU or CUDA
    dual.py             the dual function, its gradient and Hessian products
    newton.py           the Newton method, with a bound on both sides at every step

Nothing here is trusted: `certificate` recomputes both bounds from the workload
and the integer strategy alone.
"""

from leastnoise.solver.backend import BACKENDS, load_backend
from leastnoise.solver.newton import Solution, minimise_total_variance

__all__ = ["BACKENDS", "Solution", "load_backend", "minimise_total_variance"]
