"""Research learners: like those of :mod:`klazy.learners` they see gradients only."""
