"""The features of the learned attention."""

import math

import numpy as np

from softwalltime.core.compiling import kernel
from softwalltime.predict.predictors.learned import user_jobs as of
from softwalltime.predict.predictors.learned.distribution import REACHES, SIZE, STEPS, Floats
from softwalltime.predict.predictors.learned.features import (
    CENSORED,
    ENDED,
    JOB,
    MAX_PAST_JOBS,
    MAX_RUNNING_JOBS,
    PAIR,
    REACHED,
    Floats32,
    Integers,
)  # fmt: skip

MAX_SEARCHED_JOBS = 256
"""Number of the user's last jobs that are searched."""
LAST, SAME, SAME_WALLTIME = 24, 24, 16
"""Maximum past jobs used: last ones; last ones with the same walltime, processors and queue; with the same walltime."""
MAX_PRIOR_JOBS = 128
"""Maximum jobs of the user with the same walltime for the prior, the last ones."""
RUNNING_WEIGHT = 0.7
"""Weight of a running job, relative to a completed one."""
MAX_SAME_NAME_JOBS = 16
"""Maximum past jobs of the user with the same name, the last ones."""
MAX_KEY_JOBS = 24
"""Number of past jobs with the same walltime, processors and queue that are averaged."""
LOG_SHORT_RUNTIME = math.log(60.0)
"""Logarithm of the runtime in seconds below which a job is short."""
BURST_WINDOW_S = 600.0
"""Maximum age in seconds of submissions that belong to one burst."""
LOG_NEVER = math.log1p(1e6)
"""Logarithm of the time since an event that never happened."""
SAME_RUNTIME, SIMILAR_RUNTIME = 0.03, 0.12
"""Differences of logarithms below which runtimes are the same, and similar."""
MAX_FEATURE = 6.0
"""Features are limited to minus and plus this."""
_LN_RUNNING = math.log(RUNNING_WEIGHT)
_LAST_COUNT = of.MAX_USER_JOBS + 1
_LOG1P: Floats = np.log1p(np.arange(_LAST_COUNT + 1.0))
"""Table of log(1 + count), five times as fast as computing it."""


