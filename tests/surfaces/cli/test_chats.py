"""Chats on the command line."""

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.cli.frame import NOT_FOUND
from tests.support.features.chats import ScriptedModel, call, said, take
from tests.support.world import World, new_world
from tests.surfaces.cli.test_intelligence import Cli


@pytest.fixture
def holdfast(sqlite_path: Path) -> Cli:
    asyncio.run(_talk(sqlite_path))
    return Cli(sqlite_path)


async def _talk(path: Path) -> None:
    database = SqliteDatabase(path)
    try:
        world: World = await new_world(database, SystemClock())  # type: ignore[arg-type]
        await take(world, ScriptedModel("Hello."), said("Hi there"))
        await take(world, ScriptedModel(call("ask_user", question="Which one?")), said("Choose"), chat_id="c2")
        await world.services.web.close()
    finally:
        await database.close()


@pytest.mark.slow
def test_chats_are_listed_shown_renamed_exported_and_deleted(holdfast: Cli, tmp_path: Path) -> None:
    listed = holdfast.json("chats", "list")
    assert [(each["id"], each["title"], each["messages"]) for each in listed] == [
        ("c2", "Choose", 2),
        ("c1", "Hi there", 2),
    ]
    assert "Hi there" in holdfast.run("chats", "list").stdout
    assert "user: Hi there" in holdfast.run("chats", "show", "c1").stdout
    assert "pending: Which one?" in holdfast.run("chats", "show", "c2").stdout
    assert holdfast.json("chats", "show", "c1")["messages"][1]["message"]["content"] == "Hello."
    assert holdfast.run("chats", "export", "c1").stdout.startswith("# Hi there")
    file = tmp_path / "chat.json"
    assert holdfast.run("chats", "export", "c1", "--format", "json", "--to", str(file)).exit_code == 0
    assert json.loads(file.read_text())["messages"][0]["message"] == {"role": "user", "content": "Hi there"}
    assert holdfast.json("chats", "rename", "c1", "Greetings")["title"] == "Greetings"
    assert holdfast.run("chats", "export", "c1").stdout.startswith("# Greetings")
    assert holdfast.run("chats", "rename", "c9", "Nobody").exit_code == NOT_FOUND
    assert holdfast.json("chats", "delete", "c1") == {"chat_id": "c1", "deleted": True}
    assert holdfast.run("chats", "show", "c1").exit_code == NOT_FOUND
