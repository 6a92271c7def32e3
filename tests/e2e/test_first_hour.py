"""A new user's first hour: every command that README and docs show, run from a fresh clone against a started server.

The commands are read out of the Markdown: one that has no row in CHECKS fails, and so does a row whose command is gone.
"""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.engines.extract.files import pdf, word
from tests.support.code.git import GitRepo
from tests.support.documented import ROOT, Shown, in_blocks

# Some seventy processes: with nothing else on the machine it takes a minute, beside other work several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 120


@dataclass(frozen=True, slots=True)
class Check:
    """How one documented command is run, and what shows that it did what its text says."""

    page: str
    command: str
    says: str = ""
    """A pattern that its output has."""
    fill: tuple[tuple[str, str], ...] = ()
    """What a reader would put in place of something; `{id}` is what an earlier command printed."""
    keeps: str = ""
    """A pattern whose only group is remembered as `id` of the next commands."""
    then: str = ""
    """A command of ours whose output proves it, with `says` for that one."""
    proof: str = ""
    cwd: str = "."


@dataclass(frozen=True, slots=True)
class NotRun:
    """A command that no test can run, and why."""

    page: str
    command: str
    reason: str


_ARTIFACTS, _CHATS, _DOCS = "docs/artifacts.md", "docs/chats.md", "docs/documents.md"
_INTELLIGENCE, _MEMORY, _REPOS, _ENDPOINTS = (
    f"docs/{name}.md" for name in ("intelligence", "memory", "repositories", "endpoints")
)
_AGENTS = "docs/agents.md"
_CASES, _CASE = "docs/cases.md", (("case_…", "{id}"),)
# No network here: a repository on this disk stands for the one at GitHub, which needs no token either.
_CLICK = (("https://github.com/pallets/click", "{home}/src/click"), (" --key-from GITHUB_TOKEN", ""))
_ROCKET = (("https://github.com/acme/rocket.git", "{home}/src/rocket"),)

