"""Attributes, resources and constants of PBS, their types, and which of them a hook may set.

Read off a running OpenPBS 23.06.06 by a hook that listed its own classes and tried to set each attribute.  The order
is PBS's own: it prints attributes in this order.
"""

from typing import Final


def _table(text: str) -> dict[str, str]:
    return {name.rstrip("*"): kind for name, _, kind in (entry.partition(":") for entry in text.split())}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_JOB: Final = """
    Job_Name*:name Job_Owner:pbs_str resources_used:resources resources_used_acct:resources
    resources_used_update:resources job_state:job_state resv:resv queue*:queue server:server Account_Name*:pbs_str
    Checkpoint*:checkpoint ctime:pbs_int depend*:depend Error_Path*:path exec_host:exec_host exec_host2:pbs_str
    exec_host_acct:pbs_str exec_host_orig:pbs_str exec_vnode:exec_vnode exec_vnode_acct:pbs_str
    exec_vnode_deallocated:pbs_str exec_vnode_orig:pbs_str Execution_Time*:pbs_int group_list*:group_list
    Hold_Types*:hold_types interactive:pbs_int Join_Path*:join_path Keep_Files*:keep_files Mail_Points*:mail_points
    Mail_Users*:email_list mtime:pbs_int no_stdio_sockets*:pbs_bool Output_Path*:path Priority*:priority
    qtime:pbs_int Remove_Files*:pbs_str Rerunable*:pbs_bool Resource_List:resources Resource_List_orig:resources
    Resource_List_acct:resources schedselect:select schedselect_orig:pbs_str stime:pbs_int obittime:pbs_int
    session_id:pbs_int Shell_Path_List*:path_list sandbox*:sandbox jobdir:pbs_str stagein*:staging_list
    stageout*:staging_list substate:pbs_int User_List*:user_list Variable_List:pbs_env euser:pbs_str egroup:pbs_str
    hashname:pbs_str hop_count:pbs_int queue_rank:generic queue_type:queue_type sched_hint*:pbs_int security:pbs_str
    comment*:pbs_str cookie:pbs_str alt_id:pbs_str alt_id2:pbs_str etime:pbs_int reserve_ID:pbs_str
    last_context_refresh:pbs_int gridname*:pbs_str umask*:pbs_int block:pbs_int cred*:pbs_str run_count*:pbs_int
    accounting_id:pbs_str eligible_time*:duration accrue_type:pbs_int sample_starttime:pbs_int
    job_kill_delay:pbs_int Stageout_status:pbs_int Exit_status:pbs_int Submit_arguments*:pbs_str executable*:pbs_str
    argument_list*:pbs_str prov_vnode:pbs_str array:pbs_bool array_id:pbs_str array_index:pbs_int
    array_state_count:state_count array_indices_submitted*:range array_indices_remaining:pbs_str estimated:resources
    node_set*:pbs_str history_timestamp:pbs_int project*:project forward_x11_cookie*:pbs_str
    forward_x11_port:pbs_int ptime*:pbs_int run_version:pbs_int gui:pbs_bool topjob:pbs_bool
    topjob_ineligible*:pbs_bool resources_released:pbs_str resource_released_list:resources
    release_nodes_on_stageout*:pbs_bool tolerate_node_failures*:pbs_str Submit_Host*:pbs_str credential_id*:pbs_str
    credential_validity:pbs_int create_resv_from_job*:pbs_bool max_run_subjobs*:pbs_int
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
    queue_type:queue_type Priority:priority max_queuable:pbs_int total_jobs:pbs_int state_count:state_count
    max_running:pbs_int max_queued:str max_queued_res:resources acl_host_enable:pbs_bool acl_hosts:acl
    acl_user_enable:pbs_bool acl_users:acl from_route_only:pbs_bool resources_max:resources resources_min:resources
    resources_default:resources require_cred_enable:pbs_bool require_cred:pbs_str max_array_size:pbs_int
    comment:pbs_str acl_group_enable:pbs_bool acl_groups:acl checkpoint_min:pbs_int rendezvous_retry:pbs_int
    reserved_expedite:pbs_int reserved_sync:pbs_int default_chunk:resources resources_available:resources
    resources_assigned:resources kill_delay:pbs_int max_user_run:pbs_int max_group_run:pbs_int max_run:str
    max_run_res:resources max_run_soft:str max_run_res_soft:resources hasnodes:pbs_bool max_user_res:resources
    max_group_res:resources max_user_run_soft:pbs_int max_group_run_soft:pbs_int max_user_res_soft:resources
    max_group_res_soft:resources node_group_key:node_group_key backfill_depth:pbs_int
    route_destinations:route_destinations alt_router:pbs_bool route_held_jobs:pbs_bool route_waiting_jobs:pbs_bool
    route_retry_time:pbs_int route_lifetime:pbs_int enabled:pbs_bool started:pbs_bool queued_jobs_threshold:str
    queued_jobs_threshold_res:resources partition:pbs_str
""")
"""Type of each queue attribute."""

