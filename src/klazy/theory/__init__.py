"""The paper's statements as code that runs beside every experiment, listed on the page Theory."""

from klazy.learners.presets import meta_rate, sigma_grid
from klazy.theory.bandits import bandit_bound, bandit_tuning
from klazy.theory.bounds import (
    coin_betting_bound,
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
from klazy.theory.budgets import (
    budget_lower_bound,
    budget_sigma,
    budgeted_bound,
    switch_bound,
    switch_lower_bound,
    switch_sigma,
)
from klazy.theory.certificates import (
    Certificate,
    ExpertCertificate,
    ExpertCurves,
    certify,
    certify_experts,
)
from klazy.theory.delays import count_outstanding, delayed_bound, delayed_sigma
from klazy.theory.diagnosis import Diagnosis, EnsembleDiagnosis
from klazy.theory.geometry import step_picture
from klazy.theory.longterm import LongTermCertificate, certify_long_term
from klazy.theory.mirror import MirrorCertificate, certify_mirror
from klazy.theory.reluctance import Reluctance, certify_reluctance
from klazy.theory.resonance import Resonance, resonance

__all__ = [
    "Certificate",
    "Diagnosis",
    "EnsembleDiagnosis",
    "ExpertCertificate",
    "ExpertCurves",
    "LongTermCertificate",
    "MirrorCertificate",
    "Reluctance",
    "Resonance",
    "bandit_bound",
    "bandit_tuning",
    "budget_lower_bound",
    "budget_sigma",
    "budgeted_bound",
    "certify",
    "certify_experts",
    "certify_long_term",
    "certify_mirror",
    "certify_reluctance",
    "coin_betting_bound",
    "count_outstanding",
    "delayed_bound",
    "delayed_sigma",
    "ensemble_lemma",
    "expert_grid",
    "k_star",
    "meta_rate",
    "resonance",
    "sigma_grid",
    "sigma_star",
    "step_picture",
    "switch_bound",
    "switch_lower_bound",
    "switch_sigma",
    "theorem_2",
    "theorem_5",
    "theorem_5_tuned",
    "theorem_8",
    "universal_lower_bound",
]
