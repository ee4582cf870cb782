#!/bin/bash
# boot.sh ROOT: that folder's systemd as init of namespaces of its own, in the foreground.  There is no network but its
# own loopback, so that a PostgreSQL in there and one on the host can both have their port.
set -e
exec unshare --mount --pid --fork --kill-child --cgroup --uts --ipc --net --propagation private bash -c '
set -e
hostname softwalltime-test
mount --rbind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd; ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p oldroot
pivot_root . oldroot
umount -l /oldroot
exec env -i container=softwalltime-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --unit=multi-user.target --show-status=no
' boot "$1"
