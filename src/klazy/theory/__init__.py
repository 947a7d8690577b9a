"""The paper's statements as code that runs beside every experiment, listed on the page Theory."""

from klazy.learners.presets import meta_rate, sigma_grid
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
from klazy.theory.certificates import Certificate, ExpertCertificate, certify, certify_experts
from klazy.theory.geometry import step_picture
from klazy.theory.mirror import MirrorCertificate, certify_mirror
from klazy.theory.reluctance import Reluctance, certify_reluctance
from klazy.theory.resonance import Resonance, resonance

__all__ = [
    "Certificate",
    "ExpertCertificate",
    "MirrorCertificate",
    "Reluctance",
    "Resonance",
    "certify",
    "certify_experts",
    "certify_mirror",
    "certify_reluctance",
    "coin_betting_bound",
    "ensemble_lemma",
    "expert_grid",
    "k_star",
    "meta_rate",
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
