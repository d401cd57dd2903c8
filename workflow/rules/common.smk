# Shared by all rule files. The functions are plain Python: workflow/scripts/common.py.
import sys

sys.path.insert(0, f"{workflow.basedir}/workflow/scripts")

from common import *
from stale_locks import hold_and_clear

prepare_environment()
if workflow.is_main_process:
    hold_and_clear()
