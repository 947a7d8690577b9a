"""Sweeps: a study of many runs as one file, played on a laptop or a cluster, each run once.

A :class:`Study` goes in, a :class:`~klazy.types.Sweep` with a row per run comes out. study.py checks a study, catalogue.py
has the recipes and rules it may name, tasks.py lists and groups its runs, player.py plays them, execute.py puts it together
and stores, frame.py makes rows and averages them, drawing.py draws. Open execute.py first.
"""

from klazy.studies.sweep.execute import load_sweep, sweep
from klazy.studies.sweep.study import Study

__all__ = ["Study", "load_sweep", "sweep"]
