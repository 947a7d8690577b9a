"""Sweeps: a study of many runs as one file, played on a laptop or a cluster, each run once."""

from klazy.sweeps.execute import Sweep, sweep
from klazy.sweeps.store import load_sweep
from klazy.sweeps.study import Study

__all__ = ["Study", "Sweep", "load_sweep", "sweep"]
