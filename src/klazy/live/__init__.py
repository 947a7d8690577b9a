"""Agents: feedback comes in, decisions go out, and a store remembers every round.

Open agent.py first: an agent turns feedback into a record. ``AgentState`` (state.py) computes what a record leads to and
applies it; ``StoredAgent`` (stored.py) appends its row to a store in between, and a fleet does so for many agents at once
(fleet.py). A ``Store`` (store.py, with sqlite.py and postgres.py) holds the rows of records.py.
"""

from klazy.live.guards import Guards

__all__ = ["Guards"]
