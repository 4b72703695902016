"""Models on disk and on the hub: locate, search, look up, download, resume, cancel.

Downloads go into plain folders, ``<models folder>/<owner>--<name>``, where people can also put a
model themselves; models in huggingface_hub's own cache are found too. Only configuration, tokenizer
and safetensors files are fetched, or one GGUF file; never a pickle. What a broken download left is
continued: bytes go into a ``.part`` file named by the file's ETag, which becomes the file once size and
SHA-256 agree. A finished file whose content the hub has changed since is fetched again. HF_ENDPOINT,
HF_TOKEN and HF_HUB_OFFLINE are honoured. The hub's client, which takes half a second to import, is there
for downloads only.
"""
