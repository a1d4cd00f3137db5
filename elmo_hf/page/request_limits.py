"""Limits of what a visitor may send to the page: no uploads, and small requests only."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

# More than the longest text that the page accepts, in the encoding that takes the most room.
MAX_BODY_BYTES = 2**17

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class RequestLimits:
    """ASGI middleware that refuses uploads (404) and long bodies (413) before they are read."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]):
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send):
        """Serves a request within the limits."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"].rstrip("/").endswith("/upload"):
            await refuse(send, 404, "This page takes no files.")
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            await refuse(send, 413, f"The request is too long. Expected at most {MAX_BODY_BYTES:,} bytes.")
            return
        received, answered = 0, False

        async def limited_receive() -> Message:
            nonlocal received, answered
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:  # a body without a length, sent in pieces
                if not answered:
                    answered = True
                    await refuse(send, 413, f"The request is too long. Expected at most {MAX_BODY_BYTES:,} bytes.")
                return {"type": "http.disconnect"}
            return message

        async def send_once(message: Message):
            if not answered:
                await send(message)

        await self.app(scope, limited_receive, send_once)


async def refuse(send: Send, status: int, text: str):
    """Answers a request with an error."""
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    # The rest of the body is not read, so the connection cannot be used again.
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
