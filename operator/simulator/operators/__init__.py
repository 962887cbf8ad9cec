"""The real operator as a process of the world: its code on virtual wires to the API server and to Kafka."""
