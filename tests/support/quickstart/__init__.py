"""The quickstart of deploy/samples without DNS and registry: an overlay, and the image of its name."""
