"""
A layer of a trained model
==========================

The bundled model reads 15 tokens and a classification token. On the plane of its two main directions the
heads of the first layer cut 19 cells; dots are the tokens of one input, hollow where they lie off the
plane.
"""

import hardmax as hm
from hardmax.plotting.atlases import draw_slice

atlas = hm.head_atlas(hm.models.bundled_source())
print(atlas)

axes = draw_slice(atlas.slices[0], tokens=atlas.text_tokens)
