# For /etc/profile.d of login nodes: qsub in an interactive shell also prints when such a job will probably start.
# Scripts run qsub itself.  The line goes to a terminal only, after the job was submitted, and nothing depends on it.
case $- in *i*)
    qsub() {
        command qsub "$@" || return
        if [ -t 2 ]; then
            # -V, because arguments of qsub begin with an option, and it changes no forecast.
            timeout 3 softwalltime me --brief --plan "-V $(
                for word; do printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"; done
            )" >&2 2>/dev/null || :
        fi
    }
esac
