"""Property tests fail for what they find, never for what else the machine does meanwhile."""

import random
import re
import threading
import time
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisDeprecationWarning

TESTS = Path(__file__).resolve().parents[1]


def _while_another_thread_throws_dice(number: int) -> int:
    """What a pool of connections does when it comes to open one: its jitter is taken from the global generator."""
    thread = threading.Thread(target=random.random)
    thread.start()
    thread.join()
    return number


@given(st.integers().map(_while_another_thread_throws_dice))
@settings(max_examples=5)
def test_a_thread_that_uses_random_beside_a_draw_disturbs_nothing(number: int) -> None:
    assert isinstance(number, int)


def test_every_other_warning_of_hypothesis_is_still_an_error() -> None:
    with pytest.raises(HypothesisDeprecationWarning, match="assume"):
        assume(True)


@given(st.integers())
@settings(max_examples=3)
def test_a_slow_example_is_no_failure(number: int) -> None:
    # Longer than what Hypothesis grants an example where nobody says otherwise.
    time.sleep(0.21)


def test_no_strategy_takes_its_choices_from_the_global_generator() -> None:
    # The warning that is ignored would have said so.
    using = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if "node_modules" not in path.parts
        and path != Path(__file__)
        and re.search(r"^(?:from|import) hypothesis", text := path.read_text(), re.MULTILINE)
        and re.search(r"(?<!\.)\brandom\.(?!Random\b)|from random import (?!Random\b)", text)
    ]
    assert not using, f"these draw and use the global `random`; draw with st.randoms() instead: {using}"


def test_only_the_shared_profile_says_how_patient_a_property_is() -> None:
    own = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if "node_modules" not in path.parts
        and path not in (Path(__file__), TESTS / "conftest.py")
        and re.search(r"derandomize=|suppress_health_check=|HealthCheck", path.read_text())
    ]
    assert not own, f"tests/conftest.py sets this for all; these set it again: {own}"
