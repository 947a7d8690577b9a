"""What a live agent is made of: its state and the guards on it, an explanation of both, and the store that keeps it."""

from klazy.live.guards import Guards
from klazy.live.machine import OtherMachine
from klazy.live.overtaken import Overtaken

__all__ = ["Guards", "OtherMachine", "Overtaken"]
