"""A client for requests that qsub and qalter would refuse to send: ``ATTRIBUTE[.RESOURCE]=VALUE ...``.

Backslash escapes in values are resolved.  It submits a held job to the queue ``short``.  With ``alter:JOB`` first it
alters one, with ``reserve:`` it requests a reservation, and with ``reserve:NAME`` it alters one.  It prints the id or
the server's message.  Run as a user, with that system's Python.
"""

import ctypes
import os
import re
import sys
from pathlib import Path

BASE = {
    "Hold_Types": "u",
    "Resource_List.walltime": "600",
    "Job_Name": "STDIN",
    "executable": "<jsdl-hpcpa:Executable>/bin/true</jsdl-hpcpa:Executable>",
    "Output_Path": "localhost:/dev/null",
    "Error_Path": "localhost:/dev/null",
    "Variable_List": "PBS_O_HOST=localhost",
}


class Attribute(ctypes.Structure):
    """``struct attropl`` of pbs_ifl.h."""


Attribute._fields_ = [
    ("next", ctypes.POINTER(Attribute)),
    ("name", ctypes.c_char_p),
    ("resource", ctypes.c_char_p),
    ("value", ctypes.c_char_p),
    ("op", ctypes.c_int),
]


def chain(values: dict[str, str]) -> "ctypes._Pointer[Attribute]":
    """Return the attributes as the library's linked list."""
    head = None
    for name, value in reversed(values.items()):
        attribute, _, resource = name.partition(".")
        node = Attribute(None, attribute.encode(), resource.encode() or None, value.encode(), 0)
        if head is not None:
            node.next = ctypes.pointer(head)
        head = node
    assert head is not None
    return ctypes.pointer(head)


def main(arguments: list[str]) -> int:
    """Submit or alter a job; 0 if the server does it."""
    configuration = Path(os.environ.get("PBS_CONF_FILE", "/etc/pbs.conf")).read_text()
    found = re.search(r"^PBS_EXEC=(.*)$", configuration, re.MULTILINE)
    assert found is not None
    pbs = ctypes.CDLL(f"{found[1]}/lib/libpbs.so")
    pbs.pbs_submit.restype = pbs.pbs_geterrmsg.restype = ctypes.c_char_p
    pbs.pbs_submit_resv.restype = pbs.pbs_modify_resv.restype = ctypes.c_char_p
    pbs.set_no_attribute_verification()
    reserves = arguments[0].startswith("reserve:")
    job = arguments.pop(0).partition(":")[2] if arguments[0].startswith(("alter:", "reserve:")) else ""
    values = {
        name: value.encode().decode("unicode_escape") for name, _, value in (each.partition("=") for each in arguments)
    }
    connection = pbs.pbs_connect(None)
    if reserves:
        request = pbs.pbs_modify_resv if job else pbs.pbs_submit_resv
        answer = request(connection, *([job.encode()] if job else []), chain(values), None)
        done = answer.decode() if answer else None
    elif job:
        done = job if pbs.pbs_alterjob(connection, job.encode(), chain(values), None) == 0 else None
    else:
        submitted = pbs.pbs_submit(connection, chain({**BASE, **values}), None, b"short", None)
        done = submitted.decode() if submitted else None
    print(done or pbs.pbs_geterrmsg(connection).decode())
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
