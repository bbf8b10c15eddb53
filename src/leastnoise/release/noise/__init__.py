"""Exact noise: integer draws whose law is the one on paper, not close to it.

The only room that draws secret randomness. Everything here is an integer;
no float lies between the system's random bits and the noise.

A deviate is a cell and a place in it, ±(k + x)/s with s = 128 cells per unit.
The cell k comes from one uniform number compared with a table; the place x is
uniform and kept with the probability that bends the cell into the density.
Real numbers are never held: a uniform number is its leading digits, and more
are drawn whenever those leave a question open. Almost every draw is decided by
its leading digits, for a whole array at once; the others are finished one by
one from the same digits, which are never redrawn.

Random bits come from `leastnoise.core.random_bits`, none of them twice. A file
imports only files that stand above it here:

    laws          the two densities, and tables of their cells
    one_draw      a draw finished by itself, digit by digit
    many_draws    draws decided together wherever their leading digits suffice
    samplers      Gaussian and Laplace noise
"""

from leastnoise.core.random_bits import RandomBits, SystemBits
from leastnoise.release.noise.samplers import discrete_laplace, rounded_gaussian

__all__ = ["RandomBits", "SystemBits", "discrete_laplace", "rounded_gaussian"]
