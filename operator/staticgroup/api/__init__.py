"""Ring 0: what users and other programs see, and what is generated from it.

`resources` are the custom resources, `journal` the records that others read, `recommendation` what they give back. The
other modules are the names, words and sets that all of these share, and the generators (`crd`, `policy`).
"""
