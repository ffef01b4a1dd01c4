from fgl_repro.methods.fedpub.method import FedPub

__all__ = ["FedPub"]
