from fgl_repro.methods.fedsageplus.method import FedSagePlus

__all__ = ["FedSagePlus"]
