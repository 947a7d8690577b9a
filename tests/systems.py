"""A real Prometheus and a real HAProxy of the system's packages, on free ports of loopback, in temporary folders."""

import json
import shutil
import socket
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx

from server import answers, find_port

INSTALL = "sources and sinks are tested with real programs; `make systems` installs them"


def find(name):
    """The path of one of these programs."""
    found = shutil.which(name) or f"/usr/sbin/{name}"
    assert Path(found).exists(), INSTALL
    return found


def run(*command, **options):
    """What a program prints; an error shows all of it."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Program:
    """A server that a test starts, kills and starts again."""

    command: list
    log: Path
    process: subprocess.Popen

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(list(map(str, self.command)), stdout=log, stderr=log)
        until = time.monotonic() + 30.0
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.02)
        return self

    def answers(self):
        raise NotImplementedError

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()


class PrometheusServer(Program):
    """A Prometheus with its own data, which may scrape ``targets`` and check the rules of a file."""

    def __init__(self, folder, *, targets=(), interval="100ms", rules=(), web=None):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.port = find_port()
        scheme = "https" if "tls_server_config" in (web or {}) else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        settings = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": list(map(str, rules)),
            "scrape_configs": [
                {"job_name": "tests", "static_configs": [{"targets": list(targets)}]}
            ],
        }
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps(settings))
        self.command = [
            find("prometheus"), f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.data}",
            f"--web.listen-address=127.0.0.1:{self.port}", "--storage.tsdb.retention.time=10y",
            "--query.lookback-delta=90s", "--log.level=info",
        ]  # fmt: skip
        if web is not None:
            (self.folder / "web.yml").write_text(json.dumps(web))
            self.command.append(f"--web.config.file={self.folder}/web.yml")

    def backfill(self, samples):
        """Write history: for each name with labels, pairs of a time and a number. It must not run meanwhile."""
        lines = []
        for name in sorted({name.partition("{")[0] for name in samples}):
            lines.append(f"# TYPE {name} gauge")
            for series, pairs in samples.items():
                if series.partition("{")[0] == name:
                    lines += [f"{series} {value!r} {at:.3f}" for at, value in pairs]
        file = self.folder / "history.om"
        file.write_text("\n".join([*lines, "# EOF\n"]))
        make = (find("promtool"), "tsdb", "create-blocks-from", "openmetrics")
        run(*make, "--quiet", "--max-block-duration=10000h", file, self.data)

    def answers(self):
        if self.url.startswith("https"):
            return b"TLS is enabled" in self.log.read_bytes() and answers(self.port)
        try:
            return httpx.get(f"{self.url}/-/ready").status_code in (200, 401)
        except httpx.HTTPError:
            return False

    def ask(self, query):
        """The value of a query now by its labels, each as text."""
        return [(each["metric"], each["value"][1]) for each in self._query(query)]

    def list_samples(self, query):
        """The times and values of all series of a query for a range."""
        return [pair for each in self._query(query) for pair in each["values"]]

    def _query(self, query):
        return httpx.post(f"{self.url}/api/v1/query", data={"query": query}).json()["data"][
            "result"
        ]


class HAProxyServer(Program):
    """An HAProxy with one backend ``web`` of these servers, by name with their ports, and its runtime API at a socket."""

    def __init__(self, folder, servers):
        self.folder = Path(folder)
        self.log = self.folder / "haproxy.log"
        # Paths of sockets must be short.
        self.socket = self.folder / "s"
        self.port = find_port()
        self.url = f"http://127.0.0.1:{self.port}"
        lines = [f"server {name} 127.0.0.1:{port} weight 100" for name, port in servers.items()]
        settings = f"""
global
  stats socket {self.socket} mode 600 level admin
defaults
  mode http
  timeout connect 2s
  timeout client 10s
  timeout server 10s
frontend front
  bind 127.0.0.1:{self.port}
  default_backend web
backend web
  balance roundrobin
  http-reuse never
"""
        (self.folder / "haproxy.cfg").write_text(
            settings + "".join(f"  {line}\n" for line in lines)
        )
        self.command = [find("haproxy"), "-db", "-f", self.folder / "haproxy.cfg"]

    def answers(self):
        return self.socket.exists() and answers(self.port)

    def ask(self, command):
        """The answer of the runtime API."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(f"{command}\n".encode())
            parts = []
            while part := connection.recv(1 << 16):
                parts.append(part)
        return b"".join(parts).decode().strip()

    def weights(self, names):
        return [int(self.ask(f"get weight web/{name}").split()[0]) for name in names]


class Backend:
    """A web server in a thread; ``answer`` is called with each request and its body, and returns a status and a text."""

    def __init__(self, answer):
        outer = self
        self.requests = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests += 1
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, text = answer(self, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET  # noqa: N815

            def log_message(self, format, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = Thread(target=self.server.serve_forever, args=(0.02,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
