"""What to do about each group and cluster, in words that an owner can act on: rules, who carries them out, what is not known."""
