"""The paper's statements as code that runs with every experiment; the page Theory lists them."""

from klazy.game.regret import competitive_ratio
from klazy.learners.presets import meta_rate, product_grid, sigma_grid
from klazy.theory.bounds import (
    bandit_bound,
    bandit_tuning,
    count_outstanding,
    delayed_bound,
    delayed_sigma,
    ensemble_lemma,
    expert_grid,
    k_star,
    sigma_star,
    theorem_2,
    theorem_5,
    theorem_5_tuned,
    theorem_8,
    universal_lower_bound,
)
from klazy.theory.certificates import (
    Certificate,
    ExpertCertificate,
    ExpertCurves,
    Reluctance,
    certify,
    certify_experts,
    certify_reluctance,
)
from klazy.theory.diagnosis import Diagnosis, EnsembleDiagnosis
from klazy.theory.geometry import step_picture
from klazy.theory.resonance import Resonance, resonance

# The paper's bounds, and the tunings that minimise them.
__all__ = ["ensemble_lemma", "k_star", "meta_rate", "sigma_star", "universal_lower_bound"]
__all__ += ["theorem_2", "theorem_5", "theorem_5_tuned", "theorem_8"]
# Grids of experts.
__all__ += ["expert_grid", "product_grid", "sigma_grid"]
# Bounds for late or partial feedback.
__all__ += [
    "bandit_bound",
    "bandit_tuning",
    "count_outstanding",
    "delayed_bound",
    "delayed_sigma",
]
# Bounds of a run, from the run itself.
__all__ += ["Certificate", "ExpertCertificate", "ExpertCurves", "Reluctance"]
__all__ += ["certify", "certify_experts", "certify_reluctance", "competitive_ratio"]
# Explanations of how a learner moves.
__all__ += ["Diagnosis", "EnsembleDiagnosis", "Resonance", "resonance", "step_picture"]
