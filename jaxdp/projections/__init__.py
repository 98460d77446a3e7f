"""Euclidean projections onto convex sets: batched, on device, differentiable."""

from ._balls import box as box
from ._balls import column_norm_ball as column_norm_ball
from ._balls import frobenius_ball as frobenius_ball
from ._balls import l2_ball as l2_ball
from ._bounded_diagonal import bounded_diagonal as bounded_diagonal
from ._correlation import correlation as correlation
from ._intersection import IntersectionProjection as IntersectionProjection
from ._intersection import alternating_average as alternating_average
from ._intersection import dykstra as dykstra
from ._polytope import PolytopeProjection as PolytopeProjection
from ._polytope import hull as hull
from ._polytope import symmetric_polytope as symmetric_polytope
from ._simplex import l1_ball as l1_ball
from ._simplex import simplex as simplex
from ._spectral import nuclear_ball as nuclear_ball
from ._spectral import psd as psd
from ._spectral import spectraplex as spectraplex
