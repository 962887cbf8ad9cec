"""The shell: it makes every part once, decides when a round runs, carries it out, and tells people and machines of it."""
