"""Owns `/w/{ws}/environments`: the prepared environments that repositories and cases declare for their proofs."""

from holdfast.core.access import ADMINISTER, READ
from holdfast.features.cases.proofs.service import ProofService
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_PATH = "/w/{ws}/environments"
pages = Pages()


@pages.get(_PATH, READ)
async def index(view: PageView, proofs: ProofService) -> Reply:
    """What is declared, what was found, and what is wrong with it."""
    return view.page(
        "cases/environments.html",
        "Prepared environments",
        environments=await proofs.environments(view.principal, view.ws.id),
        may_change=view.administers and view.may(ADMINISTER),
        url=_url(view),
        cases_url=f"/w/{view.ws.slug}/cases",
    )


@pages.post(_PATH + "/{name}/look", ADMINISTER)
async def look(view: PageView, proofs: ProofService) -> Reply:
    """Look again, after it was prepared anew."""
    await proofs.look(view.principal, view.ws.id, view.path["name"])
    return view.go(_url(view), "Looked at again.")


@pages.post(_PATH + "/{name}/repositories", ADMINISTER)
async def declare(view: PageView, proofs: ProofService) -> Reply:
    """Set whose proofs see it where nothing else is named."""
    slugs = [each for each in view.given("repositories").replace(",", " ").split() if each]
    await proofs.declare(view.principal, view.ws.id, view.path["name"], slugs)
    return view.go(_url(view), "Saved.")


@pages.post(_PATH + "/{name}/remove", ADMINISTER)
async def remove(view: PageView, proofs: ProofService) -> Reply:
    """Forget it; the directory stays."""
    await proofs.unregister(view.principal, view.ws.id, view.path["name"])
    return view.go(_url(view), "Removed.")


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/environments"
