"""What a release holds: each artefact built from the checkout, then asked of a program that is not ours.

Nothing is published from here. `make release` writes everything to build/release/.
"""
