"""A learner plays against costs: one run, many, a batch; what a run leaves behind, and its regret."""