SERVER: Final = _table("""
    server_state:server_state server_host:pbs_str scheduling:pbs_bool max_running:pbs_int max_queued:str
    max_queued_res:resources max_run:str max_run_res:resources max_run_soft:str max_run_res_soft:resources
    max_user_run:pbs_int max_group_run:pbs_int max_user_res:resources max_group_res:resources
    max_user_run_soft:pbs_int max_group_run_soft:pbs_int max_user_res_soft:resources max_group_res_soft:resources
    pnames:pbs_str total_jobs:pbs_int state_count:state_count acl_host_enable:pbs_bool acl_hosts:acl
    acl_host_moms_enable:pbs_bool acl_resv_host_enable:pbs_bool acl_resv_hosts:acl acl_resv_group_enable:pbs_bool
    acl_resv_groups:acl acl_user_enable:pbs_bool acl_users:acl acl_resv_user_enable:pbs_bool acl_resv_users:acl
    acl_roots:acl managers:acl operators:acl default_queue:queue log_events:pbs_int mailer:pbs_str mail_from:pbs_str
    query_other_jobs:pbs_bool resources_available:resources resources_default:resources default_chunk:resources
    resources_max:resources resources_assigned:resources resources_cost:resources system_cost:pbs_int
    scheduler_iteration:duration comment:pbs_str default_node:pbs_str node_pack:pbs_bool flatuid:pbs_bool
    resv_enable:pbs_bool node_fail_requeue:pbs_int max_array_size:pbs_int resend_term_delay:pbs_int
    require_cred_enable:pbs_bool require_cred:pbs_str node_group_enable:pbs_bool node_group_key:node_group_key
    default_qdel_arguments:args default_qsub_arguments:args rpp_retry:pbs_int rpp_highwater:pbs_int
    pbs_license_info:pbs_str pbs_license_min:pbs_int pbs_license_max:pbs_int pbs_license_linger_time:pbs_int
    license_count:license_count pbs_version:version job_sort_formula:job_sort_formula eligible_time_enable:pbs_bool
    reserve_retry_time:pbs_int reserve_retry_init:pbs_int job_history_enable:pbs_bool job_history_duration:duration
    provision_enable:pbs_bool max_concurrent_provision:pbs_int provision_timeout:duration
    resv_post_processing_time:duration backfill_depth:pbs_int clear_topjob_estimates_enable:pbs_bool
    job_requeue_timeout:duration python_restart_max_hooks:pbs_int python_restart_max_objects:pbs_int
    python_restart_min_interval:duration queued_jobs_threshold:str queued_jobs_threshold_res:resources
    jobscript_max_size:size restrict_res_to_release_on_suspend:pbs_str power_provisioning:pbs_bool
    show_hidden_attribs:pbs_bool sync_mom_hookfiles_timeout:pbs_int rpp_max_pkt_check:pbs_int
    max_job_sequence_id:generic has_runjob_hook:pbs_bool acl_krb_realm_enable:pbs_bool acl_krb_realms:acl
    acl_krb_submit_realms:acl cred_renew_enable:pbs_bool cred_renew_tool:pbs_str cred_renew_period:duration
    cred_renew_cache_period:duration
""")
"""Type of each server attribute."""

