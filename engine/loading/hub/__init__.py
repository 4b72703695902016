"""Models on disk and on the hub: locate, look up, download, resume, cancel.

Downloads go into plain folders, ``<models folder>/<owner>--<name>``, where people can also put a
model themselves; models in huggingface_hub's own cache are found too. Only configuration, tokenizer
and safetensors files are fetched, or one GGUF file; never a pickle. What a broken download left is
continued: bytes go into a ``.part`` file named by the file's ETag, which becomes the file once size and
SHA-256 agree. HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are honoured. The hub's client, which takes half a
second to import, is there for downloads only.
"""

from engine.loading.hub.fetch import download
from engine.loading.hub.places import (
    FOLDER_VARIABLE,
    endpoint,
    folder_for,
    locate,
    models_folder,
)
from engine.loading.hub.progress import DownloadProgress
from engine.loading.hub.remains import PARTIAL, arrived, discard
from engine.loading.hub.repository import Repository, look_up, named_in, type_of
from engine.models.checkpoints.gguf.description import parts_named

__all__ = [
    "FOLDER_VARIABLE",
    "PARTIAL",
    "DownloadProgress",
    "Repository",
    "arrived",
    "discard",
    "download",
    "endpoint",
    "folder_for",
    "locate",
    "look_up",
    "models_folder",
    "named_in",
    "parts_named",
    "type_of",
]