CHECKS: tuple[Check | NotRun, ...] = (
    # `make up` is run first of all: the fixture does it, and looks at what it prints.
    Check("README.md", "make up", says="Holdfast is ready at"),
    NotRun("README.md", "make test", "it runs this test among all the others"),
    Check(
        "README.md",
        ".venv/bin/holdfast mcp setup claude-code --write ~/my-repository",
        says=r"Wrote \.mcp\.json",
        then="cat ~/my-repository/.mcp.json ~/my-repository/.claude/CLAUDE.md ~/my-repository/.gitignore",
        proof=r'(?s)"xerotier".*Bearer xero_.*is Holdfast.*\.mcp\.json',
    ),
    # The decisions of this repository stand for all of it: its whole history takes longer than this test may.
    Check("README.md", ".venv/bin/holdfast repos add . --wait", says="is remembered", cwd="project"),
    Check(
        "README.md",
        '.venv/bin/holdfast repos ask "Why is libgit2 used instead of the git command?"',
        # The sentence that decides comes before all others.
        says=r"(?m)\A(?:(?!- ).*\n)*- `docs/decisions/0017\S+: .Decision\. .*executes nothing a repository says\.",
        cwd="project",
    ),
    Check(_ARTIFACTS, 'holdfast artifacts create release-notes.md notes.md --title "Release notes"', says="version 1"),
    Check(_ARTIFACTS, "holdfast artifacts update release-notes.md notes.md", says="version 2"),
    Check(_ARTIFACTS, "holdfast artifacts diff release-notes.md", says=r"\+A line more"),
    Check(_ARTIFACTS, "holdfast artifacts show release-notes.md --version 1", says="# Notes"),
    Check(_ARTIFACTS, "holdfast artifacts versions release-notes.md", says=r"(?s)2.*1"),
    Check(_DOCS, "holdfast docs add handbook.docx report.pdf --wait", says=r"(?s)ready.*ready", keeps=r"(doc_\w+)"),
    Check(_DOCS, "holdfast docs list", says=r"(?s)handbook\.docx|report\.pdf"),
    Check(_DOCS, "holdfast docs show doc_… --text", says="office opens", fill=(("doc_…", "{id}"),)),
    Check(_DOCS, 'holdfast search "when does the office open" --types document', says="(?s)Handbook.*opens"),
    Check(
        _DOCS,
        'curl -H "Authorization: Bearer $KEY" -F file=@report.pdf -F chat_id=chat_7 $URL/api/workspaces/$WS/documents',
        says='"created":false',
    ),
    Check(
        "docs/ask.md",
        'holdfast repos ask "Why are sessions kept in PostgreSQL, who decided and when?" --repo ledger --repo web',
        says="(?i)replicas share",
    ),
    Check(
        _CHATS,
        "curl $URL/$PROJECT/default/v1/chat/completions …",
        says='"choices"',
    ),
    Check(_CHATS, "holdfast chats list", says="trip"),
    Check(_CHATS, "holdfast chats show trip", says="Plan a weekend by the sea"),
    Check(_CHATS, 'holdfast chats rename trip "A weekend by the sea"', says="A weekend by the sea"),
    Check(
        _CHATS,
        "holdfast chats export trip --format markdown --to trip.md",
        then="cat trip.md",
        proof="(?s)A weekend by the sea.*Plan a weekend",
    ),
    Check(_CHATS, "holdfast chats delete trip", says="trip", then="holdfast chats list", proof="^(?!.*trip)"),
    Check(
        _AGENTS,
        'holdfast agents add "Triage" --runner builtin --endpoint default --repo shop',
        fill=((" --repo shop", ""),),
        says="triage is defined",
    ),
    NotRun(
        _AGENTS,
        "holdfast agents attach triage linear --env 'LINEAR_API_KEY=${LINEAR_API_KEY}'",
        "needs somebody's own server; tests/surfaces/cli/test_agents.py attaches one",
    ),
    Check(_AGENTS, 'holdfast sessions run triage "Find out why the build is red" --follow', says="is completed"),
    *(
        NotRun("docs/kubernetes.md", command, "needs a cluster; tests/kubernetes/node/test_replicas.py does the same")
        for command in ("make setup && deploy/…", "for i in …", "sed -i …", "kubectl …")
    ),
    Check(
        _CASES,
        'holdfast cases add "Totals are off by one" --kind bug --criterion "1 and 2 make 3"',
        says="Added case_",
        keeps=r"(case_\w+)",
    ),
    Check(_CASES, "holdfast cases ready", says="Totals are off by one"),
    Check(_CASES, "holdfast cases claim case_…", says="fence 1", fill=_CASE),
    Check(_CASES, 'holdfast cases move case_… REPRODUCING --reason "seen on staging"', says="REPRODUCING", fill=_CASE),
    Check(_CASES, "holdfast cases show case_…", says=r"(?s)c1 1 and 2 make 3.*Held by.*seen on staging", fill=_CASE),
    Check(_CASES, "holdfast cases list --state REPRODUCING", says="Totals are off by one"),
    Check(_CASES, "holdfast cases export --format markdown", says=r"(?s)## Totals.*- \[ \] 1 and 2 make 3"),
    Check("docs/clients.md", "holdfast mcp setup claude-code --write .", says=r"Wrote \.mcp\.json"),
    NotRun(
        "docs/deep-think.md",
        "curl -N $URL/$PROJECT/default/v1/chat/completions …",
        "it researches on the internet; tests/surfaces/openai/test_deep_think.py sends it to fakes",
    ),
    Check(
        _INTELLIGENCE,
        'holdfast decisions add "Use PostgreSQL for replicas" --rationale "One writer is not enough." '
        "--alternative MySQL",
        says="dec_",
        keeps=r"(dec_\w+)",
    ),
    Check(_INTELLIGENCE, 'holdfast decisions add "Which region?" --blocking', says="dec_"),
    Check(_INTELLIGENCE, 'holdfast decisions search "why postgres"', says="Use PostgreSQL for replicas"),
    Check(_INTELLIGENCE, "holdfast decisions list --status accepted", says="Use PostgreSQL", keeps=r"(dec_\w+)"),
    Check(
        _INTELLIGENCE,
        'holdfast milestones add "Version 1" --type release --at 2026-11-01 --decision dec_…',
        fill=(("dec_…", "{id}"),),
        says="mil_",
    ),
    Check(_INTELLIGENCE, "holdfast timeline --type release --since 2026-10-01", says="Version 1"),
    Check(_INTELLIGENCE, "holdfast timeline --decision dec_…", fill=(("dec_…", "{id}"),), says="Version 1"),
    Check(
        _INTELLIGENCE,
        "holdfast graph relate milestone:mil_… implements decision:dec_…",
        fill=(
            ("mil_…", "$(holdfast timeline --json | grep -o 'mil_[0-9a-f]*' | head -1)"),
            ("dec_…", "$(holdfast decisions list --blocking --json | grep -o 'dec_[0-9a-f]*' | head -1)"),
        ),
        says="rel_",
    ),
    Check(_INTELLIGENCE, "holdfast graph show --centre dec_… --depth 2", fill=(("dec_…", "{id}"),), says="Version 1"),
    Check(
        _INTELLIGENCE, "holdfast graph show --mermaid > graph.mmd", then="cat graph.mmd", proof="(?s)graph|flowchart"
    ),
    Check(_INTELLIGENCE, 'holdfast brief --focus "move the database" --tokens 800', says="Which region"),
    Check(_INTELLIGENCE, 'holdfast analyze "replication"', says="(?i)postgresql"),
    Check("docs/keystone.md", "holdfast mcp setup claude-code --surface keystone --write .", says=r"Wrote \.mcp\.json"),
    Check(
        "docs/keystone.md",
        "curl -s https://your.server/api/mcp …",
        fill=(("https://your.server", "$URL"), ("my-api", "ledger")),
        says="(?i)replicas share",
    ),
    Check("docs/mcp.md", 'curl -s "$URL" …', fill=(('"$URL"', '"$MCP_URL"'),), says="42"),
    Check(
        _MEMORY, 'holdfast memory save "The API listens on port 8787" …', says="Saved as the-api-listens-on-port-8787"
    ),
    Check(
        _MEMORY,
        "holdfast memory list --chat CHAT_ID",
        fill=(
            (
                "holdfast",
                'curl -s $URL/api/workspaces/$WS/chats -H "Authorization: Bearer $KEY" -H "Content-Type: '
                'application/json" -d \'{{"id": "port-talk", "title": "Ports"}}\' && holdfast',
            ),
            ("CHAT_ID", "port-talk"),
        ),
        says="Nothing here yet",
    ),
    Check(_MEMORY, 'holdfast memory recall "which port"', says="8787"),
    Check(_MEMORY, 'holdfast search "port" --types memory,decision', says="8787"),
    Check(_MEMORY, "holdfast memory share ID_OR_SLUG", fill=(("ID_OR_SLUG", "the-api-listens-on-port-8787"),)),
    Check(_MEMORY, "holdfast memory supersede the-api-listens-on-port-8787 …", says="Saved as the-api-moved"),
    Check(_MEMORY, 'holdfast memory recall "which port" --as-of 2026-02-01', says="(?s)port 8787(?!.*9090)"),
    Check(
        "docs/operations.md",
        "curl -N …",
        fill=(
            ("curl -N", "curl -N --max-time 2"),
            ('repository.*"', 'repository.*"; test $? = 28'),
        ),
        says=": following",
    ),
    Check(_REPOS, "holdfast repos add ~/src/lighthouse --wait", says="lighthouse is remembered"),
    Check(_REPOS, "holdfast repos add https://github.com/acme/rocket.git", fill=_ROCKET, says="rocket .* is queued"),
    Check(_REPOS, "holdfast repos status rocket", says="memory score"),
    Check(_REPOS, "holdfast repos sync rocket --wait", says="rocket is remembered"),
    Check(_REPOS, 'holdfast repos search "why are totals counted in cents" --repo rocket', says="(?i)floating point"),
    Check(_REPOS, "holdfast repos remove rocket --yes", says="Forgot rocket"),
    Check(_REPOS, "holdfast repos add https://github.com/pallets/click …", fill=_CLICK, says="click is remembered"),
    Check(_REPOS, "holdfast repos list", says=r"(?s)click.*lighthouse|lighthouse.*click"),
    Check(_REPOS, "holdfast repos status click", says=r"(?s)memory score.*synthesis:"),
    Check(_REPOS, 'holdfast repos search "parse_args" --repo click', says=r"\(exactly"),
    Check(_REPOS, 'holdfast repos files "let options repeat" --repo click', says=r"core\.py"),
    Check(_REPOS, 'holdfast repos ask "Why are commands lazy?" --repo click', says="(?i)start at once"),
    Check(_REPOS, "holdfast repos findings click --kind hot_spots", says="hot_spots"),
    Check(_REPOS, "holdfast repos sync click --wait", says="click is remembered"),
    Check(_REPOS, "holdfast repos remove click", says="Forgot click"),
    Check(_REPOS, 'curl -H "Authorization: Bearer $KEY" -d …', fill=_CLICK, says='"slug":"click"'),
    Check(
        _REPOS,
        'curl -H "Authorization: Bearer $KEY" "$URL/api/workspaces/$WS/repositories/search?q=parse_args"',
        says='"items"',
    ),
    Check(
        "docs/web-access.md",
        "export HOLDFAST_FETCH_ALLOW=…",
        then='HOLDFAST_FETCH_ALLOW="wiki.lan" holdfast settings',
        proof="wiki.lan",
    ),
    # Nothing listens at that address here, so the embedded model gets its place back.
    Check(
        "README.md",
        ".venv/bin/holdfast endpoints add default …",
        then="holdfast endpoints show default && holdfast endpoints remove default",
        proof="qwen3",
    ),
    Check(
        _ENDPOINTS,
        "holdfast endpoints add default …",
        then="holdfast endpoints show default && holdfast endpoints remove default",
        proof="11434",
    ),
    Check(
        _ENDPOINTS,
        'printf %s "$OPENAI_API_KEY" | holdfast secrets set OPENAI_KEY',
        then="holdfast secrets list",
        proof="OPENAI_KEY",
    ),
    Check(_ENDPOINTS, "holdfast endpoints add openai …", then="holdfast endpoints show openai", proof="OPENAI_KEY"),
    Check(
        _ENDPOINTS,
        'printf %s "$VALUE" | holdfast secrets set LINEAR_API_KEY …',
        then="holdfast secrets list",
        proof="api.linear.app",
    ),
    Check(_ENDPOINTS, "holdfast secrets list", says="(?s)LINEAR_API_KEY.*OPENAI_KEY"),
    Check(
        _ENDPOINTS, "holdfast secrets delete LINEAR_API_KEY", then="holdfast secrets list", proof="LINEAR_API_KEY +no"
    ),
)


