from drom_net.api.estimator import MultiTaskClassifier as MultiTaskClassifier
from drom_net.api.results import Run as Run
from drom_net.api.results import Site as Site
from drom_net.api.river import RiverClassifier as RiverClassifier
from drom_net.api.running import check as check
from drom_net.api.running import fit as fit
from drom_net.api.running import load as load
from drom_net.api.running import run as run
from drom_net.core.errors import DromNetError as DromNetError

__version__: str
