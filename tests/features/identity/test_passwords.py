"""What a password costs whoever guesses it, as the server hashes it; other tests hash cheaply."""

import subprocess
import sys

import pytest

_ASK = """
import asyncio
from holdfast.features.identity.sessions.passwords import hash_password, verify_password
kept = asyncio.run(hash_password("correct horse battery"))
assert asyncio.run(verify_password(kept, "correct horse battery"))
assert not asyncio.run(verify_password(kept, "correct horse battery!"))
print(kept)
"""


@pytest.mark.slow
def test_the_server_hashes_with_argon2id_64_megabytes_and_three_passes() -> None:
    kept = subprocess.run([sys.executable, "-c", _ASK], check=True, capture_output=True, text=True).stdout
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
