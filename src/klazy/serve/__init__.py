"""Decisions over HTTP: the service (`klazy serve`), and the client that talks to it."""
