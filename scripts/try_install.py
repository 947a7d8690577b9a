"""Try an installed klazy as a user would: version, replay of a shipped trace, doctor, warm kernels, an agent in a store.

Run it with the Python of the environment in which klazy is installed. It needs the extra ``cli`` and nothing of this checkout,
works in a folder of its own, and keeps kernels there. Exit status 0 means that all of it worked.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

AGENT = """
import klazy as kl
agent = kl.Agent.open("decisions.db", kl.KLazyGD(kl.Simplex(3), 1.0, k=2), name="try")
agent.update([1.0, 0.0, 0.5])
before = agent.x.tolist()
agent.close()
again = kl.Agent.open("decisions.db", name="try")
assert again.t == 2 and again.x.tolist() == before
again.close()
print(before)
"""
TRACE = "from klazy.datasets import flights; flights(hours=24).write_csv('delays.csv')"


def main() -> None:
    """Run everything, and say what each printed."""
    python = [sys.executable, "-P"]
    klazy = [*python, "-m", "klazy"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = os.environ | {"KLAZY_CACHE_DIR": str(Path(folder) / "cache")}
        environment.pop("PYTHONPATH", None)

        def call(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
            return done.stdout

        print(call(*klazy, "--version").strip())
        call(*python, "-c", TRACE)
        replayed = json.loads(
            call(*klazy, "replay", "delays.csv", "--domain", "simplex", "--move-cost", "10", "--json")
        )
        print("replay:", ", ".join(list(replayed)[:6]))
        warmed = json.loads(
            call(*klazy, "warm", "--learner", "KLazyGD", "--domain", "simplex", "--dim", "3", "--json")
        )
        print("warm:", len(warmed["warmed"]), "kinds,", warmed["kernels"], "kernels")
        found = json.loads(call(*klazy, "doctor", "--json"))
        assert found["cache"]["kernels"] >= warmed["kernels"] > 0
        print("doctor:", found["versions"])
        print("agent:", call(*python, "-c", AGENT).strip())


if __name__ == "__main__":
    main()
