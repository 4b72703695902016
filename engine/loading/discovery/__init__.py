"""Models that lie on this machine already: in the folders of other programs, and where the user says.

One file for each program. Nothing is fetched, moved or written.
"""

from engine.loading.discovery.beside import has_room, with_best_draft
from engine.loading.discovery.found import FoundModel, examine
from engine.loading.discovery.listing import Listed, ModelStore, is_pseudo, models_under
from engine.loading.discovery.scan import PLACES, BackgroundScan, drafts_among, scan
from engine.loading.discovery.system import System

__all__ = [
    "PLACES",
    "BackgroundScan",
    "FoundModel",
    "Listed",
    "ModelStore",
    "System",
    "drafts_among",
    "examine",
    "has_room",
    "is_pseudo",
    "models_under",
    "scan",
    "with_best_draft",
]
