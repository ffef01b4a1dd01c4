from fgl_repro.methods.fedlog.method import FedLoG

__all__ = ["FedLoG"]
