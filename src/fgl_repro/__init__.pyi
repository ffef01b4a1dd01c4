from fgl_repro.api import announce as announce
from fgl_repro.api import find as find
from fgl_repro.api import records as records
from fgl_repro.api import run as run
from fgl_repro.api import search as search
from fgl_repro.api import sweep as sweep
from fgl_repro.api import table as table

__version__: str
