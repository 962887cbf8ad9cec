"""The ground truth and the promises that must hold in it; nothing that an operator says is believed."""
