"""Define result types that several tools share or that library users import.

A tool's return annotation is one of these ``TypedDict`` classes, or one defined in the tool's own
module. The tools import this package for type checkers only, because defining the types takes a few
milliseconds. The schemas, the reference and the library are generated from them.
"""

from memvault.results.active_memory import *
from memvault.results.agents import *
from memvault.results.experience import *
from memvault.results.recall import *
from memvault.results.shared import *
from memvault.results.tool_listing import *
from memvault.results.vault import *
