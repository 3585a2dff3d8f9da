"""What every request passes before it is answered: its key, its limits, and the form in which it may be refused.

A file of keys has the SHA-256 of each key, and its role.
"""

import asyncio
import hashlib
import hmac
import logging
import re
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown
from verisphere.ship.serve.metrics import Metrics

log = logging.getLogger(__name__)

_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Permissions-Policy": "camera=(self), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


#: Each may do what those before it may: compare and find; enrol, and see who is near; remove.
Role = Literal["read", "enrol", "admin"]


@dataclass(frozen=True)
class Key:
    """The holder of a key, whose name stands in the audit log."""

    name: str
    role: Role
    sha256: str

    def may(self, role: Role) -> bool:
        """Whether the holder has this role, or one that includes it."""
        roles = get_args(Role)
        return bool(roles.index(self.role) >= roles.index(role))


@dataclass(frozen=True)
class Keys:
    """The content of a file of keys."""

    format: Literal["verisphere keys 1"]
    keys: tuple[Key, ...]

    def holder(self, key: str) -> Key | None:
        """The holder of a key; every entry is compared, in constant time."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        same = [entry for entry in self.keys if hmac.compare_digest(entry.sha256, digest)]
        return same[0] if same else None


def read_keys(path: Path) -> Keys:
    """Read a file of keys; ValueError for another format, no key, a digest that is none, or a name or digest twice."""
    content = read_json_file(path)
    with errors_naming(path):
        keys = from_json(Keys, content)
        if not keys.keys:
            raise ValueError("keys must have a key, and is empty")
        for entry in keys.keys:
            if not re.fullmatch("[0-9a-f]{64}", entry.sha256):
                raise ValueError(f"sha256 of {shown(entry.name)} must be 64 digits 0 to 9 or a to f")
        if min(len({entry.name for entry in keys.keys}), len({entry.sha256 for entry in keys.keys})) < len(keys.keys):
            raise ValueError("two keys have the same name or sha256")
    return keys


@dataclass(frozen=True)
class Limits:
    """The most that a request may ask for; see the help of `verisphere serve`."""

    most_bytes: int = 8 << 20
    most_pixels: int = 25_000_000
    rate: float = 20.0
    seconds: float = 10.0
    concurrent: int = 64
    batch: int = 32

    def __post_init__(self) -> None:
        if wrong := [name for name, value in vars(self).items() if not value > 0]:
            raise ValueError(f"--{wrong[0].replace('_', '-')} must be above 0, got {getattr(self, wrong[0])}")

    @property
    def most_body(self) -> int:
        """Bytes of a request: two photographs, and what stands around them."""
        return 2 * self.most_bytes + (1 << 16)


class Refused(Exception):
    """A request that is not answered: HTTP status, a word for programs, and a sentence for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(status)
        self.answer = JSONResponse({"error": {"code": code, "message": message}}, status, headers)


INTERNAL = (500, "internal", "a fault of the service; its log has the place")


class Guard:
    """An application behind keys and limits; a path that `roles` does not have is not found.

    Without keys everybody on this machine may do everything. A role of None asks for no key. The application finds the
    `holder` of the key and the `deadline` in `scope["state"]`.
    """

    def __init__(
        self, app: ASGIApp, roles: Mapping[str, Role | None], keys: Keys | None, limits: Limits, metrics: Metrics
    ) -> None:
        self.app, self.roles, self.keys, self.limits, self.metrics = app, roles, keys, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        self.metrics.began(1)
        try:
            return await self._answer(scope, receive, send)
        finally:
            self.metrics.began(-1)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, path, status, who = time.perf_counter(), scope["path"], 0, "-"

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_SAFE)
            await send(message)

        refused = None
        try:
            async with asyncio.timeout(self.limits.seconds) as deadline:
                holder = self._admitted(path, Headers(scope=scope))
                who = holder.name
                body = [{"type": "http.request", "body": await self._body(Headers(scope=scope), receive)}]

                async def receiving() -> Message:
                    return body.pop() if body else await receive()

                scope["state"] = {"holder": holder, "deadline": deadline}
                await self.app(scope, receiving, sending)
        except Refused as error:
            refused = error
        except TimeoutError:
            refused = Refused(503, "timeout", "the answer took too long; nothing was changed; try again later")
        except Exception as error:  # whose text may hold a name or a path, so that neither caller nor log gets it
            last = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s in %s, line %s", type(error).__name__, Path(last.filename).name, last.lineno)
            refused = Refused(*INTERNAL)
        if refused and not status:
            await refused.answer(scope, receive, sending)
        seconds, path = time.perf_counter() - began, path if path in self.roles else "other"
        self.metrics.add(f'requests_total{{path="{path}",status="{status}"}}')
        self.metrics.took("request_seconds", seconds)
        log.info("%s %d %.0f ms %s", path, status, 1000 * seconds, who)

    def _admitted(self, path: str, headers: Headers) -> Key:
        """The holder of the key, if the request may be answered."""
        if path not in self.roles:
            raise Refused(404, "not_found", "there is nothing here; /openapi.json lists what there is")
        if self.metrics.now > self.limits.concurrent:
            raise Refused(503, "busy", "too many requests are being answered; try again later")
        role, (kind, _, key) = self.roles[path], headers.get("authorization", "").partition(" ")
        holder: Key | None = Key("loopback", "admin", "")
        if self.keys is not None:
            holder = self.keys.holder(key.strip()) if kind.lower() == "bearer" else None
        elif not _from_here(headers):
            raise Refused(403, "forbidden", "without keys only this machine is answered, and no page of another site")
        if role is None:
            return Key("-", "read", "")
        if holder is None:
            raise Refused(401, "unauthorized", "send a key of this service: Authorization: Bearer KEY")
        if not holder.may(role):
            raise Refused(403, "forbidden", f"this key has the role {holder.role}, and this needs {role}")
        if not self.metrics.passes(holder.name, self.limits.rate, max(10 * self.limits.rate, 1.0)):
            raise Refused(429, "rate", f"more than {self.limits.rate:g} requests a second by this key; wait a second")
        return holder

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        body, more, stated = bytearray(), True, headers.get("content-length", "")
        size = int(stated[:20]) if stated.isdecimal() else 0
        while more or size > self.limits.most_body:
            if max(len(body), size) > self.limits.most_body:
                raise Refused(413, "too_large", f"a request has at most {self.limits.most_body:,} bytes")
            message = await receive()
            body += message.get("body", b"")
            size, more = len(body), message.get("more_body", False)
        return bytes(body)


def _from_here(headers: Headers) -> bool:
    """Whether a request is for this machine by name, and no page of another site has sent it."""
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    here = f"http://{host}"
    return name in ("localhost", "127.0.0.1", "[::1]") and headers.get("origin", here) == here
