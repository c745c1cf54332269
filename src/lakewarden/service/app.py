"""The web application: every router of service/api and service/pages, behind one edge.

A file in one of these two folders that has a `router` is a part of the service; nothing else names it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from anyio import to_thread
from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from lakewarden import __version__
from lakewarden.service.edge import Edge
from lakewarden.service.pages.error_page import error_page
from lakewarden.service.problems import answer_problems
from lakewarden.service.service import Service
from lakewarden.service.webhooks import Deliverer, delivering

STATIC = Path(__file__).parent / "static"
# Answers that are worked out at the same time. More of them would only take Python's one core from each other, and from
# the thread that reads and sends: with forty, an answer took three times the work that it takes alone.
THREADS = 10
FOLDERS = ("api", "pages")


def create_app(service: Service) -> FastAPI:
    """The application that serves one service."""
    app = FastAPI(
        title="Lakewarden",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_while_serving,
    )
    app.state.service = service
    app.state.error_page = error_page
    answer_problems(app)
    for router in routers():
        # Not included, which would ask each router of each request in turn whether it knows the path.
        app.router.routes.extend(router.routes)
    if STATIC.is_dir():
        app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(Edge, section=service.section, new_id=service.new_id)
    return app


@asynccontextmanager
async def _while_serving(app: FastAPI) -> AsyncIterator[None]:
    """What goes on beside the answers."""
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    service: Service = app.state.service
    if not (hooks := service.settings.webhooks):
        yield
        return
    with delivering(Deliverer(service.ledger.outbox, hooks, service.clock)):
        yield


def routers() -> Iterator[APIRouter]:
    """Every router there is, by folder and name."""
    for folder in FOLDERS:
        package = import_module(f"{__package__}.{folder}")
        for found in sorted(iter_modules(package.__path__), key=lambda module: module.name):
            module = import_module(f"{package.__name__}.{found.name}")
            if isinstance(router := getattr(module, "router", None), APIRouter):
                yield router
