"""Owns names of objects in a cluster, and the labels that say whose they are."""

import hashlib
import re

LABEL = "holdfast.dev/run"
KIND = "holdfast.dev/kind"
MANAGED = {"app.kubernetes.io/managed-by": "holdfast"}
SELECTOR = "app.kubernetes.io/managed-by=holdfast,holdfast.dev/run"
IMAGE_PLACE = "/opt/holdfast/inside"
"""Where our programs lie in images of ours."""
PYTHON = "python3"
GATE = "/run/x1/mcp"
CONTROL = "/run/x1/control/link.sock"
BOXES = "/run/x1/boxes"
BRIDGE = "/run/x1/bridge"
"""Where a container whose image is not ours finds the bridge, and a Python that runs it."""

_MOST = 63


def name_of(text: str, most: int = _MOST) -> str:
    """Text as a name that a cluster takes, still another one for another text."""
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    if plain == text.lower().replace("_", "-") and len(plain) <= most:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{plain[: most - 9].strip('-') or 'x'}-{digest}"
