"""Replay: what learners and rules of thumb would have paid on a trace, each tuned on its first part.

``replay`` in report.py is the door. A file goes through source.py (cells to numbers) and setup.py (options to a game) to
scoring.py (tune and score); wording.py and page.py show the report. Jobs with a deadline have jobs.py.
"""

from klazy.studies.replay.jobs import JobsReport, replay_jobs
from klazy.studies.replay.report import Saving
from klazy.studies.replay.scoring import Best, Fold
from klazy.studies.replay.setup import Setup, make_setup
from klazy.studies.replay.source import Source

__all__ = ["Best", "Fold", "JobsReport", "Saving", "Setup", "Source", "make_setup", "replay_jobs"]
