"""Which two items to ask about next, and why."""

from ocelad.service.choice.chooser import Choice as Choice
from ocelad.service.choice.chooser import Chooser as Chooser
from ocelad.service.choice.chooser import NothingToAsk as NothingToAsk
