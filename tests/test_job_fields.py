"""One list of a job's fields drives parser, store and protocol; what is written out for speed is compared with it."""

import json
from dataclasses import fields

from softwalltime.accounting import pbs_records
from softwalltime.core.jobs import (
    FIELDS,
    OF_SUBMISSION,
    CompletedJob,
    Field,
    FieldKind,
    Submission,
    Values,
    job_of,
    values_of,
)
from softwalltime.service.protocol import read_request
from softwalltime.store.completed_jobs import job_columns, job_scripts, prepare_jobs
from softwalltime.store.tables import completed_jobs, current_jobs

TEXTS = {
    FieldKind.TEXT: "text{}",
    FieldKind.TRUTH: "True",
    FieldKind.TIME: "{}",
    FieldKind.DURATION: "00:{:02}:00",
    FieldKind.WALLTIME: "00:{:02}:00",
    FieldKind.COUNT: "{}",
    FieldKind.SIZE: "{}kb",
}


def texts(shift: int = 0) -> dict[str, str]:
    """A text for each field of a record, no two alike."""
    return {field.pbs: TEXTS[field.kind].format(number + shift) for number, field in enumerate(FIELDS, 20) if field.pbs}


def values(written: dict[str, str], job_id: str = "7.srv") -> Values:
    """The values of a job by the list alone."""
    bare = {"job_id": job_id, "server": job_id.partition(".")[2], "script": ""}
    return tuple(bare[f.name] if f.name in bare else pbs_records.CONVERTERS[f.kind](written[f.pbs]) for f in FIELDS)


def test_the_list_names_the_fields_of_a_job_in_their_order() -> None:
    names = [field.name for field in FIELDS]
    assert names[:OF_SUBMISSION] == [field.name for field in fields(Submission)]
    assert names[OF_SUBMISSION:] == [field.name for field in fields(CompletedJob)][1:]


def test_the_parser_reads_each_field_by_its_kind_whether_it_knows_the_shape_or_not() -> None:
    for shift in range(20):
        written = texts(shift)
        message = " ".join(f"{name}={text}" for name, text in written.items())
        assert pbs_records.completed_values("7.srv", message) == values(written)


def test_the_parser_leaves_out_each_field_that_is_missing() -> None:
    def missing(field: Field) -> object:
        return "" if field.kind is FieldKind.TEXT else None

    for number, field in enumerate(FIELDS):
        if field.pbs in ("", "user", "end", "ctime", "resources_used.walltime"):
            continue
        written = texts()
        expected = list(values(written))
        del written[field.pbs]
        expected[number] = missing(field)
        assert list(pbs_records.completed_values("7.srv", " ".join(f"{n}={t}" for n, t in written.items()))) == expected


def test_the_store_has_a_column_for_each_field_and_writes_each_into_its_own() -> None:
    assert [column.name for column in job_columns] == [field.column for field in FIELDS]
    in_submission = {field.column for field in FIELDS[:OF_SUBMISSION]} - {"script"}
    assert in_submission <= {column.name for column in current_jobs.columns}
    assert {column.name for column in job_columns} - {"script"} <= {column.name for column in completed_jobs.columns}
    assert "script" in job_scripts.columns
    job = values(texts())
    written = prepare_jobs([job]).text.rstrip("\n").split("\t")
    stored = zip(FIELDS, job, strict=True)
    assert written[:-1] == [str(value) for field, value in stored if field.name != "script"]
    assert written[-1] == job_of(job).state


def test_the_protocol_takes_each_field_of_a_submission() -> None:
    job = job_of(values(texts()))
    sent = dict(zip([field.name for field in FIELDS], values_of(job), strict=True))
    request = read_request(json.dumps({"v": 1, "op": "predict", "event": "queuejob", "job": sent}).encode())
    assert (request.job, request.soft_walltime) == (job.submission, job.soft_walltime)
