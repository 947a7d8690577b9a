"""What a live agent is made of: its state and the guards on it, an explanation of both, and the store that keeps it."""

from klazy.live.guards import Guards

__all__ = ["Guards"]
