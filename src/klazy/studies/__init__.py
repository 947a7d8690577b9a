"""Questions that take many runs: the paper reproduced, a sweep over parameters, a trace replayed."""
