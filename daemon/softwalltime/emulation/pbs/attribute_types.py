"""Attributes, resources and constants of PBS that the hook and the recorded events use, and what a hook may set.

Read off a running OpenPBS 23.06.06 by a hook that listed its own classes and tried to set each attribute.  The order
is PBS's own: it prints attributes in this order.  Any other name raises an error: add it here if PBS has it.
"""

from typing import Final


def _table(text: str) -> dict[str, str]:
    return {name.rstrip("*"): kind for name, _, kind in (entry.partition(":") for entry in text.split())}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_JOB: Final = """
    Job_Name*:name Job_Owner:pbs_str resources_used:resources job_state:job_state resv:resv queue*:queue server:server
    Account_Name*:pbs_str Checkpoint*:checkpoint ctime:pbs_int depend*:depend Error_Path*:path exec_host:exec_host
    exec_host2:pbs_str exec_vnode:exec_vnode Execution_Time*:pbs_int group_list*:group_list Hold_Types*:hold_types
    interactive:pbs_int Join_Path*:join_path Keep_Files*:keep_files Mail_Points*:mail_points Mail_Users*:email_list
    mtime:pbs_int Output_Path*:path Priority*:priority qtime:pbs_int Remove_Files*:pbs_str Rerunable*:pbs_bool
    Resource_List:resources schedselect:select stime:pbs_int obittime:pbs_int session_id:pbs_int
    Shell_Path_List*:path_list sandbox*:sandbox jobdir:pbs_str stagein*:staging_list stageout*:staging_list
    substate:pbs_int User_List*:user_list Variable_List:pbs_env euser:pbs_str egroup:pbs_str hashname:pbs_str
    hop_count:pbs_int queue_rank:generic queue_type:queue_type security:pbs_str comment*:pbs_str etime:pbs_int
    gridname*:pbs_str umask*:pbs_int block:pbs_int cred*:pbs_str run_count*:pbs_int accounting_id:pbs_str
    eligible_time*:duration sample_starttime:pbs_int job_kill_delay:pbs_int Exit_status:pbs_int
    Submit_arguments*:pbs_str executable*:pbs_str argument_list*:pbs_str array:pbs_bool array_id:pbs_str
    array_index:pbs_int array_indices_submitted*:range estimated:resources node_set*:pbs_str project*:project
    forward_x11_cookie*:pbs_str run_version:pbs_int tolerate_node_failures*:pbs_str Submit_Host*:pbs_str
    credential_id*:pbs_str create_resv_from_job*:pbs_bool max_run_subjobs*:pbs_int
"""
JOB: Final = _table(_JOB)
"""Type of each job attribute."""
JOB_SETTABLE: Final = frozenset(entry.partition("*")[0] for entry in _JOB.split() if "*" in entry)
"""Job attributes that a hook may set at queuejob and, but for ``queue``, at postqueuejob and modifyjob."""
JOB_SETTABLE_AT_START: Final = (
    "Hold_Types", "Execution_Time", "project", "Error_Path", "Output_Path", "Resource_List", "Variable_List", "depend",
    "create_resv_from_job",
)  # fmt: skip
"""Job attributes that a hook may set at runjob."""
JOB_SETTABLE_AT_REFUSED_START: Final = ("Execution_Time", "Hold_Types", "project", "depend")
"""Attributes of these for which PBS refuses a start that the hook accepts."""

QUEUE: Final = _table("""
    queue_type:queue_type Priority:priority total_jobs:pbs_int state_count:state_count max_running:pbs_int
    resources_max:resources resources_min:resources resources_default:resources max_array_size:pbs_int comment:pbs_str
    default_chunk:resources resources_available:resources resources_assigned:resources max_user_run:pbs_int max_run:str
    max_run_res:resources max_run_soft:str max_user_res:resources backfill_depth:pbs_int
    route_destinations:route_destinations enabled:pbs_bool started:pbs_bool partition:pbs_str
""")
"""Type of each queue attribute."""

SERVER: Final = _table("""
    server_state:server_state server_host:pbs_str scheduling:pbs_bool max_running:pbs_int max_run:str
    max_run_res:resources max_run_soft:str max_user_run:pbs_int max_user_res:resources total_jobs:pbs_int
    state_count:state_count managers:acl operators:acl default_queue:queue log_events:pbs_int mailer:pbs_str
    mail_from:pbs_str query_other_jobs:pbs_bool resources_available:resources resources_default:resources
    default_chunk:resources resources_max:resources resources_assigned:resources scheduler_iteration:duration
    comment:pbs_str flatuid:pbs_bool resv_enable:pbs_bool node_fail_requeue:pbs_int max_array_size:pbs_int
    resend_term_delay:pbs_int pbs_license_min:pbs_int pbs_license_max:pbs_int pbs_license_linger_time:pbs_int
    license_count:license_count pbs_version:version job_sort_formula:job_sort_formula eligible_time_enable:pbs_bool
    job_history_enable:pbs_bool max_concurrent_provision:pbs_int backfill_depth:pbs_int
    clear_topjob_estimates_enable:pbs_bool python_restart_max_hooks:pbs_int python_restart_min_interval:duration
    power_provisioning:pbs_bool max_job_sequence_id:generic has_runjob_hook:pbs_bool
""")
"""Type of each server attribute."""

RESOURCES: Final = _table("""
    cput:duration mem:size walltime:duration soft_walltime:duration min_walltime:duration max_walltime:duration
    ncpus:pbs_int naccelerators:pbs_int select:select place:place nodes:pbs_str nodect:pbs_int arch:pbs_str
    nchunk:pbs_int vntype:pbs_str mpiprocs:pbs_int ompthreads:pbs_int cpupercent:pbs_int file:size vmem:size
    host:pbs_str vnode:vnode resc:pbs_str software:software site:pbs_str exec_vnode:exec_vnode start_time:pbs_int
    partition:pbs_str aoe:pbs_str eoe:pbs_str accelerator:pbs_bool accelerator_model:pbs_str accelerator_memory:size
    accelerator_group:pbs_str hbmem:size pgov:pbs_str
""")
"""Type of each resource that every PBS has."""
RESOURCES_OF_CHUNKS: Final = _names("""
    mem ncpus naccelerators arch nchunk vntype mpiprocs ompthreads vmem vnode aoe eoe accelerator accelerator_model
    accelerator_memory accelerator_group hbmem nodect select place
""")
"""Resources that no hook may set at runjob: they are part of the select specification."""

_CONSTANTS: Final = """
    QUEUEJOB=1 MODIFYJOB=2 RUNJOB=16 POSTQUEUEJOB=134217728 EVENT_ERROR=1 EVENT_SYSTEM=2 EVENT_ADMIN=4 EVENT_JOB=8
    EVENT_JOB_USAGE=16 EVENT_SECURITY=32 EVENT_SCHED=64 EVENT_DEBUG=128 EVENT_DEBUG2=256 EVENT_RESV=512
    EVENT_DEBUG3=1024 EVENT_DEBUG4=2048 EVENT_FORCE=32768 JOB_STATE_QUEUED=1 JOB_STATE_HELD=2 JOB_STATE_WAITING=3
    JOB_STATE_RUNNING=4 JOB_STATE_BEGUN=7 LOG_DEBUG=5 LOG_WARNING=6 LOG_ERROR=7 QTYPE_EXECUTION=1 QTYPE_ROUTE=2
    SV_STATE_ACTIVE=3
"""
CONSTANTS: Final = {name: int(value) for name, value in (entry.split("=") for entry in _CONSTANTS.split())}
"""Integer constants of ``pbs``."""
