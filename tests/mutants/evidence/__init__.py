"""What shows that the exhaustive model is sharp: each rule broken once, and the search that finds what then happens.

A fault patches the product where it is imported, or a rule of the model, so none of this may lie beside the product.
"""