def _shows(check: "Check | NotRun", shown: Shown) -> bool:
    start, rest, _ = check.command.partition("…") if check.command.endswith("…") else (check.command, "", "")
    same = shown.command.startswith(start.rstrip()) if rest else shown.command == start
    return check.page == shown.page and same


@dataclass(slots=True)
class Hour:
    """A home, a clone in it, a server that `make up` started there, and what commands printed."""

    home: Path
    environment: dict[str, str]
    announced: str = ""
    remembered: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, cwd: str = ".") -> str:
        """What a command prints; it has to end well."""
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.home / "clone" / cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

    def check(self, check: Check, command: str) -> str:
        """Run a command with its blanks filled in; what is wrong with what it did, or nothing."""
        names = {**self.remembered, "home": str(self.home)}
        for blank, value in check.fill:
            command = command.replace(blank, value.format(**names) if "$(" not in value else value)
        try:
            said = self.announced if command == "make up" else self.run(command, check.cwd)
            if not re.search(check.says, said):
                return f"{check.page}: {command}\n  does not say {check.says!r} but\n{said}"
            if check.keeps and (found := re.search(check.keeps, said)):
                self.remembered["id"] = found[1]
            if check.then and not re.search(check.proof, proof := self.run(check.then)):
                return f"{check.page}: {command}\n  {check.then} does not say {check.proof!r} but\n{proof}"
        except (AssertionError, subprocess.TimeoutExpired, KeyError) as problem:
            return f"{check.page}: {command}\n{problem!s}"
        return ""


