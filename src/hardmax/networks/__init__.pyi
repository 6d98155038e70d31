from hardmax.networks.attention import Attention as Attention
from hardmax.networks.blocks import Affine as Affine
from hardmax.networks.blocks import FeedForward as FeedForward
from hardmax.networks.blocks import Maxout as Maxout
from hardmax.networks.constructions import sawtooth_network as sawtooth_network
from hardmax.networks.experts import MixtureOfExperts as MixtureOfExperts
from hardmax.networks.network import Network as Network
from hardmax.networks.signatures import Signature as Signature
