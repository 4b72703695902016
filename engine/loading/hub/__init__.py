"""Models on disk and on the hub: locate, download, resume, cancel.

Downloads go into plain folders, ``<models folder>/<owner>--<name>``, where people can also put a
model themselves; models in huggingface_hub's own cache are found too. Only configuration, tokenizer
and safetensors files are fetched, never a pickle. What a broken download left is continued: bytes go
into a ``.part`` file named by the file's ETag, which becomes the file once size and hash agree.
HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are honoured. The hub's client, which takes half a second to
import, is there for downloads only.
"""

from engine.loading.hub.fetch import download
from engine.loading.hub.places import FOLDER_VARIABLE, folder_for, locate, models_folder
from engine.loading.hub.progress import DownloadCancelled, Progress

__all__ = [
    "FOLDER_VARIABLE",
    "DownloadCancelled",
    "Progress",
    "download",
    "folder_for",
    "locate",
    "models_folder",
]
