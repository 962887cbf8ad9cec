"""The quickstart of deploy/samples on a ground without DNS and without a registry: an overlay, and the image of its name."""
