"""The manifests in deploy/kubernetes: what a cluster takes, with what Holdfast needs and nothing more."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from holdfast.core.settings import Settings, load
from holdfast.engines.runtime.kubernetes.namespaces import account

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy/kubernetes"
OVERLAYS = ("workspaces", "one-namespace", "monitoring")
VERSION = "1.35"
# Everything of kustomize that ours use.
_KNOWN = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images"}
Object = dict[str, Any]


def built(directory: Path) -> list[Object]:
    """What kustomize makes of a directory, as far as ours use it."""
    asked = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert set(asked) <= _KNOWN, set(asked) - _KNOWN
    made: list[Object] = []
    for each in asked["resources"]:
        path = directory / each
        made += built(path) if path.is_dir() else yaml.safe_load_all(path.read_text())
    for generated in asked.get("configMapGenerator", ()):
        data = dict(line.split("=", 1) for line in generated["literals"])
        known = [one for one in made if one["kind"] == "ConfigMap" and one["metadata"]["name"] == generated["name"]]
        if generated.get("behavior") == "merge":
            assert known, "nothing to merge into"
            known[0]["data"].update(data)
        else:
            made.append(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generated["name"]}, "data": data}
            )
    for one in made:
        if "namespace" in asked and one["kind"] not in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
            one["metadata"]["namespace"] = asked["namespace"]
        for container in containers(one):
            for image in asked.get("images", ()):
                if container["image"] == image["name"]:
                    container["image"] = f"{image['newName']}:{image['newTag']}"
    return made


def pod_of(one: Object) -> Object | None:
    """The pod that an object makes."""
    template = one.get("spec", {}).get("template") if one["kind"] in ("Deployment", "Job") else None
    pod: Object | None = template["spec"] if template else None
    return pod


def containers(one: Object) -> list[Object]:
    """The containers that an object makes."""
    pod = pod_of(one)
    return [] if pod is None else [*pod.get("initContainers", ()), *pod["containers"]]


@pytest.fixture(params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Object]:
    return built(MANIFESTS / "overlays" / request.param)


def of_kind(manifests: list[Object], kind: str) -> Iterator[Object]:
    return (one for one in manifests if one["kind"] == kind)


def test_a_cluster_takes_every_object(manifests: list[Object]) -> None:
    for one in manifests:
        if one["kind"] != "ServiceMonitor":  # Of the operator that brings it.
            kubernetes_validate.validate(one, VERSION, strict=True)


def test_nothing_is_said_twice(manifests: list[Object]) -> None:
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in manifests]
    assert len(names) == len(set(names))


def test_pods_are_restricted(manifests: list[Object]) -> None:
    pods = [pod for one in manifests if (pod := pod_of(one)) is not None]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
        assert all(set(volume) <= {"name", "emptyDir", "secret", "configMap"} for volume in pod["volumes"])
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]} and "memory" in container["resources"]["limits"]


def test_no_secret_is_in_a_manifest(manifests: list[Object]) -> None:
    assert not list(of_kind(manifests, "Secret"))
    for one in manifests:
        for container in containers(one):
            assert "env" not in container
            assert {"secretRef": {"name": "holdfast"}} in container["envFrom"]
    for settings in of_kind(manifests, "ConfigMap"):
        assert not {"HOLDFAST_DATABASE_URL", "WORKSPACE_SECRETS_MASTER_KEY"} & set(settings["data"])


def test_every_name_leads_somewhere(manifests: list[Object]) -> None:
    (deployment,) = of_kind(manifests, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    (service,) = of_kind(manifests, "Service")
    (budget,) = of_kind(manifests, "PodDisruptionBudget")
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        budget["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    (job,) = of_kind(manifests, "Job")
    assert not service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    (ingress,) = of_kind(manifests, "Ingress")
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend["name"] == service["metadata"]["name"]
    accounts = {one["metadata"]["name"] for one in of_kind(manifests, "ServiceAccount")}
    assert {pod["serviceAccountName"] for one in manifests if (pod := pod_of(one)) is not None} <= accounts


def test_replicas_roll_without_ever_being_fewer(manifests: list[Object]) -> None:
    (deployment,) = of_kind(manifests, "Deployment")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    (settings,) = of_kind(manifests, "ConfigMap")
    streams = float(settings["data"]["HOLDFAST_SHUTDOWN_SECONDS"])
    assert pause + streams + 10 <= pod["terminationGracePeriodSeconds"]
    seen = container["readinessProbe"]["periodSeconds"] * container["readinessProbe"]["failureThreshold"]
    assert seen <= 10


def test_every_setting_is_one_of_ours_and_starts_a_server(
    manifests: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (settings,) = of_kind(manifests, "ConfigMap")
    for name, value in settings["data"].items():
        monkeypatch.setenv(name, value)
    loaded: Settings = load()
    assert loaded.runtime == "kubernetes" and loaded.public_url == "https://holdfast.example.com"


RIGHTS: Mapping[str, set[str]] = {
    "serviceaccounts": {"create"},
    "networkpolicies": {"create"},
    "pods": {"get", "list", "watch", "create", "delete"},
    "pods/exec": {"get", "create"},
    "secrets": {"get", "create", "patch", "delete"},
}


def test_holdfast_may_do_what_sessions_need_and_no_more(manifests: list[Object]) -> None:
    roles = [*of_kind(manifests, "Role"), *of_kind(manifests, "ClusterRole")]
    assert len(roles) == 1
    allowed = {resource: set(rule["verbs"]) for rule in roles[0]["rules"] for resource in rule["resources"]}
    if roles[0]["kind"] == "ClusterRole":
        assert allowed.pop("namespaces") == {"create"}
    assert allowed == RIGHTS
    (binding,) = [*of_kind(manifests, "RoleBinding"), *of_kind(manifests, "ClusterRoleBinding")]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "holdfast", "namespace": "holdfast"}]
    assert binding["roleRef"]["name"] == roles[0]["metadata"]["name"]


def test_sessions_run_as_an_account_that_may_do_nothing(manifests: list[Object]) -> None:
    bound = [
        subject["name"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for binding in of_kind(manifests, kind)
        for subject in binding["subjects"]
    ]
    assert account()["metadata"]["name"] not in bound and account()["automountServiceAccountToken"] is False
