"""What is PostgreSQL's own: the way in, lost connections, races that are run again."""

import asyncio

import psycopg
import pytest

from holdfast.storage.database import StartFailed, StorageFailed, Tx
from holdfast.storage.postgresql import PostgresDatabase, placeholders


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:sekret@127.0.0.1:1/x",
        "postgresql://someone:sekret@127.0.0.1:port/x",
        "postgresql://someone:sek%ret@localhost/x",
        "postgresql://someone:sekret@/x?host=/nowhere",
        "postgresql://someone@/x?sekret=1",
        "sekret",
    ],
)
def test_a_server_that_cannot_be_reached_is_one_line_without_the_password(url: str) -> None:
    with pytest.raises(StartFailed, match="HOLDFAST_DATABASE_URL") as refused:
        PostgresDatabase(url)
    assert "\n" not in str(refused.value) and "sek" not in str(refused.value)


def test_parameters_are_named_and_casts_are_left_alone() -> None:
    assert placeholders("SELECT :a::text, x::int, 5 % 2, :long_name1") == (
        "SELECT %(a)s::text, x::int, 5 %% 2, %(long_name1)s"
    )


async def test_a_lost_connection_is_replaced(postgres_database: PostgresDatabase, postgres_url: str) -> None:
    assert await postgres_database.read(lambda tx: tx.one("SELECT 1 AS one")) == {"one": 1}
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'holdfast'"
        )
    assert await postgres_database.read(lambda tx: tx.one("SELECT 2 AS two")) == {"two": 2}


async def test_a_connection_lost_inside_a_transaction_is_a_clear_error(postgres_database: PostgresDatabase) -> None:
    def work(tx: Tx) -> None:
        tx.execute("CREATE TABLE lost (id INTEGER)")
        tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StorageFailed, match="PostgreSQL did not take the work"):
        await postgres_database.write(work)
    found = await postgres_database.read(lambda tx: tx.one("SELECT to_regclass('lost')::text AS name"))
    assert found == {"name": None}


async def test_the_loser_of_a_deadlock_starts_again(postgres_database: PostgresDatabase) -> None:
    await postgres_database.write(lambda tx: tx.execute("CREATE TABLE pair (id INTEGER PRIMARY KEY, times INTEGER)"))
    await postgres_database.write(lambda tx: tx.execute("INSERT INTO pair VALUES (1, 0), (2, 0)"))
    loop = asyncio.get_running_loop()
    both_hold_one = asyncio.Barrier(2)
    tries = {"up": 0, "down": 0}

    def work(tx: Tx, name: str, order: tuple[int, int]) -> None:
        tries[name] += 1
        tx.execute("UPDATE pair SET times = times + 1 WHERE id = :id", {"id": order[0]})
        if tries[name] == 1:
            asyncio.run_coroutine_threadsafe(both_hold_one.wait(), loop).result(30)
        tx.execute("UPDATE pair SET times = times + 1 WHERE id = :id", {"id": order[1]})

    await asyncio.gather(
        postgres_database.write(lambda tx: work(tx, "up", (1, 2))),
        postgres_database.write(lambda tx: work(tx, "down", (2, 1))),
    )
    assert await postgres_database.read(lambda tx: tx.all("SELECT times FROM pair")) == [{"times": 2}, {"times": 2}]
    assert sum(tries.values()) >= 3
