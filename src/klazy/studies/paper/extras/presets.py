"""What the printed gains rest on: sequence, parameters and measurement, each taken from the other preset alone."""

from klazy.studies.paper.claims import CLAIMS
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.measure import play_experiment
from klazy.studies.paper.section import Row, Section

DIFFERENCES = (
    "The presets differ in the sequence: the authors draw the stochastic one from another generator, their ensembles play "
    "corrupted phases of 4000 rounds instead of 2000, their corrupted comparator follows the majority of 21 rounds, and their "
    "worst case, which has no printed gain, has phases of 600 rounds instead of 300.",
    "In the parameters: the authors use sigma_{t+1} where sigma_t is printed (in the worst case sqrt(t / 10) for sqrt(t / 8)), "
    "and ensembles with k = 500, 250, 125, 60, 30 where floor(5 sigma / 2) is printed, equal priors, and ten times the lemma's "
    "meta rate.",
    "In the measurement: the authors round points to five decimals before they are charged, and all start at the origin, so "
    "that the comparator pays for its first step.",
)


def report_presets(settings: Settings) -> Section:
    """Every printed gain in both presets, and in the paper's with one thing of the authors'."""
    variants = {
        "paper": {},
        "authors' sequence": {"sequence": "authors"},
        "authors' parameters": {"parameters": "authors"},
        "authors' measurement": {"measurement": "authors"},
        "authors": {"preset": "authors"},
    }
    played = dict.fromkeys(claim.experiment for claim in CLAIMS)
    found = {}
    for name in played:
        for said, change in variants.items():
            found[name, said] = _play_variant(name, settings, change)
    rows = []
    for claim in CLAIMS:
        row = {"experiment": claim.experiment, "less": claim.quantity, "printed": float(claim.printed)}
        for said in variants:
            row[said] = claim.measure(found[claim.experiment, said])
        rows.append(row)
    words = [_describe(row) for row in rows if None not in row.values()]
    return Section("What the two presets differ in", [*DIFFERENCES, *words], {"presets": rows})


def _play_variant(name: str, settings: Settings, change: dict[str, str]) -> list[Row]:
    made = make_experiment(name, seed=settings.seed, shorter=settings.shorter, **change)
    return play_experiment(made).tabulate()


def _describe(row: Row) -> str:
    moved = {said: row[said] - row["paper"] for said in row if said.startswith("authors' ")}
    most = max(moved, key=lambda said: abs(moved[said]))
    return (
        f"{row['experiment']}, {row['less']}: {row['printed']:g} % is printed, {row['authors']:.1f} % found with the authors' "
        f"settings, {row['paper']:.1f} % with the paper's. Of the three differences, each alone, the {most} "
        f"changes it most, to {row[most]:.1f} %."
    )
