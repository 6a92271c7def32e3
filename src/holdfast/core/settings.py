"""Owns the settings: one table of name, default and help, read from the environment or a file."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from holdfast.core.errors import FieldError, HoldfastError

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}


class SettingsError(HoldfastError):
    """A setting is unknown or malformed; the start stops and says which."""

    code = "settings"


def _setting(
    default: Any, help: str, *, env: str | None = None, secret: bool = False, choices: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"help": help, "env": env, "secret": secret, "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything an operator can set. Each is `HOLDFAST_<NAME>` in the environment unless another name is given."""

    data_dir: Path = _setting(Path("~/.holdfast"), "Where the embedded store and uploads live")
    host: str = _setting("127.0.0.1", "Address to listen on")
    port: int = _setting(8787, "Port to listen on")
    workers: int = _setting(1, "Processes that serve together, each on a core of its own; see operations.md")
    sign_in_at_start: bool = _setting(
        True, "Print a sign-in link at each start and a key at the first; off where what a server prints is kept"
    )
    public_url: str | None = _setting(None, "The URL people and agents reach the server by, when it is behind a proxy")
    database_url: str | None = _setting(
        None, "PostgreSQL URL (postgresql://…); without it the embedded store is used", secret=True
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (), "Host names accepted beside localhost and the public URL's (comma-separated); guards against DNS rebinding"
    )
    allowed_origins: tuple[str, ...] = _setting((), "Origins of web pages that may call the server (comma-separated)")
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed (comma-separated)",
    )
    max_connections: int = _setting(10_000, "Connections open at once; fewer where the system allows fewer files")
    max_connections_per_address: int = _setting(
        1000, "Connections open at once from one address, trusted proxies excepted"
    )
    header_timeout_seconds: float = _setting(10.0, "Longest time from a request's first byte to the end of its header")
    body_timeout_seconds: float = _setting(
        30.0, "Time in which a request's body must come forward by 500 bytes a second"
    )
    idle_timeout_seconds: int = _setting(
        30,
        "How long a connection may wait for its next request; a proxy before the server should wait less long",
    )
    max_body_bytes: int = _setting(4 * 1024 * 1024, "Largest request body, uploads excepted")
    max_upload_bytes: int = _setting(512 * 1024 * 1024, "Largest document upload")
    request_timeout_seconds: float = _setting(120.0, "Longest time for one request, streams excepted")
    shutdown_seconds: float = _setting(20.0, "How long streams may go on after SIGTERM")
    log_level: str = _setting("info", "How much is logged", choices=("debug", "info", "warning", "error"))
    secure_cookies: bool | None = _setting(None, "Mark cookies Secure; by default when the public URL is https")
    requests_per_minute: int = _setting(6000, "Requests a minute for each key or person over REST")
    sign_ins_per_minute: int = _setting(10, "Sign-in attempts a minute for each address and each client")
    allow_organizations: bool = _setting(
        False, "Let signed-in people make organizations of their own; otherwise only the operator does"
    )
    oidc_issuer: str | None = _setting(None, "OIDC issuer for people's sign-in, such as https://accounts.example.com")
    oidc_client_id: str | None = _setting(None, "Client id at the OIDC issuer")
    oidc_client_secret: str | None = _setting(None, "Client secret at the OIDC issuer", secret=True)
    jwt_issuer: str | None = _setting(None, "Issuer of JWT bearers that are accepted as credentials")
    jwt_audience: str | None = _setting(
        None, "Audience that those JWTs must name; required together with an issuer or a JWKS URL"
    )
    jwt_secret: str | None = _setting(None, "Shared secret (HS256/384/512) of the JWT issuer", secret=True)
    jwt_jwks_url: str | None = _setting(None, "JWKS URL of the JWT issuer, instead of a shared secret")
    jwt_verified_claim: str = _setting(
        "email_verified",
        "Where those JWTs say, by the boolean true, that the address is verified; dots go into objects",
    )
    otlp_endpoint: str | None = _setting(None, "OpenTelemetry collector (OTLP over HTTP) that traces are sent to")
    embedder: str = _setting("embedded", "What turns text into vectors", choices=("embedded", "upstream"))
    embeddings_url: str | None = _setting(
        None, "Base URL of an OpenAI-compatible API for embeddings, such as http://127.0.0.1:11434/v1"
    )
    embeddings_model: str | None = _setting(None, "Model name at that API")
    embeddings_key: str | None = _setting(None, "API key for that API", secret=True)
    embeddings_dimensions: int = _setting(384, "Length of that model's vectors")
    upstream_allow: tuple[str, ...] = _setting(
        (),
        "Private hosts or networks that models added over the API may live on (comma-separated); "
        "`holdfast endpoints add` on this machine may name any",
    )
    secrets_master_key: str | None = _setting(
        None,
        "Key that secrets are sealed under (64 hexadecimal digits); otherwise master.key in the data directory is made",
        env="WORKSPACE_SECRETS_MASTER_KEY",
        secret=True,
    )
    web_search: str = _setting("ddgs", "Search back end", choices=("ddgs", "searxng", "brave", "tavily"))
    web_search_url: str | None = _setting(None, "Base URL of the search back end (needed for searxng)")
    web_search_key: str | None = _setting(None, "API key of the search back end (brave, tavily)", secret=True)
    fetch_allow: tuple[str, ...] = _setting(
        (),
        "Private hosts or networks that fetching may reach (comma-separated); everything private is refused otherwise",
    )
    github_url: str = _setting("https://api.github.com", "Base URL of the GitHub API (GitHub Enterprise has its own)")
    github_token: str | None = _setting(None, "Token for the GitHub API", secret=True)
    gitlab_url: str = _setting("https://gitlab.com", "Base URL of GitLab")
    gitlab_token: str | None = _setting(None, "Token for GitLab", secret=True)
    repository_poll_seconds: int = _setting(
        900, "How long after its last sync a repository that was added by URL is synced again without being asked"
    )
    repository_paths: tuple[str, ...] = _setting(
        (),
        "Directories on the server whose repositories may be added over the network (comma-separated); "
        "`holdfast repos add` on this machine may name any",
    )
    server_paths: tuple[str, ...] = _setting(
        (),
        "Directories on the server whose files the command of an MCP server may name when it is registered over the "
        "network (comma-separated); `holdfast catalog add` on this machine may name any",
    )
    server_most: int = _setting(32, "MCP servers that run at once")
    server_idle_seconds: int = _setting(300, "How long an MCP server that nobody calls goes on running")
    server_memory_mb: int = _setting(1024, "Memory of each MCP server, all its processes together, in MiB")
    server_state_mb: int = _setting(
        256, "What an MCP server may keep in its own directory (`/work`), in MiB; one that keeps more is stopped"
    )
    exec_call_seconds: int = _setting(900, "How long one call of an MCP server's tool may take")
    exec_once_seconds: int = _setting(
        600, "How long an equal request of a key gets the invocation that the first one made, instead of a second run"
    )
    exec_at_once: int = _setting(64, "Calls of MCP servers' tools that run at once in each process")
    approval_seconds: int = _setting(3600, "How long a call waits for a person's decision before it expires")
    runtime: str = _setting(
        "process",
        "Where agents, MCP servers and proofs run: in sandboxes of this machine, or as pods",
        choices=("process", "kubernetes"),
    )
    kubernetes_config: str | None = _setting(
        None, "Kubeconfig of the cluster for pods; without it the one that Holdfast runs in"
    )
    kubernetes_namespace: str = _setting(
        "holdfast", "Namespace of pods, or what the names of workspaces' namespaces begin with"
    )
    kubernetes_namespaces: str = _setting(
        "workspace",
        "Whether each workspace has a namespace of its own, or all share the one of that name",
        choices=("workspace", "one"),
    )
    kubernetes_image: str = _setting("holdfast-session", "Image of sidecars and agents")
    kubernetes_server_image: str = _setting("mcp-runner", "Image that MCP servers run in which are commands")
    kubernetes_pull: str = _setting(
        "IfNotPresent", "When nodes fetch images", choices=("IfNotPresent", "Always", "Never")
    )
    kubernetes_pull_secret: str | None = _setting(None, "Name of the pull secret for these images, in each namespace")
    secrets_store: str = _setting(
        "database",
        "Where values of secrets are kept: sealed in the database, as Secrets of the cluster, or in both while moving",
        choices=("database", "both", "kubernetes"),
    )
    agents_at_once: int = _setting(32, "Sessions of agents that run at once in each process")
    agent_quiet_seconds: int = _setting(900, "How long an agent may give no sign of life before its session is ended")
    agent_spawn_depth: int = _setting(3, "How deep sessions may start other sessions")
    agent_spawn_most: int = _setting(20, "Sessions in one tree of sessions that started each other, in all")
    preview_command: str | None = _setting(
        None,
        "Program that deploys a preview for agents, given the repository, the branch and the commit; it prints the "
        "address",
    )
    preview_webhook: str | None = _setting(
        None, "Address that is told to deploy a preview and answers {url}, where there is no command", secret=True
    )
    preview_seconds: int = _setting(600, "How long deploying a preview may take")
    max_chat_bytes: int = _setting(32 * 1024 * 1024, "Largest request to a chat endpoint, images included")
    research_calls_per_minute: int = _setting(45, "Research tool calls a minute that chats of one project may make")
    max_tool_rounds: int = _setting(20, "Rounds of tool calls that one chat request may ask for")
    chat_requests_per_minute: int = _setting(6000, "Requests a minute for each key to chat endpoints")
    mcp_enabled: bool = _setting(True, "Serve the MCP endpoint", env="XEROTIER_MCP_ENABLED")
    mcp_session_ttl_seconds: int = _setting(
        600, "How long an idle MCP session lasts", env="XEROTIER_MCP_SESSION_TTL_SECONDS"
    )
    mcp_transport: str = _setting(
        "streamable", "MCP transport", env="XEROTIER_MCP_TRANSPORT", choices=("streamable", "legacy")
    )
    mcp_max_sessions: int = _setting(20_000, "MCP sessions kept at once over all keys")
    mcp_max_sessions_each: int = _setting(2_000, "MCP sessions that one key or person may keep of them")
    mcp_calls_per_minute: int = _setting(6000, "MCP tool calls a minute for each key")
    mcp_rate_limit_per_minute: int = _setting(
        60, "Calls of repository tools a minute for each key at /api/mcp", env="MCP_RATE_LIMIT_PER_MINUTE"
    )
    weekly_token_limit: int = _setting(
        500_000,
        "Tokens that each person may spend in a week on questions to repositories; a week begins on Monday, 00:00 UTC",
        env="WEEKLY_TOKEN_LIMIT",
    )

    def url_at(self, port: int) -> str:
        """Where clients reach a server that listens on this port, as far as settings tell."""
        host = self.host if self.host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 – compared, not bound
        return (self.public_url or f"http://{f'[{host}]' if ':' in host else host}:{port}").rstrip("/")

    @property
    def expected_url(self) -> str:
        """Where clients reach the server when it listens where it is told to."""
        return self.url_at(self.port)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One row of the table, for people."""

    name: str
    env: str
    default: str
    help: str
    secret: bool


def rows() -> list[SettingRow]:
    """The table, in order."""
    found = []
    for each in fields(Settings):
        default = "" if each.default in (None, (), MISSING) else str(each.default)
        if isinstance(each.default, bool):
            default = "on" if each.default else "off"
        help = each.metadata["help"]
        if each.metadata["choices"]:
            help += f" ({', '.join(each.metadata['choices'])})"
        found.append(SettingRow(each.name, _env_name(each), default, help, each.metadata["secret"]))
    return found


def load(environ: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """Settings from the environment over the file that HOLDFAST_CONFIG names; overrides win (command line)."""
    by_env = {_env_name(each): each for each in fields(Settings)}
    values: dict[str, Any] = {}
    config = environ.get("HOLDFAST_CONFIG")
    if config:
        values.update(_from_file(Path(config).expanduser()))
    for name, text in environ.items():
        if name in by_env:
            values[by_env[name].name] = _parse(by_env[name], text, name)
        elif name.startswith("HOLDFAST_") and name != "HOLDFAST_CONFIG":
            raise SettingsError(f"No setting {name} exists; `holdfast settings` lists them. Unset it or mend its name.")
    values.update({name: value for name, value in overrides.items() if value is not None})
    loaded = Settings(**values)
    return _checked(loaded)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingsError(
            f"The settings file {path} cannot be read ({problem}); mend it or unset HOLDFAST_CONFIG."
        ) from None
    by_name = {each.name: each for each in fields(Settings)}
    values = {}
    for name, value in content.items():
        if name not in by_name:
            raise SettingsError(f"No setting {name!r} exists (in {path}); `holdfast settings` lists them.")
        text = ",".join(str(item) for item in value) if isinstance(value, list) else str(value)
        values[name] = _parse(by_name[name], text, f"{name} in {path}")
    return values


def _env_name(each: Any) -> str:
    return each.metadata["env"] or f"HOLDFAST_{each.name.upper()}"


def _parse(each: Any, text: str, where: str) -> Any:
    kind = get_type_hints(Settings)[each.name]
    text = text.strip()
    choices = each.metadata["choices"]
    if choices and text not in choices:
        raise _malformed(where, f"one of {', '.join(choices)}")
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is Path:
        return Path(text)
    if kind in (bool, bool | None):
        if text.lower() not in _TRUE | _FALSE:
            raise _malformed(where, "on or off")
        return text.lower() in _TRUE
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise _malformed(where, "a whole number" if kind is int else "a number") from None
    return text or None


def _checked(settings: Settings) -> Settings:
    if not 0 <= settings.port <= 65535:
        raise _malformed("HOLDFAST_PORT", "a port from 0 to 65535")
    if not 1 <= settings.workers <= 64:
        raise _malformed("HOLDFAST_WORKERS", "a number from 1 to 64")
    for each in fields(Settings):
        value = getattr(settings, each.name)
        if (
            each.name != "port"
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
            and not 0 < value < 2**53
        ):
            raise _malformed(_env_name(each), "a number above 0")
    if settings.database_url is not None and not settings.database_url.startswith(("postgresql://", "postgres://")):
        raise _malformed("HOLDFAST_DATABASE_URL", "a postgresql:// URL")
    master_key = settings.secrets_master_key
    if master_key is not None and re.fullmatch(r"[0-9a-fA-F]{64}", master_key) is None:
        raise _malformed("WORKSPACE_SECRETS_MASTER_KEY", "64 hexadecimal digits, such as `openssl rand -hex 32` makes")
    if settings.jwt_secret is not None and len(settings.jwt_secret) < 32:
        raise _malformed("HOLDFAST_JWT_SECRET", "at least 32 characters")
    if (settings.jwt_issuer or settings.jwt_jwks_url) and not settings.jwt_audience:
        wanted = "set together with HOLDFAST_JWT_ISSUER and HOLDFAST_JWT_JWKS_URL: what the tokens for this server name"
        raise _malformed("HOLDFAST_JWT_AUDIENCE", wanted + " as `aud` (Supabase: authenticated)")
    if "|" in (settings.jwt_issuer or "") + (settings.oidc_issuer or ""):
        raise _malformed("HOLDFAST_JWT_ISSUER", "an issuer without '|', as HOLDFAST_OIDC_ISSUER")
    if settings.embedder == "upstream" and not (settings.embeddings_url and settings.embeddings_model):
        raise _malformed(
            "HOLDFAST_EMBEDDER", "'upstream' only together with HOLDFAST_EMBEDDINGS_URL and HOLDFAST_EMBEDDINGS_MODEL"
        )
    if settings.web_search in ("brave", "tavily") and not settings.web_search_key:
        raise _malformed("HOLDFAST_WEB_SEARCH", f"{settings.web_search!r} only together with HOLDFAST_WEB_SEARCH_KEY")
    if settings.web_search == "searxng" and not settings.web_search_url:
        raise _malformed("HOLDFAST_WEB_SEARCH", "'searxng' only together with HOLDFAST_WEB_SEARCH_URL")
    return settings


def _malformed(where: str, wanted: str) -> SettingsError:
    return SettingsError(f"The setting {where} must be {wanted}.", fields=[FieldError(where, f"must be {wanted}")])
