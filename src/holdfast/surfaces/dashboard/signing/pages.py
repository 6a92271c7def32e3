"""Owns the pages' looks: one frame, no scripts, nothing loaded from elsewhere."""

from html import escape

from holdfast.surfaces.dashboard.shell.words import catalogue

_STYLE = """
:root{color-scheme:light dark;--ink:#1b2126;--paper:#fbfaf8;--card:#fff;--soft:#5b646b;--line:#8b9197;
--accent:#0f6b5c;--on-accent:#fff;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e1;--paper:#16191c;--card:#1d2125;--soft:#a2a9ae;--line:#6d757c;
--accent:#4cc2ac;--on-accent:#08211c;--bad:#ff9a92}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0}
main{max-width:24rem;margin:12vh auto 3rem;padding:0 1.2rem;overflow-wrap:anywhere}
.brand{display:flex;gap:.6rem;align-items:center;font-weight:700;margin:0 0 1.4rem}.brand img{width:1.7rem}
h1{font-size:1.4rem;line-height:1.3;margin:0}form{display:grid;gap:.9rem;margin:1.2rem 0}
label{display:grid;gap:.25rem;font-weight:600}a{color:var(--accent)}
input{font:inherit;padding:.5rem .6rem;border:1px solid var(--line);border-radius:.5rem;width:100%;
background:var(--card);color:inherit}
button,.button{font:inherit;font-weight:600;padding:.6rem 1rem;border:0;border-radius:.5rem;background:var(--accent);
color:var(--on-accent);cursor:pointer;text-decoration:none;text-align:center;display:block}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
code{font:14px ui-monospace,monospace}.error{color:var(--bad)}.quiet{color:var(--soft)}
"""

CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)

# A cleat with a rope made fast to it.
ICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0f6b5c"/>'
    b'<path d="M6 11h20M11 11v12M21 11v12M8 19c5-6 11 6 16 0" stroke="#fff" stroke-width="3" fill="none" '
    b'stroke-linecap="round"/></svg>'
)


def page(title: str, body: str, language: str) -> bytes:
    """A whole page around trusted markup; values in it are escaped by whoever made it."""
    return (
        f'<!doctype html><html lang="{language}"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)} · Holdfast</title><style>{_STYLE}</style>"
        f'<main><p class="brand"><img src="/favicon.ico" alt="">Holdfast</p>{body}</main></html>'
    ).encode()


def sign_in_page(language: str, *, link: str | None = None, oidc: bool = False, error: str | None = None) -> bytes:
    """The form; a one-time link shows one button, so that link previews don't use it up."""
    text = catalogue(language).gettext
    parts = [f"<h1>{text('Sign in to Holdfast')}</h1>"]
    if error:
        parts.append(f'<p class="error" role="alert">{escape(error)}</p>')
    if link is not None:
        parts.append(
            '<form method="post" action="/sign-in">'
            f'<input type="hidden" name="link" value="{escape(link)}"><button>{text("Continue")}</button></form>'
            f'<p class="quiet">{text("This link works once.")}</p>'
        )
    else:
        parts.append(
            f'<form method="post" action="/sign-in"><label>{text("E-mail")}'
            '<input name="email" type="email" autocomplete="username" required autofocus></label>'
            f"<label>{text('Password')}"
            '<input name="password" type="password" autocomplete="current-password" required></label>'
            f"<button>{text('Sign in')}</button></form>"
        )
        if oidc:
            label = text("Sign in with your organization")
            parts.append(f'<p><a class="button" href="/sign-in/oidc">{label}</a></p>')
        told = text("No password yet? Ask an admin for a link:")
        parts.append(f'<p class="quiet">{told} <code>holdfast users link</code></p>')
    return page(text("Sign in"), "".join(parts), language)
