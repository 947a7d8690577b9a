"""Try an installed klazy as a user would: version, replay of a shipped trace, doctor, warm kernels, an agent in a store.

Run it with the Python of the environment in which klazy is installed. It needs the extra ``cli`` and nothing of this checkout,
works in a folder of its own, and keeps kernels there. Other extras are tried where they are installed; what was tried is
printed. Exit status 0 means that all of it worked.
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
# What each extra is for; these print one line, too.
EXTRAS = {
    "polytope": """
import klazy as kl
triangle = kl.Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
x = triangle.project([2.0, 1.0])
assert abs(x - [1.0, 0.0]).max() < 1e-9
print(x)
""",
    "excel": """
import fastexcel, polars
print("fastexcel", fastexcel.__version__)
""",
    "postgres": """
import klazy as kl
try:
    kl.Agent.open("postgresql://nobody@127.0.0.1:9/none", name="try")
except (ConnectionError, ValueError) as error:
    print(error)
""",
    "cluster": """
import subprocess, sys
from pathlib import Path
import klazy as kl
from dask.distributed import Client
study = '''
name = "try"
move_cost = 1.0
seeds = 2
[[scenarios]]
recipe = "square_wave"
period = 10
T = 100
[[learners]]
rule = "GD"
sigma = [1.0, 10.0]
'''
Path("study.toml").write_text(study)
if __name__ == "__main__":
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        address = ["--backend", "dask", "--address", client.scheduler.address]
        sweep = [sys.executable, "-P", "-m", "klazy", "sweep", "study.toml", "--out", "results", *address]
        subprocess.run(sweep, check=True, capture_output=True)
    print(kl.load_sweep("results").height, "runs")
""",
    "serve": """
import json, subprocess, sys
import klazy as kl
command = [sys.executable, "-P", "-m", "klazy", "serve", "--insecure", "--port", "0", "--store", "served.db"]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
try:
    told = next(line for line in server.stderr if "serving" in line)
    with kl.Client(f"http://127.0.0.1:{json.loads(told)['port']}") as client:
        agent = client.agent("try", kl.GD(kl.Simplex(3), 1.0))
        print(agent.update([1.0, 0.0, 0.5], id="first"))
finally:
    server.terminate()
    assert server.wait(10) in (0, -15)  # as asked, or by the signal
""",
}
TRACE = "from klazy.datasets import flights; flights(hours=24).write_csv('delays.csv')"


def main() -> None:
    """Run everything, and say what each printed."""
    python = [sys.executable, "-P"]
    klazy = [*python, "-m", "klazy"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = os.environ | {"KLAZY_CACHE_DIR": str(Path(folder) / "cache")}
        environment.pop("PYTHONPATH", None)

        def call(*command: str) -> str:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True
            )
            if done.returncode != 0:
                sys.exit(
                    f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}"
                )
            return done.stdout

        print(call(*klazy, "--version").strip())
        call(*python, "-c", TRACE)
        replayed = json.loads(
            call(
                *klazy,
                "replay",
                "delays.csv",
                "--domain",
                "simplex",
                "--move-cost",
                "10",
                "--html",
                "report.html",
                "--json",
            )
        )
        # The templates are in the wheel.
        assert (Path(folder) / "report.html").stat().st_size > 10_000
        print("replay:", ", ".join(list(replayed)[:6]))
        warmed = json.loads(
            call(
                *klazy,
                "warm",
                "--learner",
                "KLazyGD",
                "--domain",
                "simplex",
                "--dim",
                "3",
                "--json",
            )
        )
        print("warm:", len(warmed["warmed"]), "kinds,", warmed["kernels"], "kernels")
        found = json.loads(call(*klazy, "doctor", "--json"))
        assert found["cache"]["kernels"] >= warmed["kernels"] > 0
        # The pack, where it is installed, has all that was warmed.
        is_new = any(each["new_kernels"] for each in warmed["warmed"])
        assert is_new == (found["pack"] is None)
        print("doctor:", found["versions"], "pack:", found["pack"])
        print("agent:", call(*python, "-c", AGENT).strip())
        for name, script in EXTRAS.items():
            if found["extras"][name]["missing"]:
                print(f"{name}: not installed")
            else:
                print(f"{name}:", call(*python, "-c", script).strip())


if __name__ == "__main__":
    main()