def _repositories(home: Path) -> None:
    """What the examples ask for: a project with decisions, and small repositories with something to find."""
    project = GitRepo(home / "clone" / "project")
    name = "docs/decisions/0017-reading-repositories.md"
    project.commit("Decide how repositories are read", {name: (ROOT / name).read_text()})
    ledger = GitRepo(home / "src" / "ledger")
    why = "Keep sessions in PostgreSQL\n\nSessions are kept in PostgreSQL because replicas share them."
    ledger.commit(why, {"README.md": "# Ledger\n\nSessions are kept in PostgreSQL, so that replicas share them.\n"})
    GitRepo(home / "src" / "web").commit("Begin", {"README.md": "# Web\n\nThe pages of the ledger.\n"})
    GitRepo(home / "src" / "lighthouse").commit("Begin", {"README.md": "# Lighthouse\n\nIt shines at night.\n"})
    cents = "Count totals in cents\n\nTotals are counted in cents because floating point lost one on every third bill."
    GitRepo(home / "src" / "rocket").commit(cents, {"total.py": "def total(lines):\n    return sum(lines)\n"})
    click = GitRepo(home / "src" / "click")
    lazy = "Make commands lazy\n\nCommands are lazy because programs with many of them shall start at once."
    click.commit(
        lazy,
        {
            "core.py": "def parse_args(words):\n    return words\n",
            "README.md": "# Click\n\nCommands are lazy, so that programs start at once.\n",
        },
    )
    click.commit(
        "Let options repeat", {"core.py": "def parse_args(words):\n    # Options may repeat.\n    return list(words)\n"}
    )


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hour]:
    """A new user's machine, where `make up` runs in a fresh clone."""
    home = tmp_path_factory.mktemp("home")
    GitRepo.clone(f"file://{ROOT}", home / "clone", "--depth", "1")
    # What `make setup` would install is installed: its packages would come from the network.
    (home / "clone" / ".venv").symlink_to(ROOT / ".venv")
    (home / "clone" / ".venv" / "bin" / "holdfast").stat()
    (home / "bin").mkdir()
    (home / "bin" / "holdfast").symlink_to(ROOT / ".venv" / "bin" / "holdfast")
    (home / "my-repository").mkdir()
    _repositories(home)
    clone = home / "clone"
    (clone / "project" / ".venv").symlink_to(ROOT / ".venv")
    (clone / "notes.md").write_text("# Notes\n")
    (clone / "handbook.docx").write_bytes(word())
    (clone / "report.pdf").write_bytes(pdf("The office opens at nine."))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XEROTIER_", "GIT_"))
    }
    environment = {
        **kept,
        "HOME": str(home),
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "HOLDFAST_PORT": str(port),
        "HOLDFAST_REPOSITORY_PATHS": str(home / "src"),
        "OPENAI_API_KEY": "not-a-real-key",
        "VALUE": "not-a-real-value",
        "no_proxy": "*",
    }
    hour = Hour(home, environment)
    with (home / "up.txt").open("w") as out, (home / "up.log").open("w") as log:
        server = subprocess.Popen(
            ["make", "up"], cwd=clone, env=environment, stdout=out, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + SECONDS
        while "my-repository" not in hour.announced:
            assert server.poll() is None and time.monotonic() < deadline, (home / "up.log").read_text()
            time.sleep(0.05)
            hour.announced = (home / "up.txt").read_text()
        environment |= _announced(hour.announced)
        yield hour
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)


