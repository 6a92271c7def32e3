"""Owns the repository that is asked about: made once, since nobody changes it."""

import pytest

from tests.features.ask.asking import ledger
from tests.support.code.git import GitRepo


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    return ledger(tmp_path_factory.mktemp("source") / "ledger")
