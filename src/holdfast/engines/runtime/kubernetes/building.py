"""Owns how the runtime of a cluster is built from settings."""

from holdfast.core.settings import Settings
from holdfast.engines.runtime.egress import EgressRules
from holdfast.engines.runtime.kubernetes.cluster.api import ClusterApi
from holdfast.engines.runtime.kubernetes.cluster.config import cluster_config
from holdfast.engines.runtime.kubernetes.namespaces import Namespaces
from holdfast.engines.runtime.kubernetes.network import NetworkProbe
from holdfast.engines.runtime.kubernetes.pods import PodImages
from holdfast.engines.runtime.kubernetes.runtime import Cluster, KubernetesRuntime
from holdfast.engines.runtime.kubernetes.secrets import SecretOfPod
from holdfast.engines.runtime.kubernetes.watching import PodWatch


def kubernetes_runtime(settings: Settings) -> KubernetesRuntime:
    """The runtime; the cluster is looked for when it is first needed."""
    one = settings.kubernetes_namespaces == "one"
    prefix = settings.kubernetes_namespace

    def cluster() -> Cluster:
        api = ClusterApi(cluster_config(settings.kubernetes_config))
        return Cluster(
            api,
            PodWatch(api, prefix if one else None),
            Namespaces(api, prefix, one=one),
            SecretOfPod(api),
            PodImages(
                settings.kubernetes_image,
                settings.kubernetes_server_image,
                settings.kubernetes_pull,
                settings.kubernetes_pull_secret,
            ),
            NetworkProbe(api),
        )

    return KubernetesRuntime(cluster, EgressRules(settings.fetch_allow))
