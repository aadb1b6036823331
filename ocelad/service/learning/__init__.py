"""What is learned from the log of a project, in the background, and what readers may ask of it."""

from ocelad.service.learning.learner import Learner as Learner
from ocelad.service.learning.settings import checked_settings as checked_settings
from ocelad.service.learning.settings import default_settings as default_settings
from ocelad.service.learning.timeline import Timeline as Timeline
from ocelad.service.learning.view import View as View
from ocelad.service.learning.warm import warm as warm
