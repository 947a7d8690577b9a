"""A real PostgreSQL and a real PgBouncer from the system's packages, on free ports, in a temporary folder, for tests."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

FOLDERS = sorted(
    Path("/usr/lib/postgresql").glob("*/bin"), reverse=True
)  # where Debian keeps the server's programs


def find_program(name):
    """The path of one of PostgreSQL's programs, or None."""
    found = [folder / name for folder in FOLDERS if (folder / name).exists()]
    return str(found[0]) if found else shutil.which(name)


class Server:
    """A server with one database; ``options`` are its settings. Roots let the user of the package run it."""

    def __init__(self, folder, **options):
        self.folder = Path(folder)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.port = find_port()
        self.options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "16MB",
            "max_connections": "60",
            "recovery_init_sync_method": "syncfs",  # of a crashed one: else it waits for each of its files
            **options,
        }
        self.user = (
            {"user": "postgres", "group": "postgres", "extra_groups": []}
            if os.geteuid() == 0
            else {}
        )
        self.data.mkdir(parents=True)
        if self.user:
            shutil.chown(self.folder, "postgres", "postgres")
            shutil.chown(self.data, "postgres", "postgres")
        assert find_program("initdb"), (
            "stores are tested in PostgreSQL, too; `make database` installs it"
        )
        make = [
            find_program("initdb"),
            "-D",
            self.data,
            "-U",
            "klazy",
            "--auth=trust",
            "--encoding=UTF8",
        ]
        make += ["--locale=C", "--no-sync", "--no-instructions"]
        subprocess.run(make, check=True, capture_output=True, cwd="/", **self.user)
        access = (
            "host all locked all scram-sha-256\nhost all all all trust\nlocal all all trust\n"
        )
        (self.data / "pg_hba.conf").write_text(access)
        self.start()

    @property
    def url(self):
        return f"postgresql://klazy@127.0.0.1:{self.port}/postgres"

    def start(self):
        """Start it, and wait until it answers."""
        settings = [f"--{name}={value}" for name, value in self.options.items()]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [find_program("postgres"), "-D", self.data, "-p", str(self.port), *settings],
                stdout=log, stderr=log, cwd="/", **self.user,
            )  # fmt: skip
        until = time.monotonic() + 30.0
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.02)

    def _answers(self):
        if not answers(self.port):
            return False
        return (
            b"ready to accept connections"
            in self.log.read_bytes().rpartition(b"starting PostgreSQL")[2]
        )

    def crash(self):
        """An immediate shutdown: nothing is written down any more, as if power had failed."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def run(self, *statements):
        """What the last of these statements gives."""
        from pg8000.native import Connection

        connection = Connection(
            "klazy", host="127.0.0.1", port=self.port, database="postgres", ssl_context=False
        )
        with connection:
            return [connection.run(statement) for statement in statements][-1]

    def clear(self):
        """Forget all agents; the URL of the database."""
        self.run("SET client_min_messages = warning", "DROP SCHEMA IF EXISTS klazy CASCADE")
        return self.url


class Pooler:
    """A PgBouncer in front of a server, with few sessions of it to share; ``mode`` is ``session`` or ``transaction``."""

    SESSIONS = 3

    def __init__(self, server, mode):
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        assert Path(program).exists(), (
            "stores are tested behind PgBouncer, too; `make database` installs it"
        )
        self.port = find_port()
        self.url = f"postgresql://klazy@127.0.0.1:{self.port}/postgres"
        folder = server.folder / f"pooler-{self.port}"
        folder.mkdir()
        (folder / "users").write_text('"klazy" ""\n')
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": folder / "users",
            "logfile": folder / "log",
            "pool_mode": mode,
            "default_pool_size": self.SESSIONS,
            "server_round_robin": 1,  # the next transaction is in another session than the last
        }
        lines = ["[databases]", f"postgres = host=127.0.0.1 port={server.port}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        (folder / "settings.ini").write_text("\n".join(lines) + "\n")
        if server.user:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, "postgres", "postgres")
        self.process = subprocess.Popen(
            [program, "--quiet", folder / "settings.ini"],
            cwd="/",
            stderr=subprocess.DEVNULL,
            **server.user,
        )
        until = time.monotonic() + 30.0
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((folder / "log").read_text())
            time.sleep(0.02)

    def stop(self):
        self.process.kill()
        self.process.wait()


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def find_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
