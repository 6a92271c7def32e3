"""Owns the pages' looks: one frame, no scripts, nothing loaded from elsewhere."""

from html import escape

_STYLE = """
:root{color-scheme:light dark;--ink:#1b2126;--paper:#fbfaf8;--soft:#8882;--accent:#0f6b5c}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e1;--paper:#16191c;--accent:#4cc2ac}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0}
main{max-width:52rem;margin:3rem auto;padding:0 1.2rem}h1{font-size:1.6rem}h2{font-size:1.1rem;margin-top:2rem}
form{display:grid;gap:.8rem;max-width:22rem;margin:1.2rem 0}label{display:grid;gap:.25rem}
input,select{font:inherit;padding:.5rem;border:1px solid var(--soft);border-radius:.4rem}
input,select{background:transparent;color:inherit}
button,.button{font:inherit;padding:.55rem 1rem;border:0;border-radius:.4rem;background:var(--accent);color:#fff;
cursor:pointer;text-decoration:none;text-align:center}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--soft)}
code,pre{font:14px ui-monospace,monospace}
code,td{overflow-wrap:anywhere}pre{background:var(--soft);padding:.8rem;border-radius:.4rem;overflow:auto}
.error{color:#b3261e}.quiet{opacity:.7}header{display:flex;justify-content:space-between;align-items:center}
"""

CSP = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

# A cleat with a rope made fast to it.
ICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0f6b5c"/>'
    b'<path d="M6 11h20M11 11v12M21 11v12M8 19c5-6 11 6 16 0" stroke="#fff" stroke-width="3" fill="none" '
    b'stroke-linecap="round"/></svg>'
)


def page(title: str, body: str) -> bytes:
    """A whole page around trusted markup; values in it are escaped by whoever made it."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)} · Holdfast</title><style>{_STYLE}</style><main>{body}</main></html>"
    ).encode()


def sign_in_page(*, link: str | None = None, oidc: bool = False, error: str | None = None) -> bytes:
    """The form; a one-time link shows one button, so that link previews don't use it up."""
    parts = ["<h1>Sign in to Holdfast</h1>"]
    if error:
        parts.append(f'<p class="error" role="alert">{escape(error)}</p>')
    if link is not None:
        parts.append(
            '<form method="post" action="/sign-in">'
            f'<input type="hidden" name="link" value="{escape(link)}"><button>Continue</button></form>'
            '<p class="quiet">This link works once.</p>'
        )
    else:
        parts.append(
            '<form method="post" action="/sign-in"><label>E-mail'
            '<input name="email" type="email" autocomplete="username" required autofocus></label>'
            '<label>Password<input name="password" type="password" autocomplete="current-password" required></label>'
            "<button>Sign in</button></form>"
        )
        if oidc:
            parts.append('<p><a class="button" href="/sign-in/oidc">Sign in with your organization</a></p>')
        parts.append('<p class="quiet">No password yet? Ask an admin for a link: <code>holdfast users link</code>.</p>')
    return page("Sign in", "".join(parts))
