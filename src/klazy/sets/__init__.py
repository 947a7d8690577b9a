"""Convex compact sets with exact Euclidean projections."""

from klazy.sets.balls import Box, L1Ball, L2Ball
from klazy.sets.base import ConvexSet as ConvexSet
from klazy.sets.compose import Intersection, Product
from klazy.sets.polytopes import Polytope
from klazy.sets.simplices import CappedSimplex, Simplex

__all__ = [
    "Box",
    "CappedSimplex",
    "Intersection",
    "L1Ball",
    "L2Ball",
    "Polytope",
    "Product",
    "Simplex",
]
