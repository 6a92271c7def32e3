"""Owns on how many examples a property is tried: on all of them in the whole run, on a tenth in `make check`."""

import os

from hypothesis import settings

FEWER = os.environ.get("FEWER_EXAMPLES") == "1"
_FEWEST = 10
_USUAL = 100


def examples(most: int = _USUAL) -> settings:
    """Settings for one property; `most` examples in the whole run."""
    return settings(max_examples=number(most))


def number(most: int = _USUAL) -> int:
    """How many of `most` examples are tried in this run."""
    return min(most, max(_FEWEST, most // 10)) if FEWER else most
