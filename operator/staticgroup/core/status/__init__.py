"""The StaticGroup's status: `projection` writes what users read, `durable` keeps what the next process needs."""
