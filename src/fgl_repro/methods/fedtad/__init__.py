from fgl_repro.methods.fedtad.method import FedTAD

__all__ = ["FedTAD"]
