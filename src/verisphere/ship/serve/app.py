"""The service: what it offers over HTTP, described for programs by OpenAPI and for people by its page."""

import asyncio
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, File, Form, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser

from verisphere import __version__
from verisphere.decide import TooFewComparisonsError
from verisphere.ship.export import CARD
from verisphere.ship.notes import sentence
from verisphere.ship.serve.desk import Card, Change, Decision, Desk, Photograph, Refusal
from verisphere.ship.serve.guard import INTERNAL, Guard, Keys, Refused, Role
from verisphere.ship.serve.metrics import Metrics

Sent = Annotated[UploadFile, File(description="a photograph: JPEG, PNG, WebP, HEIC ...")]
_TEXT: dict[str, Any] = {"pattern": r"^[^\x00]*$"}  # PostgreSQL keeps no text with a NUL
Person = Annotated[str, Form(description="name of a person", max_length=200, examples=["Ann"], **_TEXT)]
_READ, _PAGE = ("verify", "claim", "identify", "card"), {"": "html", "page.js": "javascript", "page.css": "css"}
_ROLES: dict[str, Role | None] = {
    **dict.fromkeys([f"/v1/{name}" for name in _READ], "read"),
    **{"/v1/enrol": "enrol", "/v1/remove": "admin", "/metrics": "read", "/health": None, "/openapi.json": None},
    **dict.fromkeys([f"/{name}" for name in _PAGE]),
}
_ABOUT = (
    "Whether two photographs show one person, who of a gallery is on a photograph, and changes of the gallery, under a "
    "promise about strangers. Photographs are sent as multipart/form-data and are not stored, but for the image of a "
    "face that is enrolled with `keep_image`."
)
_REFUSALS = 401, 403, 404, 409, 413, 422, 429, 503
_UNKNOWN = 404, "unknown_person", "nobody of this name is enrolled"
_NAME = 409, "name", "this is no name of a person, or another spelling of a name that is enrolled"
#: What a caller gets instead of an error of the gallery, which may name its folder or somebody else, by words of it.
_INSTEAD = {
    " is not enrolled": _UNKNOWN,
    " has expired on ": _UNKNOWN,
    " is no name of a person": _NAME,
    " but for case, ": _NAME,
    " on drawn faces, so ": (409, "drawn", "the gallery has drawn strangers now, and the service does not accept that"),
    ": not made as ": (409, "other_model", "the gallery was made by another model, or with another detector"),
    "nobody is enrolled, ": (409, "nobody", "nobody is enrolled, so there is nobody to find"),
    " to another model meanwhile": (503, "model", "the gallery is another model's now: start the service with that"),
    "others have been writing": (503, "busy", "others are writing to the gallery; try again later"),
    "another process has been writing": (503, "busy", "another process is writing to the gallery; try again later"),
}


