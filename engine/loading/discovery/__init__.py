"""Models that are on this machine already: in the folders of other programs, and where the user says.

One file for each program. Nothing is downloaded, moved or written.
"""
