"""The StaticGroup's status: `projection` writes what users read of a round, `durable` what the next process reads again, both ways."""