RESOURCES: Final = _table("""
    cput:duration mem:size walltime:duration soft_walltime:duration min_walltime:duration max_walltime:duration
    ncpus:pbs_int naccelerators:pbs_int select:select place:place nodes:pbs_str nodect:pbs_int arch:pbs_str
    nchunk:pbs_int vntype:pbs_str mpiprocs:pbs_int ompthreads:pbs_int cpupercent:pbs_int energy:pbs_float file:size
    pmem:size vmem:size pvmem:size nice:pbs_int pcput:duration nodemask:pbs_str hpm:pbs_int ssinodes:pbs_int
    host:pbs_str vnode:vnode resc:pbs_str software:software site:pbs_str exec_vnode:exec_vnode start_time:pbs_int
    partition:pbs_str aoe:pbs_str eoe:pbs_str preempt_targets:pbs_str accelerator:pbs_bool accelerator_model:pbs_str
    accelerator_memory:size accelerator_group:pbs_str pstate:pbs_str hbmem:size pgov:pbs_str pcap_node:pbs_int
    pcap_accelerator:pbs_int
""")
"""Type of each resource that every PBS has."""
RESOURCES_OF_CHUNKS: Final = _names("""
    mem ncpus naccelerators arch nchunk vntype mpiprocs ompthreads vmem vnode aoe eoe accelerator accelerator_model
    accelerator_memory accelerator_group hbmem nodect select place
""")
"""Resources that no hook may set at runjob: they are part of the select specification."""

_CONSTANTS: Final = """
    QUEUEJOB=1 MODIFYJOB=2 RESVSUB=4 MOVEJOB=8 RUNJOB=16 PROVISION=32 EXECJOB_BEGIN=64 EXECJOB_PROLOGUE=128
    EXECJOB_EPILOGUE=256 EXECJOB_END=512 EXECJOB_PRETERM=1024 EXECJOB_LAUNCH=2048 EXECHOST_PERIODIC=4096
    EXECHOST_STARTUP=8192 EXECJOB_ATTACH=16384 PERIODIC=32768 RESV_END=65536 EXECJOB_RESIZE=131072
    EXECJOB_ABORT=262144 EXECJOB_POSTSUSPEND=524288 EXECJOB_PRERESUME=1048576 MOM_EVENTS=1998784 MANAGEMENT=2097152
    MODIFYVNODE=4194304 JOBOBIT=8388608 RESV_BEGIN=16777216 RESV_CONFIRM=33554432 MODIFYRESV=67108864
    POSTQUEUEJOB=134217728 EVENT_ERROR=1 EVENT_SYSTEM=2 EVENT_ADMIN=4 EVENT_JOB=8 EVENT_JOB_USAGE=16
    EVENT_SECURITY=32 EVENT_SCHED=64 EVENT_DEBUG=128 EVENT_DEBUG2=256 EVENT_RESV=512 EVENT_DEBUG3=1024
    EVENT_DEBUG4=2048 EVENT_FORCE=32768 JOB_STATE_TRANSIT=0 JOB_STATE_QUEUED=1 JOB_STATE_HELD=2 JOB_STATE_WAITING=3
    JOB_STATE_RUNNING=4 JOB_STATE_EXITING=5 JOB_STATE_EXPIRED=6 JOB_STATE_BEGUN=7 JOB_STATE_MOVED=8
    JOB_STATE_FINISHED=9 JOB_STATE_SUSPEND=400 JOB_STATE_SUSPEND_USERACTIVE=410 LOG_DEBUG=5 LOG_WARNING=6
    LOG_ERROR=7 QTYPE_EXECUTION=1 QTYPE_ROUTE=2 SV_STATE_IDLE=1 SV_STATE_HOT=2 SV_STATE_ACTIVE=3 SV_STATE_SHUTDEL=4
    SV_STATE_SHUTIMM=5 SV_STATE_SHUTSIG=6
"""
CONSTANTS: Final = {name: int(value) for name, value in (entry.split("=") for entry in _CONSTANTS.split())}
"""Integer constants of ``pbs``."""

ELSEWHERE: Final = _names("""
    BackendError InternalError PbsAttributeDescriptor PbsReadOnlyDescriptor Power get_job get_queue get_resv get_vnode
    iter_nextfunc load_resource_value management mark_vnode_set pbs_conf pbs_iter pbs_resource pbs_statobj reboot
    release_nodes scheduler_restart_cycle server_attribute svr_types v1 validate_input vchunk vnode vnode_ntype
    vnode_sharing vnode_state
""")
"""Names of ``pbs`` that the emulation lacks; their use raises NotImplementedError."""
ELSEWHERE_PREFIXES: Final = (
    "ATR_VFLAG_", "BATCH_OP_", "BRP_CHOICE_", "JOB_SUBSTATE_", "MGR_", "ND_", "RESV_STATE_", "REVERSE_",
)  # fmt: skip
"""Prefixes of more such names."""
