"""Who may be removed: the pods that were there when a member joined (`carriers`), and what became of them."""
