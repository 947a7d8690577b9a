"""Sweeps: a study of many runs as one file, played on a laptop or a cluster, each run once."""

from klazy.studies.sweep.execute import load_sweep, sweep
from klazy.studies.sweep.study import Study

__all__ = ["Study", "load_sweep", "sweep"]
