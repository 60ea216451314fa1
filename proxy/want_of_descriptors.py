"""Whether something failed because this process, or the machine, has too many files open: then nobody else is to blame."""

import errno
import os
import socket

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)  # of this process; of the machine


def is_for_want_of_descriptors(error: OSError) -> bool:
    """Judge an error. A resolver, or a try of several addresses, may fail for that without saying so: then a file is opened."""
    if isinstance(error, TimeoutError):
        return False
    if error.errno is not None and not isinstance(error, socket.gaierror):
        return error.errno in _NO_DESCRIPTORS
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as found:
        return found.errno in _NO_DESCRIPTORS
    return False
