"""Owns `/api/docs`: the OpenAPI document as a page, without scripts from elsewhere."""

from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.asgi import send_bytes

_PAGE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Holdfast API</title>
<style>body{font:15px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem}h2{margin-top:2rem}
details{border-top:1px solid #8884;padding:.4rem 0}summary{cursor:pointer}code,pre{font:13px ui-monospace,monospace}
pre{overflow:auto;background:#8881;padding:.7rem;border-radius:.4rem}b{display:inline-block;min-width:4.5rem}</style>
<h1>Holdfast API</h1><p>Generated from <a href="/api/openapi.json">/api/openapi.json</a>. Send
<code>Authorization: Bearer KEY</code>.</p><main id="operations">Loading...</main>
<script src="/api/docs.js"></script></html>"""

_SCRIPT = b"""fetch('/api/openapi.json').then(r=>r.json()).then(spec=>{
const main=document.getElementById('operations');main.textContent='';const tags={};
const make=(name,text)=>{const e=document.createElement(name);if(text)e.textContent=text;return e};
const follow=s=>s&&s.$ref?spec.components.schemas[s.$ref.split('/').pop()]:s;
for(const [path,methods] of Object.entries(spec.paths))for(const [method,op] of Object.entries(methods)){
if(!tags[op.tags[0]]){tags[op.tags[0]]=make('section');tags[op.tags[0]].append(make('h2',op.tags[0]));main.append(tags[op.tags[0]])}
const d=make('details'),s=make('summary');s.append(make('b',method.toUpperCase()),make('code',path),' '+op.summary);
d.append(s,make('p',op.description));const shown={parameters:op.parameters};
if(op.requestBody)shown.body=Object.values(op.requestBody.content).map(c=>follow(c.schema));
shown.answers=Object.fromEntries(Object.entries(op.responses).filter(([c])=>c<300).map(([c,r])=>[c,r.content?Object.values(r.content).map(x=>follow(x.schema)):r.description]));
d.append(make('pre',JSON.stringify(shown,null,1)));tags[op.tags[0]].append(d)}});"""


async def docs_page(scope: Scope, receive: Receive, send: Send) -> None:
    """The page; it reads the document itself."""
    await send_bytes(
        send,
        200,
        _PAGE,
        content_type=b"text/html; charset=utf-8",
        headers={"Content-Security-Policy": "default-src 'self'; style-src 'unsafe-inline'"},
    )


async def docs_script(scope: Scope, receive: Receive, send: Send) -> None:
    """The page's script."""
    await send_bytes(send, 200, _SCRIPT, content_type=b"text/javascript; charset=utf-8")
