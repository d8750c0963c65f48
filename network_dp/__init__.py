"""The mathematics of network differential privacy: exposure, bounds, calibration, and the public schemas.

Pure: no input or output. Importing the package itself loads nothing heavy (a node process imports it too);
import the module you need, for example ``from network_dp import bounds``.
"""

__version__ = "0.1.0"
