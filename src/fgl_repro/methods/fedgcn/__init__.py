from fgl_repro.methods.fedgcn.method import FedGCN

__all__ = ["FedGCN"]
