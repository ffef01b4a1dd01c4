from fgl_repro.methods.fedgm.method import FedGM

__all__ = ["FedGM"]
