"""Owns how client bundles are built."""

from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.features.client_bundles.service import ClientBundles
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building

build = Building()


@build
def client_bundles(parts: Parts) -> ClientBundles:
    return ClientBundles(parts[Keys], parts[Workspaces], parts[Endpoints], parts[Settings].expected_url)
