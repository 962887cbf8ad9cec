"""The shape of a Kafka frame, checked before a native decoder sees it; imports nothing of ours, so that all may use it.

Both ends check: the operator, which does not trust a broker that far, and the model's listener, which trusts no client.
"""

from .walk import BadFrame, TooManyElements, check_frame

__all__ = ["BadFrame", "TooManyElements", "check_frame"]
