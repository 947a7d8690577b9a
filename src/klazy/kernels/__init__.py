"""Compiled kernels: only this package imports Numba, and only when a kernel is first used.

A learner and its costs come in as arrays of numbers (:mod:`~klazy.kernels.layout` writes them), points and costs go out. Open
:mod:`~klazy.kernels.rules` first: it has the update rules as plain functions, written in the words of
:mod:`~klazy.kernels.lane` so that they serve one run, a vector register or a GPU thread. :mod:`~klazy.kernels.slots` lists the
names that a kernel fills in, :mod:`~klazy.kernels.domains` has the parts of sets, :mod:`~klazy.kernels.costs` of families.
The drivers own the loops: :mod:`~klazy.kernels.sequence` (one run), :mod:`~klazy.kernels.batch` (many side by side),
:mod:`~klazy.kernels.ensemble`, :mod:`~klazy.kernels.fleet`, and those named cuda. :mod:`~klazy.kernels.binding` puts kernels
together, compiles and stores them.
"""