def make_app(desk: Desk, keys: Keys | None = None, counts: Path | None = None) -> Guard:
    """The service as an ASGI application; without keys everybody on this machine may do everything.

    Processes that are given one file of counts have their limits and metrics together.
    """
    metrics = Metrics(counts)
    MultiPartParser.spool_max_size = desk.limits.most_body + 1  # never reached: no photograph is written to a disk
    app = FastAPI(title="verisphere", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    guard = Guard(app, _ROLES, keys, desk.limits, metrics)
    desk.counted = metrics.took
    asked: dict[str, Any] = {
        "responses": {status: {"model": Refusal} for status in _REFUSALS},
        "dependencies": [Depends(HTTPBearer(auto_error=False, description="a key of the service's file of keys"))],
    }

    async def sent(*uploads: UploadFile) -> list[Photograph]:
        return await asyncio.gather(*[desk.photograph(await upload.read()) for upload in uploads])

    def counted(path: str, decision: Decision) -> Decision:
        metrics.add(f'decisions_total{{path="{path}",verdict="{decision.verdict}"}}')
        return decision

    @app.post("/v1/verify", summary="Do two photographs show one person?", **asked)
    async def verify(left: Sent, right: Sent) -> Decision:
        return counted("/v1/verify", await desk.ask(desk.compare, *await sent(left, right)))

    @app.post("/v1/claim", summary="Does a photograph show this person of the gallery?", **asked)
    async def claim(photograph: Sent, person: Person) -> Decision:
        return counted("/v1/claim", await desk.ask(desk.claim, *await sent(photograph), person))

    @app.post("/v1/identify", summary="Who of the gallery is on a photograph?", **asked)
    async def identify(photograph: Sent, request: Request) -> Decision:
        (sent_one,) = await sent(photograph)
        return counted("/v1/identify", await desk.identify((sent_one, request.state.holder.may("enrol"))))

    @app.post("/v1/enrol", summary="Enrol a photograph of a person", **asked)
    async def enrol(
        photograph: Sent,
        person: Person,
        request: Request,
        consent: Annotated[str, Form(description="what the person has agreed to", max_length=1000, **_TEXT)] = "",
        expires: Annotated[date | None, Form(description="the day from which the person is not found")] = None,
        keep_image: Annotated[bool, Form(description="also keep the image of the face")] = False,
    ) -> Change:
        if expires is not None and expires <= date.today():
            raise Refused(422, "invalid", "expires: the day must be after today; else the person is never found")
        (new,) = await sent(photograph)
        if reasons := (await desk.ask(desk.gate, [new.face], new.row))[0]:
            return Change(verdict="refused", reasons=[sentence(why) for why in reasons])
        request.state.deadline.reschedule(None)  # what has begun to be written is answered
        return await desk.ask(desk.enrol, new, person, consent, expires, keep_image, request.state.holder.name)

    @app.post("/v1/remove", summary="Remove a person with all photographs", **asked)
    async def remove(person: Person, request: Request) -> Change:
        request.state.deadline.reschedule(None)
        gone = await desk.ask(desk.gallery.remove, [person], request.state.holder.name)
        return Change(verdict="removed", photographs=gone)

    @app.get("/v1/card", summary="What is decided by, and for whom", **asked)
    async def card(request: Request) -> Card:
        await desk.ask(desk.gallery.promise.check_model)
        info, file = await desk.ask(desk.info), desk.model.folder / CARD
        return Card(
            model=desk.model.name,
            model_card=file.read_text("utf-8") if file.is_file() else "",
            people=info.people,
            gallery=" ".join(info.promised()),
            pair=str(desk.pair or ""),
            role=request.state.holder.role,
            limits=vars(desk.limits),
        )

    @app.get("/metrics", summary="Figures for Prometheus", response_class=Response, **asked)
    async def figures() -> Response:
        info = await desk.ask(desk.gallery.info)
        return Response(metrics.text({"requests_now": metrics.now, "people": info.people}), media_type="text/plain")

    @app.get("/health", summary="Is the gallery there, and of the model that embeds?")
    async def health() -> dict[str, str]:
        await desk.ask(desk.gallery.promise.check_model)
        return {"status": "ok"}

    def page(name: str, kind: str) -> None:
        parts = [files("verisphere.report")] * (kind == "css") + [files("verisphere.ship.serve")]
        content = "".join(part.joinpath(name or "page.html").read_text("utf-8") for part in parts)
        app.get(f"/{name}", include_in_schema=False)(lambda: Response(content, media_type=f"text/{kind}"))

    for name, kind in _PAGE.items():
        page(name, kind)

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, TooFewComparisonsError):
            error = Refused(409, "few_strangers", str(error).removeprefix(f"{desk.gallery.path}: "))
        elif isinstance(error, ValueError):
            if not (instead := [what for words, what in _INSTEAD.items() if words in str(error)]):
                raise error
            error = Refused(*instead[0])
        elif isinstance(error, RequestValidationError):
            first = error.errors()[0]
            error = Refused(422, "invalid", f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}")
        elif isinstance(error, HTTPException):
            error = Refused(error.status_code, "http", str(error.detail))
        return (error if isinstance(error, Refused) else Refused(*INTERNAL)).answer

    for kind_of in (Exception, Refused, ValueError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind_of, refused)
    return guard
