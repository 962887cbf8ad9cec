"""The shell: it makes each part once, decides when a round runs, carries it out, and reports to humans and machines."""
