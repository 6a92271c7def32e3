"""Proves documents and vector stores over REST, through the whole server and OpenAI's own client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving

ZOO = b"# Zoo\n\nThe giraffe is fed at noon.\n\n# Staff\n\nKim feeds the zebra.\n"


def _base(server: TestServer) -> str:
    return f"/api/workspaces/{server.start.workspace_id}/documents"


async def _uploaded(server: TestServer, client: httpx.AsyncClient, name: str, content: bytes) -> dict[str, Any]:
    answer = await client.post(_base(server), files={"file": (name, content)})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def _read(server: TestServer, client: httpx.AsyncClient, document: dict[str, Any]) -> dict[str, Any]:
    await server.services.jobs.wait(document["job_id"], timeout_seconds=60)
    return dict((await client.get(f"{_base(server)}/{document['id']}")).json())


@pytest.mark.contract("XS-T9")
async def test_a_document_is_uploaded_read_found_and_deleted(server: TestServer) -> None:
    async with server.client() as client:
        made = await _uploaded(server, client, "zoo.md", ZOO)
        assert (made["created"], made["format"], made["size_bytes"]) == (True, "markdown", len(ZOO))
        document = await _read(server, client, made)
        assert (document["state"], document["chunks"], document["progress"]) == ("ready", 2, {"done": 2, "total": 2})
        one = f"{_base(server)}/{made['id']}"

        status = (await client.get(f"{one}/status")).json()
        content = await client.get(f"{one}/content")
        text = await client.get(f"{one}/text")
        chunks = (await client.get(f"{one}/chunks")).json()["items"]
        found = (await client.get(f"{_base(server)}/search", params={"q": "zebra"})).json()["items"]
        everywhere = (
            await client.get(f"/api/workspaces/{server.start.workspace_id}/search", params={"q": "zebra"})
        ).json()

        assert (status["state"], status["reason"]) == ("ready", None)
        assert content.content == ZOO
        assert content.headers["content-disposition"] == "attachment; filename*=UTF-8''zoo.md"
        assert text.text.startswith("Zoo\n\nThe giraffe")
        assert [(each["heading"], each["number"]) for each in chunks] == [("Zoo", 0), ("Staff", 1)]
        assert (found[0]["document_id"], found[0]["heading"]) == (made["id"], "Staff")
        assert "document" in {each["type"] for each in everywhere["items"]}
        assert (await client.delete(one)).status_code == 204
        assert (await client.get(one)).status_code == 404


async def test_the_same_bytes_answer_the_same_document(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        first = await _uploaded(sqlite_server, client, "a.md", ZOO)
        second = await _uploaded(sqlite_server, client, "b.md", ZOO)
    assert (second["id"], second["created"]) == (first["id"], False)


async def test_fields_may_come_before_or_after_the_file(sqlite_server: TestServer) -> None:
    def body(*parts: bytes) -> bytes:
        return b"".join(b"--B\r\n" + part + b"\r\n" for part in parts) + b"--B--\r\n"

    chat = b'Content-Disposition: form-data; name="chat_id"\r\n\r\nchat_1'
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    async with sqlite_server.client() as client:
        for number in range(2):
            file = b'Content-Disposition: form-data; name="file"; filename="%d.txt"\r\n\r\ntext %d' % (number, number)
            parts = (chat, file) if number else (file, chat)
            answer = await client.post(_base(sqlite_server), content=body(*parts), headers=headers)
            assert answer.status_code == 201, answer.text
        listed = (await client.get(_base(sqlite_server), params={"chat_id": "chat_1"})).json()["items"]
    assert {each["filename"] for each in listed} == {"0.txt", "1.txt"}


@pytest.mark.parametrize(
    ("header", "filename"),
    [
        ('filename="simple.txt"', "simple.txt"),
        ("filename*=UTF-8''Gr%C3%B6%C3%9Fe.txt", "Größe.txt"),
        ('filename="a%22b.txt"', 'a"b.txt'),
        ('filename="C:\\files\\report.txt"', "report.txt"),
        ('filename="../../etc/passwd"', "passwd"),
        ('filename="Größe.txt"', "Größe.txt"),
    ],
)
async def test_file_names_are_read_as_clients_write_them(sqlite_server: TestServer, header: str, filename: str) -> None:
    body = f'--B\r\nContent-Disposition: form-data; name="file"; {header}\r\n\r\n{filename}\r\n--B--\r\n'.encode()
    async with sqlite_server.client() as client:
        answer = await client.post(
            _base(sqlite_server), content=body, headers={"Content-Type": "multipart/form-data; boundary=B"}
        )
    assert answer.json()["filename"] == filename


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=B", b""),
        ("multipart/form-data; boundary=B", b"--B--\r\n"),
        ("multipart/form-data; boundary=B", b"not multipart at all"),
        (
            "multipart/form-data; boundary=B",
            b'--B\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n--B--\r\n',
        ),
        (
            "multipart/form-data; boundary=B",
            b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ncut off',
        ),
    ],
)
async def test_a_broken_upload_is_refused_and_leaves_nothing(
    sqlite_server: TestServer, content_type: str, body: bytes
) -> None:
    async with sqlite_server.client() as client:
        answer = await client.post(_base(sqlite_server), content=body, headers={"Content-Type": content_type})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "upload")
    left = await sqlite_server.services.database.read(lambda tx: tx.all("SELECT id FROM document_blob"))
    assert left == []


async def test_an_upload_over_the_limit_is_refused(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, max_upload_bytes=2_000_000) as server, server.client() as client:

        async def endless() -> AsyncIterator[bytes]:
            yield b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            for _ in range(40):
                yield b"x" * 65_536
            yield b"\r\n--B--\r\n"

        headers = {"Content-Type": "multipart/form-data; boundary=B"}
        answer = await client.post(_base(server), content=endless(), headers=headers)
        declared = await client.post(_base(server), files={"file": ("a.txt", b"x" * 2_100_000)})

    for refused in (answer, declared):
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "file_too_large")


async def test_a_client_that_hangs_up_leaves_nothing(sqlite_server: TestServer) -> None:
    host, port = sqlite_server.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {_base(sqlite_server)} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {sqlite_server.key}\r\n"
        "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 90000000\r\n\r\n"
        '--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    )
    writer.write(head.encode() + b"x" * 3_000_000)
    await writer.drain()
    database = sqlite_server.services.database

    async def parts() -> int:
        return len(await database.read(lambda tx: tx.all("SELECT part FROM document_blob_part")))

    async with asyncio.timeout(60):
        while not await parts():
            await asyncio.sleep(0.01)
        writer.close()
        while await parts():
            await asyncio.sleep(0.01)


async def test_an_empty_file_and_a_picture_are_refused_with_the_remedy(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        empty = await client.post(_base(sqlite_server), files={"file": ("a.txt", b"")})
        picture = await client.post(_base(sqlite_server), files={"file": ("a.png", b"\x89PNG\r\n\x1a\n")})
    assert (empty.status_code, empty.json()["error"]["code"]) == (422, "empty_file")
    assert (picture.status_code, picture.json()["error"]["code"]) == (422, "unsupported_format")


@pytest.mark.contract("XS-T9")
async def test_openais_client_works_with_vector_stores(server: TestServer) -> None:
    async with server.client() as client:
        ids = []
        for name, content in (("zoo.md", ZOO), ("sea.md", b"# Sea\n\nThe whale eats krill.\n")):
            made = await _uploaded(server, client, name, content)
            await _read(server, client, made)
            ids.append(made["id"])
    base_url = f"{server.url}/api/workspaces/{server.start.workspace_id}"
    http_client = openai.DefaultAsyncHttpxClient(trust_env=False)
    async with openai.AsyncOpenAI(base_url=base_url, api_key=server.key, http_client=http_client) as ai:
        store = await ai.vector_stores.create(name="Animals", file_ids=ids[:1], metadata={"a": "b"})
        assert store.id.startswith("vs_")
        assert (store.name, store.status, store.file_counts.completed) == ("Animals", "completed", 1)
        file = await ai.vector_stores.files.create(store.id, file_id=ids[1], attributes={"place": "sea"})
        assert (file.status, file.attributes) == ("completed", {"place": "sea"})

        listed = [each.id async for each in ai.vector_stores.files.list(store.id, limit=1, order="asc")]
        assert sorted(listed) == sorted(ids)
        found = [each async for each in ai.vector_stores.search(store.id, query="what does the whale eat?")]
        assert (found[0].file_id, found[0].filename) == (ids[1], "sea.md")
        assert "krill" in found[0].content[0].text
        on_land = ai.vector_stores.search(
            store.id, query="animal eats fed", filters={"type": "ne", "key": "place", "value": "sea"}
        )
        assert {each.file_id async for each in on_land} == {ids[0]}

        renamed = await ai.vector_stores.update(
            store.id, name="Zoo", expires_after={"anchor": "last_active_at", "days": 7}
        )
        assert renamed.name == "Zoo" and renamed.expires_at == renamed.last_active_at + 7 * 86_400  # type: ignore[operator]
        assert (await ai.vector_stores.files.delete(ids[1], vector_store_id=store.id)).deleted
        assert [each.id async for each in ai.vector_stores.list()] == [store.id]
        assert (await ai.vector_stores.delete(store.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await ai.vector_stores.retrieve(store.id)
