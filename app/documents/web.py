"""Fetch a web page by its address: over http and https, within bounds, and from no private network.

An address that a page or a redirect names must not reach what only this machine can reach (SSRF). So each
host is resolved here, all its addresses are checked, and the connection goes to a checked one.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from app.documents.reading import ReadDocument, read_file
from app.web.listen import is_address
from engine.errors import InvalidRequest, what_failed

LARGEST = 16 << 20
"""Bytes of a page, unpacked."""
SECONDS = 20.0
"""Seconds for all of it, redirects included; looking up a name may take some more."""
MOST_REDIRECTS = 5
_LONGEST = 4096
"""Characters of an address."""
_SHOWN = 200
"""Characters of an address that errors show."""
_BLOCK = 1 << 16
_REDIRECTS = (301, 302, 303, 307, 308)
_AGENT = "Mozilla/5.0 (compatible; Foretoken)"


class PrivateAddress(InvalidRequest):
    """The address leads to this machine or a private network."""


def fetch_page(address: str, *, private: bool = False, seconds: float = SECONDS) -> ReadDocument:
    """Return the main text of the page at ``address``, or the text of a document there.

    ``private``: an address of this machine or a private network may be read, if ``address`` itself names
    it by number or as localhost; redirects still may not lead to another one. Raises InvalidRequest, of
    which PrivateAddress.
    """
    asked = _parsed(address)
    host = asked.hostname or ""
    allowed = asked.netloc if private and (host == "localhost" or is_address(host)) else ""
    deadline = time.monotonic() + seconds
    url = asked
    for _ in range(MOST_REDIRECTS + 1):
        reply, body = _get(url, deadline, url.netloc == allowed)
        location = reply.getheader("Location")
        if reply.status not in _REDIRECTS or not location:
            return _read(url, reply, body)
        url = _parsed(_joined(url, location))
    raise _failed(asked, f"it redirects more than {MOST_REDIRECTS} times")


def _joined(url: SplitResult, location: str) -> str:
    try:
        return urljoin(urlunsplit(url), location)
    except ValueError:  # as it is, it is no address either
        return location


def _parsed(address: str) -> SplitResult:
    """Return an address with a scheme and without a fragment. Raises InvalidRequest."""
    text = address.strip()
    if "://" not in text:
        text = f"https://{text}"
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
        ascii_host = (host or "").encode("idna").decode()
    except ValueError:  # UnicodeError is one
        host = None
    if (
        not host
        or url.port == 0
        or len(text) > _LONGEST
        or url.scheme not in ("http", "https")
        or url.username is not None
    ):
        raise InvalidRequest(
            "address",
            f"{address.strip()[:_SHOWN]!r} is not a web address. Enter one such as "
            "https://example.org/page, without a user name or password.",
        )
    port = f":{url.port}" if url.port else ""
    netloc = f"[{ascii_host}]{port}" if ":" in ascii_host else f"{ascii_host}{port}"
    path, query = (quote(part, safe="/%:@!$&'()*+,;=~?-._[]") for part in (url.path, url.query))
    return SplitResult(url.scheme, netloc, path or "/", query, "")


def _resolved(url: SplitResult, may_be_private: bool) -> list[str]:
    """Return the numbers of a host. Raises PrivateAddress unless all are public, or may be private."""
    host = url.hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _failed(url, "its name is unknown. Check the address and your connection") from None
    numbers = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    for number in numbers:
        if not may_be_private and not _is_public(number):
            named = "" if number == host else f" ({number})"
            raise PrivateAddress(
                "address",
                f"{host}{named} is on this machine or in a private network. If you mean it, "
                "enter its IP address, such as http://127.0.0.1:8000, in a browser on this machine.",
            )
    return numbers


_UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is public, but for NAT64's part."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def _is_public(number: str) -> bool:
    address = ipaddress.ip_address(number)
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            address = inner
        elif address not in _UNICAST or address.teredo:
            return False
    return address.is_global and not address.is_multicast


def _get(
    url: SplitResult, deadline: float, may_be_private: bool
) -> tuple[http.client.HTTPResponse, bytes]:
    """Return the answer and its body, which a redirect has none of."""
    numbers = _resolved(url, may_be_private)
    try:
        connection = _connected(url, numbers, deadline)
        with closing(connection), _ended_at(deadline, connection):
            path = urlunsplit(("", "", url.path, url.query, ""))
            connection.request("GET", path, headers=_HEADERS)
            reply = connection.getresponse()
            return reply, b"" if reply.status in _REDIRECTS else _body(url, reply)
    except ssl.SSLError as error:
        raise _failed(url, f"its certificate or encryption was rejected ({error.reason})") from None
    # http.client raises ValueError for some malformed answers, as for a chunk of negative size.
    except (OSError, ValueError, http.client.HTTPException) as error:
        late = time.monotonic() >= deadline or isinstance(error, TimeoutError)
        why = "it takes too long" if late else f"the connection failed ({what_failed(error)})"
        raise _failed(url, why) from None


_HEADERS = {
    "User-Agent": _AGENT,
    "Accept": "text/html, text/plain, application/pdf, */*;q=0.1",
    "Accept-Encoding": "identity",
    "Accept-Language": "en, *;q=0.5",
    "Connection": "close",
}


def _connected(url: SplitResult, numbers: list[str], deadline: float) -> http.client.HTTPConnection:
    """Return a connection to one of the checked numbers; the certificate must be the host's."""
    host = url.hostname or ""
    secure = url.scheme == "https"
    port = url.port or (443 if secure else 80)
    for number in numbers:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        try:
            plain = socket.create_connection((number, port), timeout=left)
        except OSError:
            if number == numbers[-1]:
                raise
            continue
        break
    if not secure:
        connection = http.client.HTTPConnection(host, port)
        connection.sock = plain
        return connection
    try:
        plain.settimeout(max(deadline - time.monotonic(), 0.1))
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, context=context)
        connection.sock = context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
    return connection


