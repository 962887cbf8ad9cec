"""The custom resources, one module for each and for the larger parts of a StaticGroup.

A field's bounds, default, description and CEL rule stand together in its model; `api.crd` only translates them.
"""
