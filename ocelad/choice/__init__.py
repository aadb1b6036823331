"""The choice of the next pair of items to ask about, with a reason."""

from ocelad.choice.chooser import Choice as Choice
from ocelad.choice.chooser import NoPairsLeft as NoPairsLeft
from ocelad.choice.chooser import PairChooser as PairChooser
from ocelad.choice.chooser import Source as Source
from ocelad.choice.tracker_view import TrackerView as TrackerView
