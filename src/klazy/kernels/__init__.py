"""Compiled twins of ``step`` and ``project``. Only this package imports Numba, and only when a kernel is first used."""
