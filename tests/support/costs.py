"""Owns what tests cost: which of them are slow by what they need, in which order they run, and what each took.

`make check` runs what is not slow. A test that needs PostgreSQL is slow by itself; others say so with a marker. After a
run the tests that should have said so are listed, so that the fast ones stay fast."""

import os
import time
from collections.abc import Generator

import pytest

FAST_SECONDS = 1.0
"""The processor time that a fast test may take, with the processes that it starts."""
_COST = "cpu_seconds"
_BEGAN = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Costs())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs PostgreSQL, and begin with what takes longest: at the end every worker has short ones."""
    marked = {item for item in items if item.get_closest_marker("slow")}
    for item in items:
        if item not in marked and _needs_postgres(item):
            item.add_marker("slow")
    items.sort(key=lambda item: item not in marked)


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = _spent()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Note the cost; what the last test clears away was everybody's."""
    spent = _spent()
    try:
        yield
    finally:
        if _BEGAN in item.stash:
            cost = (_spent() if nextitem else spent) - item.stash[_BEGAN]
            item.user_properties.append((_COST, round(cost, 3)))


class _Costs:
    """What every worker told of its tests, in the process that prints the summary."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._dear: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cost = dict(report.user_properties).get(_COST) if report.when == "teardown" else None
        if isinstance(cost, float):
            self._seconds += cost
            if cost > FAST_SECONDS and "slow" not in report.keywords:
                self._dear[report.nodeid] = cost

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"The tests took {self._seconds:.0f} s of processor time, PostgreSQL's not counted."
        )
        if self._dear:
            terminalreporter.write_line(f"More than {FAST_SECONDS:.0f} s each; make these cheaper or mark them slow:")
        for name, cost in sorted(self._dear.items(), key=lambda found: -found[1]):
            terminalreporter.write_line(f"  {cost:.1f} s  {name}")


def _needs_postgres(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return "postgres_server" in getattr(item, "fixturenames", ()) or (
        parameters is not None and "postgresql" in parameters.params.values()
    )


def _spent() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
