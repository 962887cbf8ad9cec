"""What is really so, what must hold of it whatever goes wrong, and nothing that an operator says is believed."""
