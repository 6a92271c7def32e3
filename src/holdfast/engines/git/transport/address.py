"""Owns reading where a repository is: a path on this machine or a git URL, never anything that runs a command."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.core.credential import Credential, Place
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.url import BadUrl, Url, parse_url
from holdfast.engines.git.model import Credentials

MAX_LOCATION = 4_000
_SCHEMES = {"http": "http", "https": "https", "git": "git", "ssh": "ssh", "git+ssh": "ssh", "ssh+git": "ssh"}
_PORTS = {"http": 80, "https": 443, "git": 9418, "ssh": 22}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[^/\[]*::")
_DRIVE = re.compile(r"[A-Za-z]:")
_SCP = re.compile(r"(?:(?P<user>[A-Za-z0-9._~-]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<path>[^\s].*)")
_USER = re.compile(r"[A-Za-z0-9._~+-]{1,64}")
_TOKEN_LENGTH = 20
"""A user name this long that comes without a password is a token."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a repository is. `text` is how to show and keep it: it holds no password, and none is kept elsewhere."""

    text: str
    is_local: bool
    scheme: str
    """http, https, git, ssh; empty for a path."""
    host: str
    port: int | None
    path: str
    username: str = ""

    @property
    def place(self) -> Place:
        """Who reads what is sent there."""
        return Place.at(self.host, self.port or _PORTS[self.scheme], tls=self.scheme == "https")


class BadLocation(Invalid):
    """The text is neither a repository's path nor a git URL that may be cloned."""

    code = "invalid_location"

    def __init__(self, problem: str) -> None:
        super().__init__(f"This location can't be used: {problem}.", fields=[FieldError("location", problem)])


def parse_location(text: str) -> Location:
    """Read an existing path or a git URL; BadLocation for everything else."""
    return split_credentials(text)[0]


def is_path(text: str) -> bool:
    """Whether a text is written like a path; a bare name may be one too, where such a directory is."""
    return text.startswith(("/", "./", "../", "~")) or text in (".", "..")


def may_be_path(text: str) -> bool:
    """Whether only a look at the machine could tell that a text is no path."""
    is_other = _SCHEME.match(text) or _SCP.fullmatch(text) or _HELPER.match(text) or text.startswith("-")
    return not is_other


def spellings(location: Location) -> Sequence[str]:
    """The ways in which people write this very place."""
    bare = location.text.rstrip("/")
    if location.is_local:
        bare = bare.removesuffix("/.git")
        return bare, f"{bare}/.git"
    bare = bare.removesuffix(".git")
    return bare, f"{bare}/", f"{bare}.git", f"{bare}.git/"


def split_credentials(text: str) -> tuple[Location, Credentials | None]:
    """The location, and apart from it the credentials that were written into the URL."""
    text = text.strip()
    _refuse_tricks(text)
    if found := _SCHEME.match(text):
        return _url(text, found[1].lower(), text[found.end() :])
    if is_path(text) or _is_directory(Path(text)):
        return _path(text), None
    if found := _SCP.fullmatch(text):
        return _scp(found), None
    raise BadLocation("it is neither an existing directory nor a git URL (https://host/owner/name.git)")


def _refuse_tricks(text: str) -> None:
    if not text or len(text) > MAX_LOCATION:
        raise BadLocation(f"a path or URL has 1 to {MAX_LOCATION:,} characters")
    if any(character < " " or 0x7F <= ord(character) <= 0x9F for character in text) or not _is_utf8(text):
        raise BadLocation("it holds a control character")
    if text.startswith("-"):
        raise BadLocation("it begins with a dash, like an option; write ./-name for a directory of that name")
    if _HELPER.match(text):
        raise BadLocation("'name::' would run a program of that name; give an https:// URL or a path")
    if "\\" in text or _DRIVE.match(text) or text.startswith("//"):
        raise BadLocation("it is a Windows or network-share path; give a path on this machine or a git URL")


def _url(text: str, scheme: str, rest: str) -> tuple[Location, Credentials | None]:
    if scheme == "file":
        raise BadLocation("file:// is not read; give the path itself")
    if scheme not in _SCHEMES:
        raise BadLocation(f"{scheme}:// is not read; use https://, http://, git:// or a path")
    scheme = _SCHEMES[scheme]
    authority, slash, path = rest.partition("/")
    user_part, at, host_part = authority.rpartition("@")
    url, port = _host(host_part, f"{slash}{path}")
    if url.target == "/" or "?" in f"{slash}{path}" or "#" in path:
        raise BadLocation("the repository's path is missing, or something follows it (? or #)")
    place = Place.at(url.host, port or _PORTS[scheme], tls=scheme == "https")
    credentials = _credentials(user_part, place) if at else None
    username = credentials.username if credentials is not None else ""
    # A user belongs to an ssh address; in a web address it is half of a secret.
    user = f"{username}@" if scheme == "ssh" and username else ""
    shown = f"[{url.host}]" if ":" in url.host else url.host
    plain = f"{scheme}://{user}{shown}{f':{port}' if port is not None else ''}{url.target}"
    return Location(plain, False, scheme, url.host, port, url.target, username), credentials


def _host(authority: str, path: str) -> tuple[Url, int | None]:
    try:
        url = parse_url(f"http://{authority}{path}")
        return url, urlsplit(f"http://{authority}").port
    except BadUrl as problem:
        raise BadLocation(problem.message.partition(": ")[2].rstrip(".")) from None
    except ValueError:
        raise BadLocation("its host or port could not be read") from None


def _credentials(user_part: str, place: Place) -> Credentials:
    username, _, token = (unquote(part, errors="replace") for part in user_part.partition(":"))
    if not token and len(username) >= _TOKEN_LENGTH:
        return Credentials("", Credential(username, place))
    if username and _USER.fullmatch(username) is None:
        raise BadLocation("its user name holds characters that no user name has")
    return Credentials(username, Credential(token, place))


def _scp(found: re.Match[str]) -> Location:
    path = found["path"]
    if path.startswith("-") or found["host"].startswith("-"):
        raise BadLocation("a part of it begins with a dash, like an option")
    url, _ = _host(found["host"], "/" + path.lstrip("/"))
    user = found["user"] or ""
    text = f"{user}@{url.host}:{path}" if user else f"{url.host}:{path}"
    return Location(text, False, "ssh", url.host, None, url.target, user)


def _path(text: str) -> Location:
    try:
        path = Path(text).expanduser().resolve()
    except (OSError, RuntimeError):
        raise BadLocation("the path can't be followed") from None
    if not _is_directory(path):
        raise BadLocation(f"there is no directory {path}")
    return Location(str(path), True, "", "", None, str(path))


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
