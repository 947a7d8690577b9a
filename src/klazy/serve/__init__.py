"""The agents of a store over HTTP: requests come in as JSON, decisions and pages go out.

A request passes ``access.py`` (tokens, limits) and one of the paths in ``app.py``, whose fields ``schemas.py`` describes.
Rounds go through ``service.py`` to the one thread that plays them, ``worker.py``; histories and comparisons come from
``reading.py``. Open ``app.py`` first. ``server.py`` runs the processes, and ``client.py`` is the other end: ``kl.Client``.
"""
