"""An agent that speaks the protocol of softwalltime.service.live.agent about jobs in a file, where there is no PBS.

    python emulated_agent.py JOBS.json [PROCESSORS]

The file holds the attributes of each job by job id; the server has a queue and 16 processors, or as many as are given.
An alter changes the file, and fails with the error code under ``refuse`` of the job, if it has one.  A job with
``hang`` makes the agent sleep for ever, one with ``die`` end.
"""

import json
import os
import re
import sys
import time
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write a file that another process may read at the same time."""
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(text)
    new.replace(path)


_SUBJOB = re.compile(r"\[\d+\]\.")
OBJECTS = {
    "vnodes": {"n1": {"state": "free", "resources_available.ncpus": "16"}},
    "queues": {"short": {"queue_type": "Execution", "enabled": "True", "started": "True"}},
    "server": {"pbs1": {"scheduling": "True", "default_queue": "short", "pbs_version": "23.06.06"}},
    "reservations": {},
    "schedulers": {"default": {"state": "idle", "sched_cycle_length": "00:20:00"}},
}


def answer(path: Path, request: dict) -> dict:
    jobs = json.loads(path.read_text())
    if request["op"] == "objects":
        objects = OBJECTS[request["kind"]]
        changed = path.with_suffix(f".{request['kind']}")
        if changed.exists():
            objects = {name: values | json.loads(changed.read_text()) for name, values in objects.items()}
        return {"objects": objects}
    if request["op"] == "manager":
        return {"manager": not path.with_suffix(".unauthorized").exists(), "user": "softwalltime-live"}
    if request["op"] == "ids":
        listed = [job_id for job_id, job in jobs.items() if job["job_state"] != "F" and not _SUBJOB.search(job_id)]
        return {"ids": sorted(listed, key=lambda job_id: int(jobs[job_id].get("queue_rank", "1000000")))}
    if request["op"] == "jobs":
        ids = list(request["ids"] or jobs)
        if request.get("subjobs"):
            ids += [job_id for job_id in jobs if _SUBJOB.search(job_id) and _SUBJOB.sub("[].", job_id) in ids]
        wanted = {
            job_id: {
                name: value
                for name, value in jobs[job_id].items()
                if name in request["names"] or name.split(".")[0] in request["names"]
            }
            for job_id in ids
            if job_id in jobs
        }
        with path.with_suffix(".requests").open("a") as log:
            log.write(f"jobs {','.join(request['ids'])}\n")
        return {"jobs": wanted}
    job = jobs.get(request["id"])
    if job is None:
        return {"error": "Unknown Job Id", "code": 15001}
    if "hang" in job:
        time.sleep(3600)
    if "die" in job:
        sys.exit(1)
    if "refuse" in job:
        return {"error": "refused", "code": job["refuse"]}
    resource = next(name for name in ("soft_walltime", "predicted", "predicted_start") if name in request)
    job[f"Resource_List.{resource}"] = str(request[resource])
    job["mtime"] = str(int(job["mtime"]) + 1)
    replace(path, json.dumps(jobs))
    with path.with_suffix(".requests").open("a") as log:
        log.write(f"alter {request['id']} {request[resource]}\n")
    return {}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        OBJECTS["vnodes"]["n1"]["resources_available.ncpus"] = sys.argv[2]
    for line in sys.stdin:
        print(json.dumps(answer(Path(sys.argv[1]), json.loads(line))), flush=True)