def _announced(text: str) -> dict[str, str]:
    """The variables that examples use, from what `make up` prints."""
    found = re.search(r"xerotier (?P<MCP_URL>(?P<URL>http://\S+?)/(?P<PROJECT>proj_\w+)/v1/mcp)", text)
    key = re.search(r'Bearer (?P<KEY>xero_[^"]+)"', text)
    workspace = re.search(r"X-Xerotier-Workspace: (?P<WS>ws_\w+)", text)
    assert found and key and workspace, text
    return {**found.groupdict(), **key.groupdict(), "WS": workspace["WS"], "WORKSPACE": workspace["WS"]}


def test_every_documented_command_has_one_check_and_every_check_a_command() -> None:
    shown = in_blocks()
    for each in shown:
        found = [check for check in CHECKS if _shows(check, each)]
        assert len(found) == 1, f"{each.page} shows {each.command!r}, which has {len(found)} checks here"
    for check in CHECKS:
        assert any(_shows(check, each) for each in shown), f"{check.page} no longer shows {check.command!r}"


@pytest.mark.parametrize("page", sorted({check.page for check in CHECKS if isinstance(check, Check)}))
def test_every_command_of_a_page_does_what_its_text_says(hour: Hour, page: str) -> None:
    for name in ("ledger", "web") if page in ("docs/ask.md", "docs/keystone.md") else ():
        hour.run(f"holdfast repos status {name} || holdfast repos add {hour.home}/src/{name} --wait")
    shown = in_blocks()
    wrong = []
    for check in CHECKS:
        if isinstance(check, Check) and check.page == page:
            (command,) = (each.command for each in shown if _shows(check, each))
            if check.command.startswith("holdfast artifacts update"):
                (hour.home / "clone" / "notes.md").write_text("# Notes\nA line more\n")
            wrong += [problem] if (problem := hour.check(check, command)) else []
    assert not wrong, "\n\n".join(wrong)
    # Nothing was left anywhere but in the default directory, which the running server has.
    assert "using" not in hour.run("holdfast status") and "running: yes" in hour.run("holdfast status")
