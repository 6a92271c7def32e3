"""Which kubeconfigs are taken, and that others are refused with the remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.runtime.kubernetes.cluster.config import ClusterConfig, ClusterMissing, cluster_config

pytestmark = pytest.mark.contract("XA-6")


def config_of(path: Path, server: str, **user: Any) -> ClusterConfig:
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
    }
    file = path / "config"
    file.write_text(json.dumps(content))
    return cluster_config(str(file))


@pytest.mark.parametrize(
    ("server", "host", "port", "path"),
    [
        ("https://10.0.0.1:6443", "10.0.0.1", 6443, ""),
        ("https://k8s.example.com/", "k8s.example.com", 443, ""),
        ("https://[2001:db8::1]", "2001:db8::1", 443, ""),
        ("https://[2001:db8::1]:6443", "2001:db8::1", 6443, ""),
        ("https://rancher.example.com/k8s/clusters/c-1", "rancher.example.com", 443, "/k8s/clusters/c-1"),
    ],
)
def test_where_its_api_server_is(tmp_path: Path, server: str, host: str, port: int, path: str) -> None:
    found = config_of(tmp_path, server)
    assert (found.host, found.port, found.path, found.bearer) == (host, port, path, "t")


@pytest.mark.parametrize(
    "server", ["http://10.0.0.1:8080", "10.0.0.1:6443", "https://", "https://a:b", "https://a:1/?x=y", ""]
)
def test_no_address_of_an_api_server(tmp_path: Path, server: str) -> None:
    with pytest.raises(ClusterMissing):
        config_of(tmp_path, server)


def test_a_way_to_show_who_one_is_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(ClusterMissing, match="neither a token nor a client certificate"):
        config_of(tmp_path, "https://10.0.0.1:6443", exec={"command": "aws"})
