"""The pages, a folder each. ``page.py`` builds it, ``backend.py`` answers it; the script that draws it is
named as the folder is, and all its styles are served."""
