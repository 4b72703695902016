"""Errors of servers, explained in sentences, and which of them to retry."""

from __future__ import annotations

import os
import ssl
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import openai

from engine.errors import MALFORMED, ForetokenError, what_failed
from engine.machine.secrets import SERVER_KEY
from engine.values.address import Address, retry_after_seconds

CONNECT_S = 5.0
"""Timeout of connecting."""
SILENCE_S = 300.0
"""Timeout between chunks: most servers send nothing while they read a long prompt."""
ATTEMPTS = 4
BACKOFF_S = 0.5
"""The first delay; each next one is twice as long."""
MAX_DELAY_S = 30.0
"""A longer ``Retry-After`` is reported as an error."""

RETRYABLE = frozenset({408, 409, 429, 502, 503, 504})
"""Statuses that a retry may cure."""


class ServerError(ForetokenError):
    """A server was not reached, refused, or broke off. ``refused``, ``wait_s``: see ``Failed``."""

    def __init__(self, message: str, *, refused: bool = False, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.refused, self.wait_s = refused, wait_s


class Unbounded(ServerError, openai.OpenAIError):
    """A server sends more than is read. OpenAI's client neither wraps nor retries its own errors."""

    def __init__(self, address: Address, what: str) -> None:
        super().__init__(
            f"{address.place} sent {what}, so reading was stopped. What had arrived of a reply is kept. "
            "Check that this is the address of a model server, and its log."
        )


def retry_delay(error: Exception, attempt: int) -> float | None:
    """Return the seconds to wait after ``attempt`` (from 0); None if a retry would not help.

    Only for errors that came before any of the reply.
    """
    if attempt + 1 >= ATTEMPTS:
        return None
    usual = BACKOFF_S * 2.0**attempt
    if isinstance(error, openai.APIStatusError):
        if error.status_code not in RETRYABLE:
            return None
        asked = retry_after(error.response)
        return usual if asked is None else asked if asked <= MAX_DELAY_S else None
    if isinstance(error, openai.APITimeoutError):
        return None  # it has taken long enough
    return usual if isinstance(error, openai.APIConnectionError) else None


def retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds of ``Retry-After``, if the server sent it."""
    text = response.headers.get("Retry-After")
    return None if text is None else retry_after_seconds(text)


def explain(error: Exception, address: Address, *, key: bool, begun: bool) -> ForetokenError:
    """Return ``error`` explained. ``key``: a key was sent; ``begun``: part of a reply had arrived."""
    match error:
        case ForetokenError():
            return error
        case openai.APIStatusError():
            return _refused(error, address, key)
        case openai.APITimeoutError() | httpx2.TimeoutException():
            return _late(error, address, begun)
        case openai.APIConnectionError() | httpx2.TransportError():
            return _unreached(error, address, begun)
        case openai.APIError():
            return stream_error(address, _message(error))
        case _ if isinstance(error, (*MALFORMED, RecursionError)):
            return protocol_error(address, f"{type(error).__name__}: {error}", begun=begun)
        case _:
            return ServerError(f"{address.place} could not be reached: {what_failed(error)}.")


LARGEST_REPLY = 2**29
"""Maximum bytes of a reply's stream, because an endless one would fill the memory."""
LARGEST_ANSWER = 2**24
"""Maximum bytes of another answer, and of a line of a reply."""

_KEY_GOES = f"on the Models page, with `foretoken models connect --key`, or in {SERVER_KEY}."
_KEPT = "The partial reply is kept; retry to generate it again."


def ended_early(address: Address, reason: str = "") -> ServerError:
    """Return the error for a reply that ends without a finish reason, as after a lost connection."""
    why = f": {reason}" if reason else ""
    return ServerError(f"The connection to {address.place} was lost during the reply{why}. {_KEPT}")


def stream_error(address: Address, said: str) -> ServerError:
    """Return the error for a stream that ends with an error."""
    return ServerError(f"{address.place} ended the reply with an error: {said}. {_KEPT}")


def protocol_error(address: Address, what: str, *, begun: bool = False) -> ServerError:
    """Return the error for an answer that is not of OpenAI's protocol."""
    kept = f" {_KEPT}" if begun else ""
    return ServerError(
        f"{address.api} does not speak OpenAI's protocol ({what[:200]}). Check the "
        "address: give that of the API (often with /v1 at the end), not of a web "
        f"page.{kept}"
    )


def request_loop(address: Address) -> ServerError:
    """Return the error for a server that hands its requests to this process, or is this process."""
    return ServerError(
        f"{address.place} leads back to this Foretoken, so requests would go round "
        "forever. Connect to another server."
    )


def _refused(error: openai.APIStatusError, address: Address, key: bool) -> ServerError:
    status, said = error.status_code, _message(error)
    asked = retry_after(error.response)
    match status:
        case 401:
            what = "rejected the key" if key else "needs a key"
            return ServerError(
                f"{address.place} {what} ({status}: {said}). Set its key {_KEY_GOES}"
            )
        case 403:
            which = "another key" if key else "a key"
            return ServerError(
                f"{address.place} refused access (403: {said}). If it needs {which}, set it "
                f"{_KEY_GOES}"
            )
        case _ if status in range(300, 400):
            there = error.response.headers.get("Location", "elsewhere")
            return ServerError(
                f"{address.place} redirects to {there[:200]} ({status}). Keys are not sent to "
                "another address; if it is right, connect to it."
            )
        case 404:
            return ServerError(
                f"{address.place} did not find what was requested (404: {said}). See its "
                "current models on the Models page, or with `foretoken models connect`."
            )
        case 429 | 503:
            when = "in a while" if asked is None else f"in {max(1, round(asked))} s"
            wait_s = BACKOFF_S * 2.0**ATTEMPTS if asked is None else asked
            busy = "is overloaded" if status == 429 else "is unavailable"
            return ServerError(
                f"{address.place} {busy} ({status}: {said}). Try again {when}.", wait_s=wait_s
            )
        case 508:
            return request_loop(address)
        case _ if status >= 500:
            return ServerError(f"{address.place} failed ({status}: {said}). Check its log.")
        case _:
            return ServerError(
                f"{address.place} refused the request ({status}): {said}", refused=True
            )


def _late(
    error: openai.APITimeoutError | httpx2.TimeoutException, address: Address, begun: bool
) -> ServerError:
    cause = error.__cause__ or error
    if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return ServerError(
            f"{address.place} did not accept a connection within {CONNECT_S:.0f} seconds. "
            "Is the machine on and reachable?"
        )
    kept = f" {_KEPT}" if begun else " It may be overloaded: try again, or ask for less."
    seconds = error.request.extensions["timeout"]["read"]  # questions are given less than replies
    silence = f"{seconds:.0f} seconds" if seconds < 60 else f"{seconds / 60:.0f} minutes"
    return ServerError(f"{address.place} sent nothing for {silence}.{kept}")


def _unreached(error: Exception, address: Address, begun: bool) -> ServerError:
    causes = _causes(error)
    why = next(
        (_reason(each) for each in causes if isinstance(each, OSError) and each.strerror), ""
    )
    if begun:
        return ended_early(address, why)
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return ServerError(
            f"This machine does not trust the certificate of {address.place}: {causes[-1]}. "
            "Set SSL_CERT_FILE to the certificate of your authority, and restart Foretoken."
        )
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return ServerError(
            f"{address.place} does not use TLS: {causes[-1]}. Is it http:// instead of https://?"
        )
    proxy = (
        " The request went through the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY; "
        "NO_PROXY excludes addresses."
        if _through_proxy(address)
        else ""
    )
    return ServerError(
        f"Nothing answers at {address.root}: {why or causes[-1] or type(error).__name__}. Is the "
        f"server running, and are host and port right?{proxy}"
    )


def _reason(error: OSError) -> str:
    """Return the system's own text: asyncio's has a tuple in it."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error.strerror)


def _through_proxy(address: Address) -> bool:
    parts, proxies = urlsplit(address.root), getproxies()
    asked = parts.scheme in proxies or "all" in proxies
    return asked and not address.is_here and not proxy_bypass(parts.hostname or "")


def _causes(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, the deepest last."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(
        causes
    ) < 16:
        causes.append(cause)
    return causes


def _message(error: openai.APIError) -> str:
    """Return the server's own message."""
    body: Any = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        said = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
        if said:
            return str(said).strip().rstrip(".")[:1000]
    if isinstance(body, str) and body.strip() and "<" not in body:
        return body.strip().rstrip(".")[:1000]
    return (
        type(error).__name__ if isinstance(error, openai.APIStatusError) else error.message[:1000]
    )
