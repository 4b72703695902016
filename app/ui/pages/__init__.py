"""The pages, a folder each: ``backend.py`` answers the script that draws it, which is named as the
folder is."""
