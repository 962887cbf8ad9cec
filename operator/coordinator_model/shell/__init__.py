"""The model behind a prompt, for readers: clients, clock and coordinator in one session that can be replayed."""
