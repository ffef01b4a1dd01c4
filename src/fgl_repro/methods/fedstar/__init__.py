from fgl_repro.methods.fedstar.method import FedStar

__all__ = ["FedStar"]
