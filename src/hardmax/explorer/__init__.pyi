from hardmax.explorer.answers import answer as answer
from hardmax.explorer.explore import Explorer as Explorer
from hardmax.explorer.worked_scenes import scenes as scenes
