"""The draft's workers: what they answer, how one of them assigns, and a cluster of them in virtual time."""
