"""The paper's statements as code that runs beside every experiment, listed on the page Theory."""

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

__all__ = [
    "Certificate",
    "Diagnosis",
    "EnsembleDiagnosis",
    "ExpertCertificate",
    "ExpertCurves",
    "Reluctance",
    "Resonance",
    "bandit_bound",
    "bandit_tuning",
    "certify",
    "certify_experts",
    "certify_reluctance",
    "competitive_ratio",
    "count_outstanding",
    "delayed_bound",
    "delayed_sigma",
    "ensemble_lemma",
    "expert_grid",
    "k_star",
    "meta_rate",
    "product_grid",
    "resonance",
    "sigma_grid",
    "sigma_star",
    "step_picture",
    "theorem_2",
    "theorem_5",
    "theorem_5_tuned",
    "theorem_8",
    "universal_lower_bound",
]
