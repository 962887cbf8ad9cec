"""The StaticGroup's status: `projection` writes what users read, `memory` keeps what the next process needs."""
