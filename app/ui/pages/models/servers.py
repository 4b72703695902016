"""The Models page's endpoints for servers: asking, connecting and forgetting them. Plain values."""

from __future__ import annotations

from contextlib import ExitStack

from app import servers
from app.runtime import Runtime
from app.ui import words
from app.ui.endpoints import View, endpoint, waits
from engine.errors import ForetokenError, InvalidRequest
from engine.machine.secrets import server_key
from engine.values.address import Address


class ServersBackend:
    """The servers of one running app."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @endpoint
    def servers(self, data: View | None = None) -> View:
        """List the servers of the catalog."""
        listed = [
            {"id": each.id, "name": each.name, "address": each.address, "note": each.note}
            for each in self._runtime.catalog.servers
        ]
        return {"servers": listed}

    @waits
    @endpoint
    def ask_server(self, data: View) -> View:
        """Return which server answers at ``address``, and its models; nothing is stored. Raises
        ForetokenError."""
        address = _address(data)
        found = servers.look(address, str(data.get("key") or ""))
        return {
            "name": found.name,
            "place": address.place,
            "address": address.root,
            "models": [
                {
                    "id": each.id,
                    "context": each.context,
                    "loaded": each.loaded,
                    "loads": found.loads(each),
                }
                for each in found.models
            ],
            "wanted": address.model,
        }

    @endpoint
    def connect(self, data: View) -> View:
        """Connect to ``model`` at ``address``, or to the catalog's server ``id``. Once that succeeds
        the server and its ``key`` are stored; ``kept`` says where."""
        undo, kept = ExitStack(), None
        try:
            identity = data.get("id")
            if not identity:
                identity, kept = self._keep(data, undo)
            self._runtime.loader.start(self._runtime.request(str(identity), ""), undo.close)
        except (ForetokenError, OSError):
            undo.close()
            raise
        return {"kept": kept}

    def _keep(self, data: View, undo: ExitStack) -> tuple[str, str | None]:
        """Store the server and its key. Return its id and where the key is; add to ``undo`` what undoes
        this."""
        runtime = self._runtime
        address, key = _address(data), str(data.get("key") or "").strip()
        secret = server_key(address)
        undo.callback(secret.snapshot())
        kept = None
        if key:
            kept = words.SECRET_KEPT[secret.store(key)].format(what="key", file=secret.file)
        known = {each.id for each in runtime.catalog.servers}
        identity = servers.keep(runtime.data_dir, address, str(data["model"]))
        runtime.read_catalog_again()
        if identity not in known:
            undo.callback(self._forget, identity)
        return identity, kept

    @endpoint
    def forget_server(self, data: View) -> bool:
        """Remove a server from the catalog, and its key."""
        self._forget(str(data["id"]))
        return True

    def _forget(self, identity: str) -> None:
        servers.forget(self._runtime.data_dir, self._runtime.catalog.spec(identity))
        self._runtime.read_catalog_again()


def _address(data: View) -> Address:
    text = str(data.get("address") or "").strip()
    if not text:
        raise InvalidRequest("address", words.ADDRESS_EMPTY)
    return Address.parse(text)
