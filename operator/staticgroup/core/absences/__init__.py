"""For how long members were away when their process ended: which of it is kept, and what it says of the next time."""