@kernel(
    "i8(f8, f8, f8, f8, f8, f8, f8[:,:], f8[:,:], f8[:], f8[:], f8, f8, i8[:], i8[:], f8[:], "
    "f4[:,::1], f4[::1], i8[::1], f8[::1], f8[::1], f8[::1], i8[::1], f8[:,::1])"
)
def gather(
    now: float, walltime: float, ncpus: float, of_queue: float, name: float, group: float, ended: Floats,
    running: Floats, submitted: Floats, keys: Floats, key: float, waiting: float, project: Integers, queue: Integers,
    everybody: Floats, pairs: Floats32, job: Floats32, places: Integers, base: Floats, logs: Floats, shifts: Floats,
    kinds: Integers, priors: Floats,
) -> int:  # fmt: skip
    """Write the features, and what the mixture needs, into the last eight arrays; return the number of past jobs.

    The rows are the past jobs, the last one first, then the running ones.
    """
    count, total = ended.shape[1], len(submitted)
    past = min(count, MAX_SEARCHED_JOBS)
    gap_now = math.log1p(max(now - submitted[total - 1], 0.0)) if total else LOG_NEVER
    end_gap_now = math.log1p(max(now - ended[of.END, count - 1], 0.0)) if count else LOG_NEVER
    burst_now = math.log1p(total - np.searchsorted(submitted, now - BURST_WINDOW_S))
    outcome_now = ended[of.RUNTIME, count - 1] if count else walltime
    predecessor_now = keys[total - 1] if total else -1.0
    past_count = alike_count = same_walltime = same_name = alike_chosen = 0
    last_alike, second_alike = -1, -1
    alike_sum = alike_squares = 0.0
    streak, in_streak, alike_of_last = 0, True, 0
    for number in range(past):
        place = count - 1 - number
        of_walltime = ended[of.WALLTIME, place] == walltime
        alike = of_walltime and ended[of.NCPUS, place] == ncpus and ended[of.QUEUE, place] == of_queue
        of_name = name != 0 and ended[of.NAME, place] == name
        runtime = ended[of.RUNTIME, place]
        if in_streak and runtime < LOG_SHORT_RUNTIME:
            streak += 1
        else:
            in_streak = False
        if alike and number < 8:
            alike_of_last += 1
        counts = (
            number < LAST
            or (alike and alike_count < SAME)
            or (of_walltime and same_walltime < SAME_WALLTIME)
            or (of_name and same_name < MAX_SAME_NAME_JOBS)
        )
        if alike:
            if alike_count == 0:
                last_alike = place
            elif alike_count == 1:
                second_alike = place
            if alike_count < MAX_KEY_JOBS:
                alike_sum += runtime - walltime
                alike_squares += (runtime - walltime) ** 2
        if counts and past_count < MAX_PAST_JOBS:
            places[past_count] = place
            pairs[past_count, 10] = _LOG1P[alike_count] / 3.0
            past_count += 1
        alike_count += alike
        same_walltime += of_walltime
        same_name += of_name
    outcome_alike = ended[of.RUNTIME, last_alike] if last_alike >= 0 else walltime
    busy = min(running.shape[1], MAX_RUNNING_JOBS)
    first_running = running.shape[1] - busy
    rows = past_count + busy
    weights = np.empty(past_count)
    weight_sum = short_sum = killed_sum = mean_sum = square_sum = name_sum = 0.0
    # The search for each row starts at the places of the previous row: jobs mostly end in the order of submission.
    before, early, done = total, total, count
    for row in range(rows):
        is_past = row < past_count
        jobs = ended if is_past else running
        place = places[row] if is_past else first_running + row - past_count
        jobs_walltime, then = jobs[of.WALLTIME, place], jobs[of.SUBMITTED, place]
        log = jobs[of.RUNTIME, place] if is_past else math.log(max(now - jobs[of.START, place], 1.0))
        killed = is_past and jobs[of.KILLED, place] > 0
        of_walltime, of_ncpus = jobs_walltime == walltime, jobs[of.NCPUS, place] == ncpus
        same_queue = jobs[of.QUEUE, place] == of_queue
        alike = of_walltime and of_ncpus and same_queue
        of_name = name != 0 and jobs[of.NAME, place] == name
        apart, ratio = abs(jobs_walltime - walltime), abs(jobs[of.NCPUS, place] - ncpus)
        while before > 0 and submitted[before - 1] >= then:
            before -= 1
        while before < total and submitted[before] < then:
            before += 1
        after = before
        while after < total and submitted[after] <= then:
            after += 1
        since = total + 1 - after
        log_hours = math.log1p(max(now - jobs[of.END, place], 0.0) / 3600.0) if is_past else 0.0
        prior = -0.8 * apart - 0.4 * ratio - 0.75 * _LOG1P[min(max(since - 1, 0), _LAST_COUNT)]
        if not of_walltime:
            prior -= 0.1
        if not of_ncpus:
            prior -= 0.4
        if not same_queue:
            prior -= 0.06
        if jobs[of.NAME, place] != name:
            prior -= 0.3
        if is_past:
            prior -= 0.15 * log_hours
        else:
            prior += _LN_RUNNING
        kind = ENDED if is_past else CENSORED
        if killed:
            kind = REACHED if jobs_walltime >= walltime else CENSORED
        base[row], logs[row], shifts[row], kinds[row] = prior, log - walltime, walltime - jobs_walltime, kind
        # The job's place in the sequence of submissions, and of ends.
        burst_began = then - BURST_WINDOW_S
        while early > 0 and submitted[early - 1] >= burst_began:
            early -= 1
        while early < total and submitted[early] < burst_began:
            early += 1
        while done > 0 and ended[of.END, done - 1] > then:
            done -= 1
        while done < count and ended[of.END, done] <= then:
            done += 1
        gap = math.log1p(max(then - submitted[before - 1], 0.0)) if before > 0 else LOG_NEVER
        burst = _LOG1P[min(before - early, _LAST_COUNT)]
        end_gap = math.log1p(max(then - ended[of.END, done - 1], 0.0)) if done > 0 else LOG_NEVER
        outcome = ended[of.RUNTIME, done - 1] if done > 0 else jobs_walltime
        rank = count - 1 - place if is_past else 0
        # In the order of PAIR_FEATURES; those left out are written elsewhere.
        pair = pairs[row]
        pair[0] = apart
        pair[1] = walltime - jobs_walltime
        pair[2] = of_walltime
        pair[3] = ratio
        pair[4] = of_ncpus
        pair[5] = same_queue
        pair[6] = jobs[of.GROUP, place] == group
        pair[7] = of_name
        pair[8] = alike
        pair[9] = _LOG1P[rank] / 3.0
        if not is_past:
            pair[10] = 0.0
        pair[11] = _LOG1P[min(since, _LAST_COUNT)] / 4.0
        pair[12] = log_hours / 3.0
        pair[13] = math.log1p(max(now - then, 0.0)) / 6.0 - 1.0
        pair[14] = not is_past
        pair[15] = killed
        pair[16] = log < LOG_SHORT_RUNTIME
        pair[17] = (log - walltime) / 4.0
        pair[18] = (log - jobs_walltime) / 4.0
        pair[19] = log / 5.0 - 1.0
        pair[20] = kind == REACHED
        pair[21] = _LOG1P[max(place - done, 0) if is_past else max(count - done, 0)] / 4.0
        pair[24] = math.exp(-abs(log - outcome_now)) if count else 0.0
        pair[25] = math.exp(-abs(log - outcome_alike)) if last_alike >= 0 else 0.0
        pair[26] = abs(gap - gap_now) / 3.0
        pair[27] = abs(end_gap - end_gap_now) / 3.0
        pair[28] = before > 0 and keys[before - 1] == predecessor_now
        pair[29] = abs(burst - burst_now) / 2.0
        pair[30] = math.cos((now - then) * (2.0 * math.pi / 86400.0))
        pair[31] = math.exp(-abs(outcome - outcome_now)) if done > 0 and count else 0.0
        pair[32] = prior / 4.0
        if is_past:
            weight = math.exp(prior)
            weights[row] = weight
            weight_sum += weight
            short_sum += weight * (log < LOG_SHORT_RUNTIME)
            killed_sum += weight * killed
            mean_sum += weight * (log - walltime)
            square_sum += weight * (log - walltime) ** 2
            name_sum += weight * of_name
    # Weight of the past jobs with the same, and with a similar, runtime.
    same, similar = np.zeros(rows), np.zeros(rows)
    for other in range(past_count):
        log, weight = logs[other], weights[other]
        # Without branches, so that the compiler vectorises the loop.
        for row in range(rows):
            difference = abs(logs[row] - log)
            similar[row] += weight if difference < SIMILAR_RUNTIME else 0.0
            same[row] += weight if difference < SAME_RUNTIME else 0.0
    for row in range(rows):
        pairs[row, 22] = same[row] / weight_sum if weight_sum > 0 else 0.0
        pairs[row, 23] = similar[row] / weight_sum if weight_sum > 0 else 0.0
    least, most = np.float32(-MAX_FEATURE), np.float32(MAX_FEATURE)
    of_pairs = pairs.ravel()
    for place in range(rows * PAIR):
        of_pairs[place] = min(max(of_pairs[place], least), most)
    priors[:] = 0.0
    own = 0
    for place in range(count - 1, -1, -1):
        if own < MAX_PRIOR_JOBS and ended[of.WALLTIME, place] == walltime:
            own += 1
            priors[0, int(ended[of.SHARE, place])] += 1.0
    for place in range(len(project)):
        priors[1, project[place]] += 1.0
    for place in range(len(queue)):
        priors[2, queue[place]] += 1.0
    # One loop: the sums are independent, so the processor overlaps them.
    own_jobs, project_jobs, queue_jobs = max(own, 1), max(len(project), 1), max(len(queue), 1)
    own_mean = project_mean = queue_mean = site = known = 0.0
    for place in range(SIZE):
        steps = float(place - REACHES)
        priors[0, place] /= own_jobs
        priors[1, place] /= project_jobs
        priors[2, place] /= queue_jobs
        own_mean += priors[0, place] * steps
        project_mean += priors[1, place] * steps
        queue_mean += priors[2, place] * steps
        site += everybody[place] * steps
        known += everybody[place]
    site = site / (4.0 * STEPS * known) if known > 0 else 0.0
    seconds = round(math.exp(walltime))
    alike_running = 0
    oldest = newest = walltime - 8.0
    for place in range(running.shape[1]):
        log = math.log(max(now - running[of.START, place], 1.0))
        if place == 0:
            oldest = log
        newest = log
        alike_running += (
            running[of.WALLTIME, place] == walltime
            and running[of.NCPUS, place] == ncpus
            and running[of.QUEUE, place] == of_queue
        )
    mean = mean_sum / weight_sum if weight_sum > 0 else 0.0
    # In the order of JOB_FEATURES.
    job[0] = (walltime - 9.0) / 3.0
    job[1] = ncpus / 4.0
    job[2] = math.log1p(past) / 5.0
    job[3] = math.log1p(alike_count) / 5.0
    job[4] = math.log1p(same_walltime) / 5.0
    job[5] = seconds % 3600 == 0
    job[6] = seconds % 43200 == 0
    job[7] = gap_now / 6.0 - 1.0
    job[8] = end_gap_now / 6.0 - 1.0
    job[9] = count > 0
    for which in range(3):
        there = which < count
        place = count - 1 - which
        job[10 + which] = (ended[of.RUNTIME, place] - walltime) / 4.0 if there else 0.0
        job[13 + which] = there and ended[of.RUNTIME, place] < LOG_SHORT_RUNTIME
        job[16 + which] = there and ended[of.KILLED, place] > 0
    job[19] = (outcome_alike - walltime) / 4.0
    job[20] = (ended[of.RUNTIME, second_alike] - walltime) / 4.0 if second_alike >= 0 else job[19]
    job[21] = last_alike >= 0
    job[22] = abs(job[19] - job[20])
    job[23] = last_alike >= 0 and outcome_alike < LOG_SHORT_RUNTIME
    job[24] = last_alike >= 0 and ended[of.KILLED, last_alike] > 0
    job[25] = math.log1p(running.shape[1]) / 3.0
    job[26] = math.log1p(waiting) / 4.0
    job[27] = (oldest - walltime) / 4.0
    job[28] = (newest - walltime) / 4.0
    job[29] = math.log1p(alike_running) / 3.0
    job[32] = mean / 4.0
    job[30] = short_sum / weight_sum if weight_sum > 0 else 0.0
    job[31] = killed_sum / weight_sum if weight_sum > 0 else 0.0
    job[33] = math.sqrt(max(square_sum / weight_sum - mean * mean, 0.0)) / 2.0 if weight_sum > 0 else 0.0
    alike_chosen = min(alike_count, MAX_KEY_JOBS)
    mean = alike_sum / alike_chosen if alike_chosen else 0.0
    job[34] = mean / 4.0
    job[35] = math.sqrt(max(alike_squares / alike_chosen - mean * mean, 0.0)) / 2.0 if alike_chosen else 0.0
    job[36] = site
    job[37] = everybody[REACHES]
    job[38] = math.log1p(streak) / 3.0
    job[39] = math.log(weight_sum + 0.01) / 3.0
    job[40] = math.log1p(len(project)) / 5.0
    job[41] = project_mean / (4.0 * STEPS)
    job[42] = priors[1, REACHES]
    job[43] = math.log1p(len(queue)) / 5.0
    job[44] = queue_mean / (4.0 * STEPS)
    job[45] = priors[2, REACHES]
    job[46] = math.log1p(own) / 5.0
    job[47] = own_mean / (4.0 * STEPS)
    job[48] = priors[0, REACHES]
    job[49] = burst_now / 3.0
    job[50] = name_sum / weight_sum if weight_sum > 0 else 0.0
    job[51] = same_name > 0
    job[52] = total > 0 and predecessor_now == key
    job[53] = alike_of_last / 8.0
    for feature in range(JOB):
        job[feature] = min(max(job[feature], least), most)
    return past_count
