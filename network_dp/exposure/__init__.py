"""What an observer saw of a user through Gaussian noise on one actual path (THEORY.md#exposure)."""

from network_dp.exposure.walked import Observation as Observation
from network_dp.exposure.walked import WorstColluders as WorstColluders
from network_dp.exposure.walked import general as general
from network_dp.exposure.walked import local as local
from network_dp.exposure.walked import matrix as matrix
from network_dp.exposure.walked import pure as pure
from network_dp.exposure.walked import ring as ring
from network_dp.exposure.walked import rows as rows
from network_dp.exposure.walked import worst_colluders as worst_colluders
