"""What an agent says that another process was quicker than."""


class Overtaken(RuntimeError):
    """Another process ended the round first: the agent has taken over what happened, and nothing of your round.

    ``agent.x`` is the point to play now. Give the gradient there; or let :meth:`~klazy.Agent.update` apply the one you have
    to the round under way, with ``retry=True``.
    """
