"""Proves what the command line makes of declared commands: usage errors that name the option, completion, start."""

import subprocess
import sys
from typing import Annotated

from click.testing import CliRunner, Result
from pydantic import Field

from holdfast.core.commands import Argument, Given, Option, Session, command
from holdfast.main import cli
from holdfast.surfaces.cli.declared import as_click


class Wanted(Given):
    text: Annotated[str, Argument(reads="dash")]
    limit: int = Field(10, ge=1, le=50)
    name: str = Field("x", max_length=3)
    key: Annotated[str | None, Option(reads="file")] = None


@command("try", help="Try it.")
async def tried(session: Session, given: Wanted) -> None:
    session.out.record(given, [given.text])


def _usage(*words: str) -> Result:
    result = CliRunner().invoke(as_click([tried]), list(words))
    assert result.exit_code == 2
    return result


def test_a_usage_error_names_the_option() -> None:
    assert "'--limit': 0 is not in the range 1<=x<=50" in _usage("words", "--limit", "0").stderr
    assert "'--name': string should have at most 3 characters" in _usage("words", "--name", "long").stderr
    assert "Missing argument 'TEXT'" in _usage().stderr


def test_every_command_can_be_completed() -> None:
    words = {"COMP_WORDS": "holdfast mem", "COMP_CWORD": "1", "_HOLDFAST_COMPLETE": "bash_complete"}
    assert CliRunner().invoke(cli, env=words, prog_name="holdfast").stdout == "plain,memory\n"
    words = {"COMP_WORDS": "holdfast memory list --sta", "COMP_CWORD": "3", "_HOLDFAST_COMPLETE": "bash_complete"}
    assert CliRunner().invoke(cli, env=words, prog_name="holdfast").stdout == "plain,--status\n"


def test_help_and_version_import_no_feature() -> None:
    program = (
        "import sys; sys.argv = ['holdfast', sys.argv[1]]\n"
        "from holdfast.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "feature = [name for name in sys.modules if name.startswith('holdfast.features.') and name.count('.') > 2]\n"
        "heavy = [name for name in sys.modules if name.startswith(('numpy', 'pydantic', 'rich'))]\n"
        "print([name for name in feature if not name.endswith('.feature')] + heavy)"
    )
    # For the list of all commands each feature says what it adds, and that loads none of it.
    for option in ("--help", "--version"):
        ran = subprocess.run([sys.executable, "-c", program, option], capture_output=True, text=True, check=True)
        assert ran.stdout.splitlines()[-1] == "[]"
