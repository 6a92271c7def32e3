"""Owns where a cluster is and how we show who we are: from inside of it, or from a kubeconfig."""

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from holdfast.engines.runtime.base import SandboxMissing

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_READ_AGAIN_SECONDS = 60.0
_REMEDY = (
    "Run Holdfast in the cluster with a service account, or set HOLDFAST_KUBERNETES_CONFIG to a kubeconfig with a "
    "token or a client certificate"
)


class ClusterMissing(SandboxMissing):
    """There is no cluster to run programs in; the message says what to do about it."""

    code = "cluster_missing"


class TokenFile:
    """A token that is renewed on the disk: read again now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._read_at = 0.0

    def __call__(self) -> str:
        if not self._token or time.monotonic() - self._read_at > _READ_AGAIN_SECONDS:
            self._token, self._read_at = self._path.read_text().strip(), time.monotonic()
        return self._token


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One API server, and our way to it."""

    host: str
    port: int
    tls: ssl.SSLContext
    token: str | TokenFile = field(default="", repr=False)
    path: str = ""
    """What its addresses begin with, where one proxy stands before several clusters."""

    @property
    def bearer(self) -> str:
        """What to show; nothing where a certificate shows it."""
        return self.token if isinstance(self.token, str) else self.token()


def cluster_config(kubeconfig: str | None, environ: Mapping[str, str] = os.environ) -> ClusterConfig:
    """The cluster of a kubeconfig, else the one that we are in; ClusterMissing where there is neither."""
    if kubeconfig:
        return _from_file(Path(kubeconfig).expanduser())
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (_ACCOUNT / "token").exists():
        raise ClusterMissing(f"HOLDFAST_RUNTIME is kubernetes, and there is no cluster here. {_REMEDY}.")
    tls = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    return ClusterConfig(host, int(port), tls, TokenFile(_ACCOUNT / "token"))


def _from_file(path: Path) -> ClusterConfig:
    try:
        content = yaml.safe_load(path.read_text())
        context = _named(content, "contexts", content["current-context"])["context"]
        cluster = _named(content, "clusters", context["cluster"])["cluster"]
        user = _named(content, "users", context["user"])["user"]
        server = urlsplit(str(cluster["server"]))
        port = server.port or 443
        if server.scheme != "https" or not server.hostname or server.query or server.username:
            raise ClusterMissing(f"The server {cluster['server']!r} in {path} is no https://host:port.")
        tls = _tls(cluster, user, path.parent)
    except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as problem:
        raise ClusterMissing(f"The kubeconfig {path} cannot be used ({problem}). {_REMEDY}.") from None
    token: str | TokenFile = user.get("token") or ""
    if not token and user.get("tokenFile"):
        token = TokenFile(path.parent / user["tokenFile"])
    has_certificate = any(name in user for name in ("client-certificate", "client-certificate-data"))
    if not token and not has_certificate:
        raise ClusterMissing(f"The kubeconfig {path} has neither a token nor a client certificate. {_REMEDY}.")
    return ClusterConfig(server.hostname, port, tls, token, server.path.rstrip("/"))


def _named(content: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    for each in content[kind]:
        if each["name"] == name:
            found: Mapping[str, Any] = each
            return found
    raise KeyError(f"no {name!r} among {kind}")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], beside: Path) -> ssl.SSLContext:
    authority = _text(cluster, "certificate-authority", beside)
    tls = ssl.create_default_context(cadata=authority) if authority else ssl.create_default_context()
    certificate, key = _text(user, "client-certificate", beside), _text(user, "client-key", beside)
    if certificate and key:
        # The standard library reads these from files only.
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"{certificate}\n{key}\n")
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _text(of: Mapping[str, Any], name: str, beside: Path) -> str | None:
    if of.get(f"{name}-data"):
        return base64.b64decode(of[f"{name}-data"]).decode()
    return (beside / of[name]).read_text() if of.get(name) else None