@contextmanager
def _ended_at(deadline: float, connection: http.client.HTTPConnection) -> Iterator[None]:
    """Close the socket at the deadline: a server could send a byte now and then for ever."""
    sock = connection.sock

    def end() -> None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(deadline - time.monotonic(), 0), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if time.monotonic() >= deadline:  # what was read may be a part
        raise TimeoutError


def _body(url: SplitResult, reply: http.client.HTTPResponse) -> bytes:
    """Return the unpacked body. Raises InvalidRequest for more than ``LARGEST`` bytes."""
    packed = reply.getheader("Content-Encoding", "identity").strip().lower()
    unpack = {"gzip": 47, "x-gzip": 47, "deflate": 47}.get(packed)
    if unpack is None and packed not in ("identity", ""):
        raise _failed(url, f"it is compressed as {packed[:20]!r}, which is not supported")
    unpacker = None if unpack is None else zlib.decompressobj(unpack)
    found = bytearray()
    while block := reply.read(_BLOCK):
        try:
            found += block if unpacker is None else unpacker.decompress(block, LARGEST + 1)
        except zlib.error:
            raise _failed(url, "it was damaged on the way") from None
        if len(found) > LARGEST:
            raise _failed(url, f"it is larger than {LARGEST >> 20} MB")
    if reply.length or (unpacker and found and not unpacker.eof):
        raise ConnectionError("it ended early")
    return bytes(found)


def _read(url: SplitResult, reply: http.client.HTTPResponse, body: bytes) -> ReadDocument:
    address = urlunsplit(url)
    if reply.status >= 400 or reply.status < 200:
        reason = http.client.responses.get(reply.status, "")
        raise _failed(url, f"the server answered {reply.status} {reason}".strip())
    with tempfile.TemporaryDirectory(prefix="foretoken-") as folder:
        path = Path(folder) / "page"
        path.write_bytes(body)
        content_type = reply.getheader("Content-Type") or "text/html"
        return read_file(path, address, source=address, content_type=content_type)


def _failed(url: SplitResult, why: str) -> InvalidRequest:
    return InvalidRequest("address", f"{urlunsplit(url)[:_SHOWN]} could not be read: {why}.")
