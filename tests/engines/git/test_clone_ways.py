"""The ways to a repository: TLS, git's own protocol, names that change; and packs that ask too much."""

import asyncio
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import Credentials, GitLimits
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.git.transport.tunnel import Rules
from tests.engines.git.cloning import cloner, fails, left
from tests.support.access.credentials import credential
from tests.support.attacks.delta_bombs import delta_bomb, sending
from tests.support.code.git import GitRepo, environment
from tests.support.code.git_server import GitServer, git_server, has_http_backend

# Each test starts processes that read repositories.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_http_backend(), reason="this machine has no git http-backend"),
]


def _certificate(directory: Path) -> Path:
    """A certificate for loopback that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = directory / "certificate.pem"
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, *plain)
    )
    return path


async def test_tls_goes_through_the_tunnel_and_is_checked_at_its_end(tmp_path: Path, repo: GitRepo) -> None:
    certificate = _certificate(tmp_path)
    with git_server(tmp_path / "served", certificate) as server:
        server.login = ("x-access-token", "s3cret-token-value")
        location = parse_location(server.url("project.git"))
        async with cloner(tmp_path, server.place) as git:
            failure = await fails(git, location.text)
            assert failure.code == "tls"
            assert "SSL_CERT_FILE" in failure.message
        rules = Rules(allow_private=(server.place,), ca_file=str(certificate))
        trusting = GitEngine(tmp_path / "mirrors", rules)
        head = await trusting.fetch(
            "repo_1", location, credentials=Credentials("", credential("s3cret-token-value", location.text))
        )
        await trusting.close()
    assert head.commit == repo.run("rev-parse", "main")


async def test_the_git_protocol_goes_through_the_same_guard(tmp_path: Path, repo: GitRepo) -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A git daemon for one repository: git's own upload-pack at the end of a socket."""
        asked.append(await reader.readexactly(int(await reader.readexactly(4), 16) - 4))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "git", "upload-pack", "--strict", str(repo.path), stdin=pipe, stdout=pipe, env=environment()
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def up(sink: asyncio.StreamWriter) -> None:
            while piece := await reader.read(65_536):
                sink.write(piece)
            sink.close()

        rising = asyncio.ensure_future(up(process.stdin))
        while piece := await process.stdout.read(65_536):
            writer.write(piece)
        writer.close()
        rising.cancel()
        await process.wait()

    daemon = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = daemon.sockets[0].getsockname()[1]
    async with cloner(tmp_path, f"127.0.0.1:{port}") as git:
        head = await git.fetch("repo_1", parse_location(f"git://127.0.0.1:{port}/project.git"))
    daemon.close()
    assert head.commit == repo.run("rev-parse", "main")
    assert asked[0].startswith(f"git-upload-pack /project.git\0host=127.0.0.1:{port}\0".encode())


async def test_a_git_daemon_that_has_no_such_repository_is_understood(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(int(await reader.readexactly(4), 16) - 4)
        said = b"ERR access denied or repository not exported: /none.git"
        writer.write(f"{len(said) + 4:04x}".encode() + said)
        writer.close()

    daemon = await asyncio.start_server(refuse, "127.0.0.1", 0)
    place = f"127.0.0.1:{daemon.sockets[0].getsockname()[1]}"
    async with cloner(tmp_path, place) as git:
        assert (await fails(git, f"git://{place}/none.git")).code == "not_found"
    daemon.close()


@pytest.mark.slow
async def test_a_pack_that_takes_more_work_than_its_size_warrants_is_broken_off(
    tmp_path: Path, server: GitServer
) -> None:
    """Twenty files of two hundred megabytes each, in a pack of some kilobytes."""
    bomb = delta_bomb(200 << 20, files=20)
    assert len(bomb.pack) < 10_000
    server.answer_with = sending(bomb)
    git = GitEngine(tmp_path / "mirrors", Rules((server.place,)), limits=GitLimits(unpack_seconds=1.0))
    try:
        failure = await fails(git, server.url("bomb.git"))
    finally:
        await git.close()
    assert failure.code == "hostile"
    assert "more work" in failure.message
    assert left(tmp_path) == []


async def test_a_large_file_behind_a_delta_is_known_by_its_name_only(tmp_path: Path, server: GitServer) -> None:
    server.answer_with = sending(delta_bomb(30 << 20))
    async with cloner(tmp_path, server.place) as git:
        location = parse_location(server.url("bomb.git"))
        head = await git.fetch("repo_1", location)
        files = [file async for change in git.snapshot("repo_1", location, head, {}) for file in change.files]
    assert [(file.path, file.kind, len(file.passages)) for file in files] == [("bomb0000", "large", 0)]


class _Rebinding:
    """A name server that changes its mind: each question gets the next answer, the last one for ever."""

    def __init__(self, *answers: str) -> None:
        self._answers = answers
        self.asked = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return [self._answers[min(self.asked, len(self._answers)) - 1]]


async def test_a_name_that_changes_between_the_first_look_and_the_clone_is_judged_again(
    tmp_path: Path, repo: GitRepo, server: GitServer
) -> None:
    names = _Rebinding("127.0.0.1", "169.254.169.254")
    # The operator named the host, not the metadata service that it comes to mean.
    git = GitEngine(tmp_path / "mirrors", Rules((f"git.test:{server.port}",), resolver=names))
    url = f"http://git.test:{server.port}/project.git"
    try:
        failure = await fails(git, url)
        in_clear = await fails(git, url, credentials=Credentials("", credential("s3cret-token-value", url)))
    finally:
        await git.close()
    assert (failure.code, names.asked >= 2) == ("refused_address", True)
    assert all(request.startswith("GET") for request in server.requests)
    assert in_clear.code == "insecure"
    assert server.authorizations == []
    assert left(tmp_path) == []
