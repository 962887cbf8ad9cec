"""Virtual time in a seeded order, processes that die without cleanup, and a history that can be read and compared."""
