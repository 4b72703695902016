"""Models that are on this machine already: in the folders of other programs, and where the user says.

One file for each program with a layout of its own. Nothing is downloaded, moved or written.
"""
