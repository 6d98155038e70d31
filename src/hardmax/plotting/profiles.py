"""Networks on the line: the graph of the network over its cells.

Cells are bands coloured by their affine map, with the walls (black) and folds (white) between them; the graph
runs over them, one curve per output. At a wall it may jump; at a fold it only changes its slope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.plotting.region_colours import map_colours
from hardmax.plotting.region_shapes import box_shown
from hardmax.plotting.style import INK, LINES, new_figure, styled
