from fgl_repro.methods.fedvn.method import FedVN

__all__ = ["FedVN"]
