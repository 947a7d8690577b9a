"""Make the store of this version of klazy, for tests/test_stores.py: `python tests/files/stores/make.py`.

Run it once for each version of the tables (klazy.live.schema.VERSION), before a release, and never again: a later klazy must
open the file as it was written then.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

import klazy as kl  # noqa: E402
from klazy.families import Quadratic  # noqa: E402
from klazy.live.schema import VERSION  # noqa: E402
from klazy.live.store import open_store  # noqa: E402
from nursery import GUARDS, in_store  # noqa: E402


def make_store(file):
    """A guarded agent after eight rounds with ids, a deleted one that is told rows by name, and a token."""
    in_store(file, 8, guards=GUARDS)
    learner = kl.GD(kl.Simplex(2), 1.0)
    with kl.Agent.open(
        file, learner, name="rows", costs=Quadratic(), columns=["a", "b"], engine="step"
    ) as agent:
        agent.observe({"a": 1.0, "b": 2.0}, id="monday")
        agent.delete("of no more use")
    store = open_store(file)
    store.add_token("reader", "read", None, "0" * 64)
    store.close()


if __name__ == "__main__":
    place = HERE / f"version{VERSION}.db"
    assert not place.exists(), f"{place} is there already"
    make_store(place)
