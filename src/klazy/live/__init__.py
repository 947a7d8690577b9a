"""What a live agent is made of: its state and the guards on it, an explanation of both, and the files they survive in."""

from klazy.live.guards import Guards
from klazy.live.machine import OtherMachine
from klazy.live.records import TornJournal

__all__ = ["Guards", "OtherMachine", "TornJournal"]
