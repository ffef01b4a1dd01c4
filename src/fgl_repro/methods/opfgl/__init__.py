from fgl_repro.methods.opfgl.method import OpFGL

__all__ = ["OpFGL"]
