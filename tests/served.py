"""A service in a thread of this process, behind a real socket."""

import json
import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn

import klazy as kl
from klazy.live.store import open_store
from klazy.serve.access import ROLES, add_token
from klazy.serve.server import configure, listen
from klazy.serve.settings import Settings


class Served:
    """A service, its store, and a token of each role."""

    address: tuple[str, int]
    url: str
    server: uvicorn.Server
    http: httpx.Client

    def __init__(self, settings, file, tokens):
        self.file = file
        self.settings = settings
        self.clients = []
        if tokens is not None or settings.insecure:
            self.tokens = tokens or {"admin": "none is needed"}
            return
        store = open_store(file)
        self.tokens = {role: add_token(store, role, role, None) for role in ROLES}
        self.tokens["eu"] = add_token(store, "eu", "admin", "eu-west")
        store.close()

    def ask(self, method, path, body=None, role="admin", **options):
        headers = {
            "Authorization": f"Bearer {self.tokens[role]}",
            "Content-Type": "application/json",
        }
        headers |= options.pop("headers", {})
        content = options.pop("content", None if body is None else json.dumps(body))
        return self.http.request(method, path, headers=headers, content=content, **options)

    def client(self, role="admin", **options):
        """A client with this role's token, which is closed with the service."""
        client = kl.Client(self.url, self.tokens[role], **options)
        self.clients.append(client)
        return client


@contextmanager
def run_service(folder, store=None, tokens=None, **options):
    """A service of the store in this folder, or of this one, until the block ends; it makes tokens unless it is given some."""
    file = store or folder / "decisions.db"
    settings = Settings(str(file), port=0, **options)
    served = Served(settings, file, tokens)
    listening = listen(settings)
    served.address = listening.getsockname()[:2]
    served.url = "http://{}:{}".format(*served.address)
    served.server = uvicorn.Server(configure(settings, None))
    thread = threading.Thread(target=served.server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not served.server.started and thread.is_alive():
            time.sleep(0.01)
        with httpx.Client(base_url=served.url, timeout=60.0) as served.http:
            yield served
    finally:
        for client in served.clients:
            client.close()
        served.server.should_exit = True
        thread.join()
        listening.close()
