"""Science: data of five fields read, checked and put into one form, one file a field.

    items ─▶ a field's function ─▶ Result: result · metadata · artifacts · errors by item
                                   status: success · partial_success · error

What stands in a service is asked for through one transport (`live`, `record`, `replay`), so that what was found once
can be found again without a network. Each field's packages are an extra of its own, `silva[science]` for all of them.
"""

from silva.curate.science.climate import align
from silva.curate.science.eeg import recordings
from silva.curate.science.enzyme import enzymes
from silva.curate.science.molecule import molecules
from silva.curate.science.protein import proteins
from silva.curate.science.result import ItemError, Result
from silva.curate.science.transport import Mode, Transport

__all__ = ["ItemError", "Mode", "Result", "Transport", "align", "enzymes", "molecules", "proteins", "recordings"]
