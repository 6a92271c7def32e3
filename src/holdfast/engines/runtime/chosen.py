"""Owns which runtime the settings ask for."""

from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Runtime


def runtime_of(settings: Settings) -> Runtime:
    """The runtime of these settings; what it runs on is looked for when it is first needed."""
    # Each brings much that the other does not need.
    if settings.runtime == "kubernetes":
        from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime

        return kubernetes_runtime(settings)
    from holdfast.engines.runtime.egress import EgressRules
    from holdfast.engines.runtime.process import ProcessRuntime

    return ProcessRuntime(EgressRules(settings.fetch_allow))
